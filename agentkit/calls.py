"""The tool calls of one turn, while they run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

from agentkit.attaching import with_fitting
from agentkit.blocks import ToolCall, ToolResult, printable
from agentkit.errors import ConfigurationError, LimitReached
from agentkit.events import Event, ToolResultEvent
from agentkit.finding import as_meant
from agentkit.hooking import after_tool, before_tool
from agentkit.hooks import Hooks
from agentkit.kept import shortened
from agentkit.open_turn import OpenTurn
from agentkit.run_caller import RunCaller, context_of
from agentkit.saved import Answered, Approve, Asked, Deny, checked_answer
from agentkit.state import RunContext, RunState
from agentkit.telemetry import CallSpan
from agentkit.toolset import (
    Call,
    Suspended,
    ToolContext,
    ToolOutput,
    ToolPolicy,
    execute_calls,
    policy_of,
)
from agentkit.toolset.caller import Accept, Declined
from agentkit.toolset.execute import Proceed, is_cancelled, parse_arguments
from agentkit.toolset.outlast import outlast

_LOGGER = logging.getLogger("agentkit")

_INTERRUPTED = ToolOutput.error(
    "This call was begun, and the process that ran it ended before there was a result. Whether it "
    "had an effect is unknown: find out before you call it again."
)
_TOO_MANY = ToolOutput.error(
    "This call was not run: it would be more calls than this run may make."
)


class CallBatch:
    """Runs the calls of an open turn in parallel; keeps each result in it as it comes.

    A call that another process has begun is run again only if its tool says that this is safe. A
    call that needs a person's agreement waits until there is an answer.
    """

    def __init__(self, run: RunState, turn: OpenTurn, allowed: frozenset[str] | None) -> None:
        self._run = run
        self._turn = turn
        self._todo = [call for call in turn.message.calls if call.id not in turn.results]
        self._meant, self._toolset, self._allowed = as_meant(run, self._todo, allowed)
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        """Whether each call has its answer. One that outlives this changes nothing any more."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """Start the calls; yield results and the events of subagents as they come."""
        self._run.sink = self._events.put_nowait
        self._task = asyncio.create_task(self._execute())
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))
        while (event := await self._events.get()) is not None:
            yield event
        await self._task

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended, or its time to clean up has.

        Also where this is cancelled itself meanwhile: nothing of the calls happens behind the end
        of the run. Idempotent.
        """
        self._run.sink = None
        if self._task is None:
            return
        self._task.cancel()
        cancelled = await outlast(self._task)
        if not self._task.cancelled():
            self._task.exception()  # seen by `events`, or of no interest any more
        if cancelled is not None:
            raise cancelled

    async def _execute(self) -> None:
        run = self._run
        self._count()
        try:
            await execute_calls(
                self._toolset,
                self._meant,
                allowed=self._allowed,
                context_factory=self._context,
                max_parallel=run.member.agent.max_parallel,
                on_output=self._on_output,
                around=self._around,
            )
        finally:
            self._is_over = True
            # The task's own end would be heard of a turn of the loop later.
            self._events.put_nowait(None)

    def _context(self, call: Call) -> RunContext:
        assert isinstance(call, ToolCall)
        return context_of(self._run, self._turn, call)

    def _count(self) -> None:
        """Count the calls against the run's limits; none runs, if they are too many."""
        try:
            n_new = sum(call.id not in self._turn.started for call in self._todo)
            self._run.budget.count_tool_calls(n_new)
        except LimitReached:
            for call in self._todo:
                self._keep(call, _TOO_MANY)
            raise

    async def _around(
        self, index: int, context: ToolContext[object], proceed: Proceed
    ) -> ToolOutput:
        """One call, from the question whether it may run to the kept result."""
        call = self._meant[index]
        async with self._span(call) as span:
            output = await self._answer(call, context, proceed)
            self._check_may_end()
            if self._run.broken is not None:
                raise self._run.broken
            output = await after_tool(self._run, call, output)
            output = shortened(self._run, self._toolset.get(call.name), output)
            output = with_fitting(self._run, self._turn, output)
            if span is not None:
                span.ended(output)
        self._check_may_end()
        self._keep(self._todo[index], output)
        await self._run.below.end(call.id)
        await self._run.commit()
        return output

    async def _answer(
        self, call: ToolCall, context: ToolContext[object], proceed: Proceed
    ) -> ToolOutput:
        policy = policy_of(self._toolset.get(call.name))
        self._turn.waiting.discard(call.id)
        if call.id in self._turn.interrupted and not (policy.idempotent or policy.resumes):
            return _INTERRUPTED
        if (asked := self._turn.asked.get(call.id)) is not None:
            return await self._go_on(call, context, proceed, policy, asked)
        answer = self._turn.answers.get(call.id)
        if answer is None and self._must_ask(policy, call, context):
            answer = checked_answer(await self._run.member.agent.approve(call, context))
        elif answer is None:
            answer = Approve()
        match answer:
            case None:
                self._turn.waiting.add(call.id)
                raise Suspended
            case Deny(reason=reason):
                return ToolOutput.error(f"A person did not agree to this call. {reason}".strip())
            case Answered(content=content, is_error=is_error):
                return ToolOutput(content=content, is_error=is_error)
            case Approve():
                return await self._run_call(call, context, proceed, policy, answer.arguments)
            case Accept():
                raise ConfigurationError(
                    f"Accept(values) answers a question, and call {call.id!r} of {call.name!r} "
                    "waits for approval: use Approve()"
                )

    async def _go_on(
        self,
        call: ToolCall,
        context: ToolContext[object],
        proceed: Proceed,
        policy: ToolPolicy,
        asked: Asked,
    ) -> ToolOutput:
        """Go on with a call whose server has asked a question, if there is an answer now."""
        caller = context.caller
        assert isinstance(caller, RunCaller)
        answer = self._turn.answers.get(call.id) or await caller.hook(asked.question)
        match answer:
            case None:
                self._turn.waiting.add(call.id)
                raise Suspended
            case Answered(content=content, is_error=is_error):
                self._turn.asked.pop(call.id)
                return ToolOutput(content=content, is_error=is_error)
            case Accept() | Deny() | Declined():
                caller.goes_on(asked, answer)
            case Approve():
                raise ConfigurationError(
                    f"call {call.id!r} of {call.name!r} waits for the answer to a question: use "
                    "Accept(values), Deny(reason) or Answered(content)"
                )
        _check_may_begin()
        self._turn.asked.pop(call.id)
        self._turn.answers.pop(call.id, None)
        self._turn.started.add(call.id)
        await self._run.commit()  # nobody else may go on from here, too
        return await self._proceed(call, proceed, asked.arguments)

    async def _run_call(
        self,
        call: ToolCall,
        context: ToolContext[object],
        proceed: Proceed,
        policy: ToolPolicy,
        arguments: str | None,
    ) -> ToolOutput:
        _check_may_begin()
        asked = call if arguments is None else replace(call, arguments=arguments)
        if (replaced := await before_tool(self._run, asked)) is not None:
            return replaced
        _check_may_begin()
        await self._started(call, policy)
        if isinstance(context.caller, RunCaller):
            context.caller.arguments = arguments
        return await self._proceed(call, proceed, arguments)

    async def _proceed(self, call: ToolCall, proceed: Proceed, arguments: str | None) -> ToolOutput:
        try:
            output = await proceed(arguments)
        except Suspended:
            self._turn.waiting.add(call.id)
            raise
        if arguments is None:
            return output
        note = f"(A person has changed the arguments to {arguments})\n"
        return replace(output, content=note + output.content)

    def _check_may_end(self) -> None:
        """Stop a call that was cancelled, has gone on, and has had its time to clean up."""
        if self._is_over:
            raise asyncio.CancelledError

    def _must_ask(self, policy: ToolPolicy, call: ToolCall, context: ToolContext[object]) -> bool:
        needs = policy.requires_approval
        if needs is False or (self._allowed is not None and call.name not in self._allowed):
            return False
        try:
            arguments = parse_arguments(call.arguments)
        except ValueError:
            return False  # it cannot run, and the model is told why
        if needs is True:
            return True
        try:
            return bool(needs(arguments, context))
        except Exception:
            _LOGGER.exception("requires_approval of %r failed, so a person is asked", call.name)
            return True

    async def _started(self, call: ToolCall, policy: ToolPolicy) -> None:
        """Keep that a call is begun, where that matters.

        It does where the call must not be run twice, and where it has waited for somebody since the
        last step was kept: another process may have gone on with the run meanwhile.
        """
        self._turn.started.add(call.id)
        may_run_twice = policy.idempotent or policy.resumes
        may_have_waited = policy.requires_approval or any(
            type(hooks).before_tool is not Hooks.before_tool for hooks in self._run.hooks
        )
        if not may_run_twice or may_have_waited:
            await self._run.commit()

    def _span(self, call: ToolCall) -> AbstractAsyncContextManager[CallSpan | None]:
        telemetry = self._run.services.telemetry
        return nullcontext() if telemetry is None else telemetry.call(self._run, call)

    def _keep(self, call: ToolCall, output: ToolOutput) -> None:
        # Made before it is kept: whatever a tool answers, the turn has a result for each call.
        self._turn.results[call.id] = _result(call, output)

    def _on_output(self, index: int, output: ToolOutput) -> None:
        call = self._todo[index]
        if call.id not in self._turn.results:
            self._keep(call, output)
        self._events.put_nowait(ToolResultEvent(self._turn.results[call.id]))


def _check_may_begin() -> None:
    """Stop a call that was cancelled while a person or a hook was asked, whatever they say."""
    if is_cancelled():
        raise asyncio.CancelledError


def _result(call: ToolCall, output: ToolOutput) -> ToolResult:
    return ToolResult(
        call_id=call.id,
        name=call.name,
        content=printable(output.content),
        is_error=output.is_error,
        attachments=output.attachments,
    )
