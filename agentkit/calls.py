"""The tool calls of one turn, while they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from agentkit.blocks import ToolCall, ToolMessage, ToolResult, printable
from agentkit.events import Event, ToolResultEvent
from agentkit.state import RunContext, RunState
from agentkit.toolset import ToolOutput, execute_calls

_CANCELLED = ToolOutput.error(
    "This call was cancelled before it had a result. Whether it had an effect is unknown."
)


class CallBatch:
    """Runs the calls of one turn in parallel. `message()` has a result for each at any time."""

    def __init__(
        self, run: RunState, calls: tuple[ToolCall, ...], allowed: frozenset[str] | None
    ) -> None:
        self._run = run
        self._calls = calls
        self._allowed = allowed
        self._results = [_result(call, _CANCELLED) for call in calls]
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Start the calls; yield results and the events of subagents as they come."""
        self._run.sink = self._events.put_nowait
        self._task = asyncio.create_task(self._execute())
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))
        while (event := await self._events.get()) is not None:
            yield event
        await self._task

    def message(self) -> ToolMessage:
        """Return the results in call order; those without one say they were cancelled."""
        return ToolMessage(tuple(self._results))

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended. Idempotent."""
        self._run.sink = None
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # seen by `events`, or of no interest any more

    async def _execute(self) -> None:
        await execute_calls(
            self._run.member.toolset,
            self._calls,
            allowed=self._allowed,
            context_factory=lambda call: RunContext(
                deps=self._run.member.agent.deps,
                agent=self._run.member.name,
                run_id=self._run.run_id,
                call_id=call.id,
                run=self._run,
            ),
            max_parallel=self._run.member.agent.max_parallel,
            on_output=self._on_output,
        )
        if self._run.broken is not None:
            raise self._run.broken

    def _on_output(self, index: int, output: ToolOutput) -> None:
        # Made before it is kept: whatever a tool answers, `message` has a result for each call.
        result = _result(self._calls[index], output)
        self._results[index] = result
        self._events.put_nowait(ToolResultEvent(result))


def _result(call: ToolCall, output: ToolOutput) -> ToolResult:
    return ToolResult(
        call_id=call.id,
        name=call.name,
        content=printable(output.content),
        is_error=output.is_error,
    )
