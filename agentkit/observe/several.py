"""Several ways to observe a run at once: `telemetry=Several(OpenTelemetry(), RunLog())`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from agentkit.blocks import ToolCall
from agentkit.events import Event, ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.telemetry import CallSpan, Telemetry
from agentkit.toolset import ToolOutput

if TYPE_CHECKING:
    from agentkit.state import RunState


class Several:
    """Implements `Telemetry` by others: the first surrounds the second, and so on."""

    def __init__(self, *parts: Telemetry) -> None:
        self._parts = parts

    def run(
        self, run: RunState, events: AsyncGenerator[Event, None]
    ) -> AsyncGenerator[Event, None]:
        """Pass on the events of a run through all."""
        for part in reversed(self._parts):
            events = part.run(run, events)
        return events

    def request(
        self, run: RunState, request: ModelRequest, events: AsyncGenerator[ModelEvent, None]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Pass on the events of a request through all."""
        for part in reversed(self._parts):
            events = part.request(run, request, events)
        return events

    def call(self, run: RunState, call: ToolCall) -> AbstractAsyncContextManager[CallSpan]:
        """Surround a call with all."""
        return self._call(run, call)

    @asynccontextmanager
    async def _call(self, run: RunState, call: ToolCall) -> AsyncIterator[CallSpan]:
        async with AsyncExitStack() as stack:
            yield _Spans(
                [await stack.enter_async_context(part.call(run, call)) for part in self._parts]
            )


class _Spans:
    def __init__(self, spans: list[CallSpan]) -> None:
        self._spans = spans

    def ended(self, output: ToolOutput) -> None:
        """Tell all."""
        for span in self._spans:
            span.ended(output)
