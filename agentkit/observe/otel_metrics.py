"""The metrics of OpenTelemetry's GenAI conventions, and counters of ours for cache and money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from opentelemetry.metrics import Counter, Histogram, Meter

from agentkit.caching.verdict import Verdict
from agentkit.observe import semconv
from agentkit.usage import Usage

Attributes: TypeAlias = Mapping[str, str | int]

_CALL_S = tuple(0.01 * 2**n for n in range(14))
_AGENT_S = tuple(0.1 * 2**n for n in range(13))
_TOKENS = tuple(4**n for n in range(14))
_CALLS = tuple(2**n for n in range(8))
_MODALITY = {semconv.TOKEN_MODALITY: "unknown"}
"""Providers do not say how many tokens of a prompt are those of an image."""


class Metrics:
    """The instruments. Attributes have few values: agents, models, tools, kinds of error."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, what: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                name, unit=unit, description=what, explicit_bucket_boundaries_advisory=bounds
            )

        def tokens(name: str, what: str) -> Counter:
            full = f"gen_ai.client.inference.usage.{name}"
            return meter.create_counter(full, unit="{token}", description=what)

        inference = "gen_ai.client.inference"
        self.request_s = histogram(
            f"{inference}.duration", "s", "From asking a model to the end of its answer.", _CALL_S
        )
        self.first_chunk_s = histogram(
            f"{inference}.time_to_first_chunk", "s", "Time to the first token.", _CALL_S
        )
        self._input = histogram(
            f"{inference}.operation.input_tokens", "{token}", "Input of one request.", _TOKENS
        )
        self._output = histogram(
            f"{inference}.operation.output_tokens", "{token}", "Output of one request.", _TOKENS
        )
        self._usage = {
            "input_tokens": tokens("input_tokens", "Input tokens, read from a cache or not."),
            "output_tokens": tokens("output_tokens", "Output tokens."),
            "cache_read_tokens": tokens("cache_read.input_tokens", "Input read from a cache."),
            "cache_write_tokens": tokens("cache_write.input_tokens", "Input written to a cache."),
        }
        self.agent_s = histogram("gen_ai.invoke_agent.duration", "s", "One run.", _AGENT_S)
        self.agent_requests = histogram(
            "gen_ai.invoke_agent.inference_calls", "{inference_call}", "Requests of a run.", _CALLS
        )
        self.agent_calls = histogram(
            "gen_ai.invoke_agent.tool_calls", "{tool_call}", "Tool calls of a run.", _CALLS
        )
        self.tool_s = histogram("gen_ai.execute_tool.duration", "s", "One tool call.", _CALL_S)
        self._cost = meter.create_counter(
            "agentkit.cost", unit="{USD}", description="Paid for requests whose price is known."
        )
        self._uncached = meter.create_counter(
            "agentkit.cost.uncached",
            unit="{USD}",
            description="What the same requests would have cost without any cache.",
        )
        self._unpriced = meter.create_counter(
            "agentkit.cost.unpriced_requests",
            unit="{request}",
            description="Requests with a verdict whose cost is not known.",
        )
        self._misses = meter.create_counter(
            "agentkit.cache.misses",
            unit="{request}",
            description="Requests that read less than was planned, by cause.",
        )
        self._lost = meter.create_counter(
            "agentkit.cache.lost_tokens",
            unit="{token}",
            description="Tokens that were paid as new and need not have been, by cause.",
        )

    def count(self, usage: Usage, verdict: Verdict | None, attributes: Attributes) -> None:
        """Count what a request used and cost. What is not known is not counted."""
        for name, counter in self._usage.items():
            if (amount := getattr(usage, name)) is not None:
                counter.add(amount, {**attributes, **_MODALITY})
        if usage.input_tokens is not None:
            self._input.record(usage.input_tokens, attributes)
        if usage.output_tokens is not None:
            self._output.record(usage.output_tokens, attributes)
        if verdict is not None:
            self._judged(verdict, attributes)

    def _judged(self, verdict: Verdict, attributes: Attributes) -> None:
        if verdict.cost is None:
            self._unpriced.add(1, attributes)
        else:
            self._cost.add(float(verdict.cost.total), attributes)
        if verdict.uncached_cost is not None:
            self._uncached.add(float(verdict.uncached_cost), attributes)
        if (shortfall := verdict.shortfall) is not None:
            caused = {**attributes, semconv.MISS_CAUSE: shortfall.cause.value}
            self._misses.add(1, caused)
            self._lost.add(shortfall.lost_tokens, caused)
