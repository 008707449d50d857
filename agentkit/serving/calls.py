"""A call of a served agent, from its arguments to its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit.journal import Journal
from agentkit.observe.team_view import TeamView
from agentkit.saved import Answers, Deny, PausedRun
from agentkit.serving.approval import agreed, answers_of, asked, can_ask, forms, is_modern
from agentkit.serving.arguments import problem_with
from agentkit.serving.conversations import Conversation, Conversations, Forgotten, Waiting
from agentkit.serving.drive import driven
from agentkit.serving.opened import OpenedAgent
from agentkit.serving.results import answered, failed, refused, waits
from agentkit.serving.tools import ASK, DECIDE, Served

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp_types import CallToolRequestParams, CallToolResult, InputRequiredResult

    from agentkit.agent import Agent
    from agentkit.stream import RunStream

    Ctx: TypeAlias = ServerRequestContext[Any, Any]
    Given: TypeAlias = "CallToolResult | InputRequiredResult"

_LOGGER = logging.getLogger("agentkit.serving")
_UNASKED = "nobody could be asked for approval: the client shows its user no forms"


class Calls:
    """Answers the calls of all clients."""

    def __init__(
        self,
        agent: Agent[Any, Any],
        tools: Served,
        opened: OpenedAgent,
        *,
        journal: Journal | None,
        max_runs: int,
        max_sessions: int,
    ) -> None:
        self._agent = agent
        self._tools = tools
        self._opened = opened
        self._journal = journal or agent.journal
        self._running = asyncio.Semaphore(max_runs)
        self._conversations = Conversations(max_sessions)

    async def call(self, ctx: Ctx, params: CallToolRequestParams) -> Given:
        """Answer a call. What goes wrong is an error result.

        Raises:
            MCPError: there is no such tool.
        """
        answer = self._answer_of(params.name)
        try:
            await self._opened.ready()
            if params.request_state is not None:
                responses = params.input_responses or {}
                return await self._go_on(
                    ctx, params.request_state, lambda paused: answers_of(paused, responses)
                )
            return await answer(ctx, params.arguments or {})
        except Forgotten as error:
            return refused(str(error))
        except Exception as error:
            return failed(error)

    def _answer_of(self, name: str) -> Callable[[Ctx, Mapping[str, Any]], Awaitable[Given]]:
        if name == self._tools.ask:
            return self._ask
        if name == self._tools.decide:
            return self._decide
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        raise MCPError(INVALID_PARAMS, f"there is no tool {name!r:.100}")

    async def _ask(self, ctx: Ctx, arguments: Mapping[str, Any]) -> Given:
        if (problem := problem_with(arguments, ASK)) is not None:
            return refused(problem)
        session = arguments.get("session")
        async with self._conversations.at(session) as conversation:
            if (waiting := self._conversations.waiting_in(session)) is not None:
                if self._journal is not None:
                    return self._waits(waiting.paused)
                # Nobody came back to it, and nobody else can.
                self._conversations.taken(waiting.paused.run_id)
                conversation.context = await self._agent.abandon(waiting.paused)
            stream = self._agent.stream(
                arguments["prompt"],
                session=session,
                context=conversation.context,
                journal=self._journal,
            )
            return await self._to_the_end(ctx, stream, conversation)

    async def _decide(self, ctx: Ctx, arguments: Mapping[str, Any]) -> Given:
        if (problem := problem_with(arguments, DECIDE)) is not None:
            return refused(problem)

        def answers(paused: PausedRun) -> Answers:
            is_yes = arguments["decision"] == "approve"
            no, call = Deny(arguments.get("reason", "")), arguments.get("call")
            answers = {each.id: agreed(each) if is_yes else no for each in paused.pending}
            return answers if call is None else {call: answers.get(call, no)}

        return await self._go_on(ctx, arguments["run"], answers)

    async def _go_on(self, ctx: Ctx, run_id: str, answers: Callable[[PausedRun], Answers]) -> Given:
        waiting = await self._waiting(run_id)
        if waiting is None:
            return refused(f"No run {run_id!r:.100} waits here: it was decided, or given up.")
        given = answers(waiting.paused)
        if unknown := given.keys() - {each.id for each in waiting.paused.pending}:
            return self._waits(waiting.paused, f"No call {min(unknown)!r:.200} waits. ")
        async with self._conversations.at(waiting.session) as conversation:
            was_kept_here = self._conversations.waiting(run_id) is not None
            if self._conversations.taken(run_id) is None and was_kept_here:
                return refused(f"The run {run_id!r} was decided meanwhile.")
            stream = self._agent.resume_stream(waiting.paused, given, journal=self._journal)
            return await self._to_the_end(ctx, stream, conversation)

    async def _waiting(self, run_id: str) -> Waiting | None:
        """Return a run that waits: one of this process, or one that the journal has."""
        known = self._conversations.waiting(run_id)
        if known is not None or self._journal is None:
            return known
        runs = await self._journal.load(run_id)
        if not runs or runs[0].status != "paused":
            return None
        session = None if runs[0].session == run_id else runs[0].session
        return Waiting(paused=PausedRun(runs=runs), session=session)

    async def _to_the_end(
        self, ctx: Ctx, stream: RunStream[Any], conversation: Conversation
    ) -> Given:
        """Run until there is an answer, or until nobody can be asked in this request."""
        view, progress = TeamView(self._agent.name), _Progress(ctx)
        while True:
            try:
                async with self._running:
                    await driven(stream, view, progress.tell)
            finally:
                if self._journal is None:
                    conversation.context = stream.context or conversation.context
            if stream.paused is None:
                return answered(stream.result, self._tools)
            paused = stream.paused
            self._conversations.waits(Waiting(paused=paused, session=conversation.name))
            answers = await self._answers(ctx, paused)
            if not isinstance(answers, Mapping):
                return answers
            if self._conversations.taken(paused.run_id) is None:
                return refused(f"The run {paused.run_id!r} was decided meanwhile.")
            stream = self._agent.resume_stream(paused, answers, journal=self._journal)

    async def _answers(self, ctx: Ctx, paused: PausedRun) -> Answers | Given:
        """Ask the client's user; what is returned may be how to ask, or that it has to wait."""
        if can_ask(ctx):
            if is_modern(ctx):
                from mcp_types import InputRequiredResult

                return InputRequiredResult(
                    input_requests=dict(forms(paused)), request_state=paused.run_id
                )
            from mcp import MCPError

            try:
                return await asked(ctx, paused)
            except (MCPError, ValueError) as error:
                _LOGGER.warning("the client could not ask its user: %s", error)
        if self._tools.decide is None and self._journal is None:
            return {each.id: Deny(_UNASKED) for each in paused.pending}
        return self._waits(paused)

    def _waits(self, paused: PausedRun, problem: str = "") -> CallToolResult:
        if self._tools.decide is not None:
            how = f"Ask the user, then call {self._tools.decide} with this run."
        else:
            how = (
                "Nobody can be asked by way of this client. Whoever runs the server decides, with "
                "`agentkit resume`; tell the user so."
            )
        return waits(paused, problem + how)


class _Progress:
    """Tells a client what happens; nothing, if it did not ask for that."""

    def __init__(self, ctx: Ctx) -> None:
        self._ctx = ctx
        self._n_told = 0

    async def tell(self, line: str) -> None:
        self._n_told += 1
        await self._ctx.session.report_progress(self._n_told, message=line)
