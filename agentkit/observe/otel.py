"""Traces and metrics of runs with OpenTelemetry: `Agent(telemetry=OpenTelemetry())`.

    invoke_agent lead                     one run; a subagent's lies below the call that began it
    ├── chat claude-sonnet-5-5            one request; current while it is sent: HTTP lies below
    └── execute_tool delegate_to_reader   one call; current in the tool's task
        └── invoke_agent reader

Names are in `semconv.py`. Nothing that a person or a model said is recorded, unless `content` asks
for it. A span is current only while our own code waits for the next event: between two events the
context of whoever reads them is as it was.
"""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from agentkit.blocks import ToolCall
from agentkit.errors import MissingExtra
from agentkit.events import Event, ModelEvent
from agentkit.finding import is_known
from agentkit.models.base import ModelRequest
from agentkit.observe import semconv
from agentkit.toolset import Suspended, ToolOutput

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context, attach, detach
except ImportError as error:
    raise MissingExtra(
        f"agentkit.observe.otel needs OpenTelemetry, which is not installed ({error}); "
        'in a checkout run: pip install -c requirements.lock ".[otel]"'
    ) from error

from agentkit.observe.otel_chat import (
    Reply,
    describe_verdict,
    request_attributes,
)
from agentkit.observe.otel_content import input_messages, system_instructions
from agentkit.observe.otel_errors import record_error
from agentkit.observe.otel_metrics import Metrics
from agentkit.observe.otel_run import TracedRun, chat_labels
from agentkit.observe.within import within

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from agentkit.state import RunState
    from agentkit.telemetry import CallSpan


class OpenTelemetry:
    """Implements `agentkit.telemetry.Telemetry`. One object serves any number of agents and runs.

    Args:
        tracer_provider: takes the spans; by default the process's own.
        meter_provider: takes the metrics; by default the process's own.
        content: whether to record what was said: prompts, answers, arguments and results of tools,
            and the texts of all errors. Off by default: they may hold what nobody should read.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer("agentkit", tracer_provider=tracer_provider)
        self._metrics = Metrics(metrics.get_meter("agentkit", meter_provider=meter_provider))
        self._content = content
        self._runs: WeakKeyDictionary[RunState, TracedRun] = WeakKeyDictionary()

    async def run(
        self, run: RunState, events: AsyncGenerator[Event, None]
    ) -> AsyncGenerator[Event, None]:
        """Trace a run as `invoke_agent`."""
        traced = TracedRun(run, self._tracer, self._metrics, content=self._content)
        self._runs[run] = traced
        try:
            async with aclosing(within(_current(traced.span), events)) as inside:
                async for event in inside:
                    traced.saw(event)
                    yield event
        except BaseException as error:
            traced.broke(error)
            raise
        finally:
            traced.end()

    async def request(
        self, run: RunState, request: ModelRequest, events: AsyncGenerator[ModelEvent, None]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Trace a request as `chat`."""
        traced, span = self._runs.get(run), self._chat_span(run, request)
        reply = Reply(content=self._content)
        error_type: str | None = None
        try:
            self._show_input(traced, span, request)
            async with aclosing(within(_current(span), events)) as inside:
                async for event in inside:
                    reply.push(event)
                    yield event
        except BaseException as error:
            if reply.finish is None:
                error_type = record_error(span, error, content=self._content)
            raise
        finally:
            self._answered(run, request, reply, error_type)
            if traced is not None:
                traced.asked(request, reply.verdict)
            reply.describe(span)
            if reply.verdict is not None:
                describe_verdict(span, reply.verdict, content=self._content)
            span.end()

    def call(self, run: RunState, call: ToolCall) -> AbstractAsyncContextManager[CallSpan]:
        """Trace a tool call as `execute_tool`, in the task that runs it."""
        return self._call(run, call)

    @asynccontextmanager
    async def _call(self, run: RunState, call: ToolCall) -> AsyncIterator[CallSpan]:
        if (traced := self._runs.get(run)) is not None:
            traced.n_calls += 1
        # A model may call a tool that does not exist: its name must not become a label.
        name = call.name if is_known(run, call.name) else "unknown"
        labels: dict[str, str | int] = {
            semconv.TOOL_NAME: name,
            semconv.AGENT_NAME: run.member.name,
        }
        attributes = {
            semconv.OPERATION: semconv.EXECUTE_TOOL,
            **labels,
            semconv.TOOL_TYPE: "function",
            semconv.TOOL_CALL_ID: call.id,
            semconv.CONVERSATION_ID: run.session,
            semconv.RUN_ID: run.run_id,
        }
        if self._content:
            attributes[semconv.TOOL_ARGUMENTS] = call.arguments
        began_s = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"{semconv.EXECUTE_TOOL} {name}",
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            traced_call = _TracedCall(span, content=self._content)
            try:
                yield traced_call
            except Suspended:
                span.set_attribute(semconv.CALL_SUSPENDED, True)
                raise
            except BaseException as error:
                traced_call.error_type = record_error(span, error, content=self._content)
                raise
            finally:
                if traced_call.error_type is not None:
                    labels[semconv.ERROR_TYPE] = traced_call.error_type
                self._metrics.tool_s.record(time.perf_counter() - began_s, labels)

    def _chat_span(self, run: RunState, request: ModelRequest) -> Span:
        label = run.member.model.label
        model = semconv.model_attributes(label)
        traced = self._runs.get(run)
        span = self._tracer.start_span(
            f"{semconv.CHAT} {model[semconv.REQUEST_MODEL]}",
            kind=trace.SpanKind.INTERNAL if semconv.is_in_process(label) else trace.SpanKind.CLIENT,
            attributes={
                semconv.OPERATION: semconv.CHAT,
                **model,
                semconv.AGENT_NAME: run.member.name,
                semconv.CONVERSATION_ID: run.session,
                semconv.RUN_ID: run.run_id,
                **request_attributes(request),
            },
        )
        if traced is not None and traced.is_compacted:
            span.set_attribute(semconv.COMPACTED, True)
        return span

    def _show_input(self, traced: TracedRun | None, span: Span, request: ModelRequest) -> None:
        if self._content and span.is_recording():
            new = request.context.messages if traced is None else traced.new_messages(request)
            span.set_attribute(semconv.INPUT_MESSAGES, input_messages(new))
            span.set_attribute(semconv.SYSTEM_INSTRUCTIONS, system_instructions(request.context))

    def _answered(
        self, run: RunState, request: ModelRequest, reply: Reply, error_type: str | None
    ) -> None:
        labels = chat_labels(run, reply.model)
        self._metrics.count(reply.usage, reply.verdict, labels)
        if reply.first_chunk_s is not None:
            self._metrics.first_chunk_s.record(reply.first_chunk_s, labels)
        if error_type is not None:
            labels[semconv.ERROR_TYPE] = error_type
        self._metrics.request_s.record(reply.passed_s, labels)


class _TracedCall:
    """One tool call that is being traced."""

    def __init__(self, span: Span, *, content: bool) -> None:
        self._span = span
        self._content = content
        self.error_type: str | None = None

    def ended(self, output: ToolOutput) -> None:
        """Say what the call answered."""
        if output.is_error:
            self.error_type = "tool_error"
            self._span.set_attribute(semconv.ERROR_TYPE, "tool_error")
            self._span.set_status(trace.StatusCode.ERROR)
        if self._content:
            self._span.set_attribute(semconv.TOOL_RESULT, output.content)


def _current(span: Span) -> Callable[[], AbstractContextManager[None]]:
    return functools.partial(_attached, trace.set_span_in_context(span))


@contextmanager
def _attached(context: Context) -> Iterator[None]:
    token = attach(context)
    try:
        yield
    finally:
        detach(token)
