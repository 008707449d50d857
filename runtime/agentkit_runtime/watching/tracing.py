"""Traces of requests with OpenTelemetry, as parts of the clients' own traces.

    chat SmolLM2                SERVER; its parent is what the client's `traceparent` names
    ├── queue                   in the engine, before the first step
    ├── prefill                 up to the first token
    └── decode                  up to the last

Only OpenTelemetry's API is used: which spans are kept, and where they go, is the process's own
setting (`opentelemetry-instrument agentkit-runtime serve ...` makes it from the environment).
Names are those of the GenAI conventions (open-telemetry/semantic-conventions-genai, November 2026,
status Development). Nothing that was said is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from agentkit_runtime.watching.exchange import Exchange
from agentkit_runtime.watching.record import RequestRecord
from agentkit_runtime.watching.watch import GONE_STATUS

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import attach, detach
except ImportError as error:
    raise ImportError(
        f"tracing needs OpenTelemetry, which is not installed ({error}); "
        'in a checkout run: pip install -c requirements.lock ".[otel]" opentelemetry-distro'
    ) from error

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

_LOG = logging.getLogger(__name__)

OPERATIONS: Final = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "chat",
    "/v1/messages": "chat",
    "/v1/completions": "text_completion",
}
"""`gen_ai.operation.name` by endpoint. A span of any other endpoint is named by its route."""


class Tracing:
    """Traces HTTP requests. One object serves a whole server."""

    def __init__(self, model: str, tracer_provider: TracerProvider | None = None) -> None:
        """`tracer_provider` takes the spans; by default the process's own."""
        if tracer_provider is None and isinstance(
            trace.get_tracer_provider(), trace.ProxyTracerProvider
        ):
            _LOG.warning(
                "requests are traced, but no tracer provider is set up, so the spans go nowhere: "
                "install opentelemetry-distro and an exporter, and start the server with "
                "opentelemetry-instrument"
            )
        self._model = model
        self._tracer = trace.get_tracer("agentkit_runtime", tracer_provider=tracer_provider)

    @contextmanager
    def request(self, exchange: Exchange, scope: Scope) -> Iterator[None]:
        """Trace what is done inside as the answer to one request."""
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        parent = propagate.extract(headers)
        span = self._tracer.start_span(exchange.method, context=parent, kind=trace.SpanKind.SERVER)
        context = span.get_span_context()
        exchange.trace_id = f"{context.trace_id:032x}" if context.is_valid else None
        # Behind the parent's: what a client sends along (baggage) goes on, too.
        token = attach(trace.set_span_in_context(span, parent))
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.StatusCode.ERROR)
            raise
        finally:
            detach(token)
            self._end(span, exchange, scope)

    def _end(self, span: Span, exchange: Exchange, scope: Scope) -> None:
        if span.is_recording():
            route = str(getattr(scope.get("route"), "path", "none"))
            status = exchange.status or GONE_STATUS
            span.set_attributes(
                {
                    "http.request.method": exchange.method,
                    "http.route": route,
                    "http.response.status_code": status,
                    "agentkit.request.id": exchange.request_id,
                }
            )
            span.update_name(f"{exchange.method} {route}")
            if status >= 500:
                span.set_attribute("error.type", str(status))
                span.set_status(trace.StatusCode.ERROR)
            for record in exchange.records:
                self._describe(span, record)
        span.end()

    def _describe(self, span: Span, record: RequestRecord) -> None:
        operation = OPERATIONS.get(record.endpoint)
        if operation is not None:
            span.set_attribute("gen_ai.operation.name", operation)
            span.update_name(f"{operation} {self._model}")
        span.set_attributes(_attributes(record, self._model))
        if record.outcome == "failed":
            span.set_attribute("error.type", record.code or "error")
            span.set_status(trace.StatusCode.ERROR)
        context = trace.set_span_in_context(span)
        for name, began_s, ended_s in _phases(record):
            child = self._tracer.start_span(name, context, start_time=_ns(began_s))
            child.end(_ns(ended_s))


def _attributes(record: RequestRecord, model: str) -> dict[str, AttributeValue]:
    """What is known; what is not is left out, and is never 0."""
    known: dict[str, AttributeValue | None] = {
        "gen_ai.provider.name": "agentkit",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.response.id": record.id,
        "gen_ai.conversation.id": record.session,
        "gen_ai.response.finish_reasons": list(record.finish) or None,
        "gen_ai.response.time_to_first_chunk": record.ttft_s,
        "agentkit.tenant": record.tenant,
        "agentkit.key.id": record.key_id,
        "agentkit.priority": record.priority,
        "agentkit.outcome": record.outcome,
        "agentkit.error.code": record.code,
    }
    if record.prompt_tokens:
        known |= {
            "gen_ai.usage.input_tokens": record.prompt_tokens,
            "gen_ai.usage.output_tokens": record.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": record.cached_tokens,
            "gen_ai.usage.cache_write.input_tokens": record.prompt_tokens - record.cached_tokens,
            "agentkit.cache.restored_tokens": record.restored_tokens,
            "agentkit.cache.miss.cause": record.missed,
            "agentkit.cache.lost_tokens": record.lost_tokens,
        }
    return {name: value for name, value in known.items() if value is not None}


def _phases(record: RequestRecord) -> Iterator[tuple[str, float, float]]:
    """Name, begin and end (Unix seconds) of what the engine did, reckoned back from its end."""
    if record.ended_unix_s is None or record.queue_s is None or record.prefill_s is None:
        return
    began_s = record.ended_unix_s - record.queue_s - record.prefill_s - (record.decode_s or 0.0)
    for name, seconds in (
        ("queue", record.queue_s),
        ("prefill", record.prefill_s),
        ("decode", record.decode_s),
    ):
        if seconds is not None:
            yield name, began_s, began_s + seconds
            began_s += seconds


def _ns(unix_s: float) -> int:
    return int(unix_s * 1e9)
