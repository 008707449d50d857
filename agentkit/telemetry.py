"""The seam for tracing: wraps a run, a request and a call, so that a span can be current in each.

`agentkit.observe.otel` implements it with OpenTelemetry. Without telemetry nothing is wrapped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from agentkit.blocks import ToolCall
from agentkit.events import Event, ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.toolset import ToolOutput

if TYPE_CHECKING:
    from agentkit.state import RunState


class CallSpan(Protocol):
    """One tool call that is being traced."""

    def ended(self, output: ToolOutput) -> None:
        """Say what the call answered."""
        ...


class Telemetry(Protocol):
    """Traces runs. Must not raise and must not change what passes through it."""

    def run(
        self, run: RunState, events: AsyncGenerator[Event, None]
    ) -> AsyncGenerator[Event, None]:
        """Pass on the events of a run, from its first to its last."""
        ...

    def request(
        self, run: RunState, request: ModelRequest, events: AsyncGenerator[ModelEvent, None]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Pass on the events of one request; closing the generator must close `events`."""
        ...

    def call(self, run: RunState, call: ToolCall) -> AbstractAsyncContextManager[CallSpan]:
        """Surround one tool call, in the task that runs it."""
        ...


def ask_model(run: RunState, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """Ask the run's model, and trace the request if the run is traced."""
    stream = run.member.model.stream(request)
    telemetry = run.services.telemetry
    return stream if telemetry is None else telemetry.request(run, request, stream)
