"""One request to a model as attributes of its span."""

from __future__ import annotations

import time

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from agentkit.caching.verdict import Shortfall, Verdict
from agentkit.errors import ModelError
from agentkit.events import CacheEvent, FinishReason, ModelEnd, ModelEvent, UsageEvent
from agentkit.folding import TurnBuilder
from agentkit.models.base import ModelRequest
from agentkit.observe import semconv
from agentkit.observe.otel_content import output_messages
from agentkit.usage import Timing, Usage


class Reply:
    """What is known of an answer while it comes. Holds its text only if `content` asks for it."""

    def __init__(self, *, content: bool) -> None:
        self.usage = Usage()
        self.verdict: Verdict | None = None
        self.finish: FinishReason | None = None
        self.model: str | None = None
        """Label of who answers, where that is another than who was asked."""
        self._timing = Timing()
        self._builder = TurnBuilder() if content else None
        self._asked_s = time.perf_counter()
        self._first_s: float | None = None

    def push(self, event: ModelEvent) -> None:
        """Add the next event."""
        if self._first_s is None:
            self._first_s = time.perf_counter() - self._asked_s
        match event:
            case UsageEvent():
                self.usage = self.usage.merge(event.usage)
                self._timing = self._timing.merge(event.timing)
                self.model = event.model or self.model
            case CacheEvent():
                self.verdict = event.verdict
            case ModelEnd():
                self.finish = event.finish
            case _:
                pass
        if self._builder is not None:
            try:
                self._builder.push(event)
            except ModelError:
                self._builder = None  # the loop says what is wrong with the stream

    @property
    def first_chunk_s(self) -> float | None:
        """Seconds to the first token: as the model says, else as it was seen here."""
        return self._first_s if self._timing.ttft_s is None else self._timing.ttft_s

    @property
    def passed_s(self) -> float:
        """Seconds since it was asked."""
        return time.perf_counter() - self._asked_s

    def describe(self, span: Span) -> None:
        """Set what is known of the answer, also if it broke off."""
        if self.model is not None:
            answered = semconv.model_attributes(self.model)
            span.set_attributes(answered)
            span.set_attribute(semconv.RESPONSE_MODEL, answered[semconv.REQUEST_MODEL])
            span.update_name(f"{semconv.CHAT} {answered[semconv.REQUEST_MODEL]}")
        span.set_attribute(semconv.FINISH_REASONS, [self.finish or "error"])
        if self.first_chunk_s is not None:
            span.set_attribute(semconv.TIME_TO_FIRST_CHUNK, self.first_chunk_s)
        span.set_attributes(usage_attributes(self.usage))
        if self._builder is not None and self.finish is not None:
            message = self._builder.finish().message
            span.set_attribute(semconv.OUTPUT_MESSAGES, output_messages(message, self.finish))


def request_attributes(request: ModelRequest) -> dict[str, AttributeValue]:
    """Return what a request asks for; what is left to the model's default is left out."""
    settings = request.settings
    given: dict[str, AttributeValue | None] = {
        semconv.REQUEST_STREAM: True,
        semconv.OUTPUT_TYPE: "text" if request.output_schema is None else "json",
        semconv.REQUEST_TEMPERATURE: settings.temperature,
        semconv.REQUEST_TOP_P: settings.top_p,
        semconv.REQUEST_TOP_K: settings.top_k,
        semconv.REQUEST_SEED: settings.seed,
        semconv.REQUEST_MAX_TOKENS: settings.max_tokens,
        semconv.REQUEST_STOP: list(settings.stop) or None,
        semconv.REQUEST_ID: request.request_id,
        semconv.EPOCH: request.epoch,
        semconv.TENANT: request.tenant or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    """Return tokens and the hit ratio. What the model did not say is left out, and is never 0."""
    known: dict[str, AttributeValue | None] = {
        semconv.INPUT_TOKENS: usage.input_tokens,
        semconv.OUTPUT_TOKENS: usage.output_tokens,
        semconv.CACHE_READ_TOKENS: usage.cache_read_tokens,
        semconv.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        semconv.HIT_RATIO: usage.hit_ratio,
    }
    return {name: value for name, value in known.items() if value is not None}


def describe_verdict(span: Span, verdict: Verdict, *, content: bool) -> None:
    """Set what the cache did; a shortfall is an event, too, at the time when it was found.

    The sentence that explains it quotes bytes of the prompt, so it is content.
    """
    span.set_attribute(semconv.PREDICTED_READ, verdict.predicted.split.read)
    if verdict.cost is not None:
        span.set_attribute(semconv.COST, float(verdict.cost.total))
    if verdict.uncached_cost is not None:
        span.set_attribute(semconv.UNCACHED_COST, float(verdict.uncached_cost))
    if (shortfall := verdict.shortfall) is not None:
        found = _shortfall(shortfall, content=content)
        span.set_attribute(semconv.MISS_CAUSE, shortfall.cause.value)
        span.set_attribute(semconv.LOST_TOKENS, shortfall.lost_tokens)
        span.add_event(semconv.MISS_EVENT, found)


def _shortfall(shortfall: Shortfall, *, content: bool) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue | None] = {
        semconv.MISS_CAUSE: shortfall.cause.value,
        semconv.LOST_TOKENS: shortfall.lost_tokens,
        semconv.LOST_COST: None if shortfall.lost_usd is None else float(shortfall.lost_usd),
        semconv.MISS_DETAIL: shortfall.detail if content else None,
    }
    if (difference := shortfall.difference) is not None:
        found |= {
            semconv.MISS_SEGMENT: difference.segment,
            semconv.MISS_SECTION: difference.section,
            semconv.MISS_BLOCK: difference.block,
            semconv.MISS_BYTE: difference.byte,
            semconv.MISS_SOURCE: difference.source,
        }
    return {name: value for name, value in found.items() if value is not None}
