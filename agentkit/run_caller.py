"""A run as its calls see it: it shows their progress, and puts what they ask to the agent.

A question goes to `Agent.elicit`. Where that has no answer, the call waits like one that needs
approval: the run pauses, and the answer may come in another process. A server's wish for words of
the model goes to `Agent.approve_sampling`; it is a request of its own, beside the conversation.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentkit.asking_aside import ask_aside
from agentkit.blocks import ToolCall
from agentkit.context import Context, SystemPart, SystemText
from agentkit.errors import ConfigurationError, LimitReached, PriceUnknown
from agentkit.events import ToolProgress
from agentkit.models.base import ModelRequest, Reuse, Settings
from agentkit.saved import Answered, Asked, Deny, checked_values
from agentkit.state import RunContext
from agentkit.toolset import Suspended, Toolset
from agentkit.toolset.caller import (
    Accept,
    Declined,
    Question,
    Sampled,
    SamplingRequest,
    TakenUp,
)

if TYPE_CHECKING:
    from agentkit.open_turn import OpenTurn
    from agentkit.state import RunState

_LOGGER = logging.getLogger("agentkit.mcp")
_NO_TOOLS = Toolset()


def context_of(run: RunState, turn: OpenTurn, call: ToolCall) -> RunContext:
    """Return what a call of an open turn knows."""
    return RunContext(
        deps=run.member.agent.deps,
        agent=run.member.name,
        run_id=run.run_id,
        call_id=call.id,
        run=run,
        caller=RunCaller(run, turn, call),
    )


class RunCaller:
    """What one call may ask of the run that makes it."""

    def __init__(self, run: RunState, turn: OpenTurn, call: ToolCall) -> None:
        self.arguments: str | None = None
        """What it runs with in place of the model's arguments."""
        self._run = run
        self._turn = turn
        self._call = call
        self._taken: TakenUp | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._numbers: Iterator[int] = itertools.count()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell whoever listens to the run; not the model."""
        event = ToolProgress(
            call_id=self._call.id, name=self._call.name, done=done, total=total, message=message
        )
        if threading.get_ident() == self._thread:
            self._emit(event)
            return
        try:
            self._loop.call_soon_threadsafe(self._emit, event)
        except RuntimeError:
            return  # the loop is closed: a thread that nobody waits for any more

    async def ask(self, question: Question, *, kept: str | None) -> Accept | Declined:
        """Ask the agent, and where it does not know, a person: later."""
        answer = await self.hook(question)
        if answer is not None:
            return answer
        if kept is None:
            return Declined("nobody could be asked")
        self._turn.asked[self._call.id] = Asked(
            question=question, kept=kept, arguments=self.arguments
        )
        self._turn.answers.pop(self._call.id, None)  # what was said before is of no use any more
        raise Suspended

    async def hook(self, question: Question) -> Accept | Declined | None:
        """Return what the agent itself answers; None: it does not know.

        An answer that is none, or does not fit, is logged, and a person is asked in its place; as
        where the agent fails: what it raises is the program's own, and no word to a server.
        """
        context = context_of(self._run, self._turn, self._call)
        name, agent = self._run.member.name, self._run.member.agent
        try:
            checked = checked_values(question, await agent.elicit(question, context))
            if isinstance(checked, Answered):
                raise ConfigurationError("it must be Accept(values), Deny(reason) or None")
        except ConfigurationError as error:
            _LOGGER.warning(
                "agent %r: elicit has no answer of use for MCP server %r, so a person is asked, "
                "where the server can wait: %s",
                name,
                question.server,
                error,
            )
            return None
        except Exception:
            _LOGGER.exception(
                "agent %r: elicit failed at a question of MCP server %r, so a person is asked, "
                "where the server can wait",
                name,
                question.server,
            )
            return None
        return declined(checked) if isinstance(checked, Deny) else checked

    async def sample(self, request: SamplingRequest) -> Sampled | Declined:
        """Ask the agent's model, if the agent agrees. Nothing of the conversation is shown to it,
        and nothing of it becomes a part of the conversation."""
        run = self._run
        if not await self._allows(request):
            return Declined("the agent does not allow that")
        try:
            turn = await ask_aside(
                run, self._sampling(request), f"an answer for server {request.server!r}", _LOGGER
            )
        except (LimitReached, PriceUnknown) as error:
            return Declined(str(error))
        if turn is None:
            return Declined("the model failed")
        return Sampled(
            text=turn.message.text,
            model=turn.model or run.member.model.label,
            is_cut=turn.finish == "length",
        )

    async def _allows(self, request: SamplingRequest) -> bool:
        context = context_of(self._run, self._turn, self._call)
        member = self._run.member
        try:
            return await member.agent.approve_sampling(request, context) is True
        except Exception:
            _LOGGER.exception(
                "agent %r: approve_sampling failed at a request of MCP server %r, which counts as "
                "no",
                member.name,
                request.server,
            )
            return False

    def take_up(self) -> TakenUp | None:
        """Return where the call goes on, once."""
        taken, self._taken = self._taken, None
        return taken

    def goes_on(self, asked: Asked, answer: Accept | Deny | Declined) -> None:
        """Let the call go on where it asked, with the answer."""
        if isinstance(answer, Deny):
            answer = declined(answer)
        self.arguments = asked.arguments
        self._taken = TakenUp(kept=asked.kept, answer=answer)

    def _emit(self, event: ToolProgress) -> None:
        # A call that has its result is over, whatever a thread of it still says.
        if self._call.id not in self._turn.results and self._run.sink is not None:
            self._run.sink(event)

    def _sampling(self, request: SamplingRequest) -> ModelRequest:
        run = self._run
        front = [SystemText(SystemPart.ROLE, request.system)] if request.system else []
        # Names of its own: nothing that is known of the conversation's cache is touched.
        name = f"{run.run_id}-{self._call.id}-sampling-{next(self._numbers)}"
        return ModelRequest(
            context=Context(*front, *request.messages),
            toolset=_NO_TOOLS,
            settings=Settings(max_tokens=request.max_tokens, stop=request.stop),
            agent=f"{run.member.name}.{request.server}",
            run_id=name,
            request_id=name,
            session=name,
            tenant=run.member.tenant,
            reuse=Reuse(turns_left=0, again=False, front_again=False),
        )


def declined(answer: Deny) -> Declined:
    """A person's no, in words for the model."""
    return Declined(f"a person declined. {answer.reason}".strip().rstrip("."))
