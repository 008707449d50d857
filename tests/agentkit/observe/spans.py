"""OpenTelemetry's SDK with exporters in memory, for tests."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentkit.observe.otel import OpenTelemetry


class Seen:
    """What was exported."""

    def __init__(self, *, content: bool = False) -> None:
        self._spans = InMemorySpanExporter()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._reader = InMemoryMetricReader()
        self.tracers = tracers
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.meters = meters
        self.telemetry = OpenTelemetry(tracers, meters, content=content)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._spans.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def parent(self, span: ReadableSpan) -> ReadableSpan | None:
        if span.parent is None:
            return None
        return next(each for each in self.spans if each.context.span_id == span.parent.span_id)

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def tree(self) -> list[str]:
        """Each span with the names above it, in the order in which they began."""
        began = sorted(self.spans, key=lambda span: span.start_time or 0)
        return [" > ".join(self._names_above(span)) for span in began]

    def _names_above(self, span: ReadableSpan) -> list[str]:
        above = self.parent(span)
        return [*([] if above is None else self._names_above(above)), span.name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
