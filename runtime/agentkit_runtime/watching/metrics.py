"""Counters and histograms of requests. What the engine counts itself is in `engine_metrics`."""

from __future__ import annotations

from typing import Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from agentkit_runtime.kv.missed import Cause
from agentkit_runtime.watching.record import Finish, RequestRecord, Temperature

FIRST_TOKEN_BUCKETS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Seconds; vLLM's buckets of these metrics, so that quantiles can be compared."""

GAP_BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)

REQUEST_BUCKETS: Final = (
    *(0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0),
    *(40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)

TOKEN_BUCKETS: Final = tuple(float(2**power) for power in range(21))

MAX_LABELS: Final = 100
"""Most values of a label that a client or an operator can make up; further ones are `OTHER`."""

OTHER: Final = "other"


class RequestMetrics:
    """Counts records. Used in the server's event loop."""

    def __init__(self, registry: CollectorRegistry, model: str, *, by_tenant: bool = False) -> None:
        """`by_tenant` counts tenants apart, up to `MAX_LABELS` of them."""
        self._registry = registry
        self._model = model
        self._first = self._histogram(
            "time_to_first_token_seconds",
            "From a request's arrival to the first piece of its answer, by whether at least half "
            "of its prompt was read from the cache (hit, miss; unknown: it broke off).",
            FIRST_TOKEN_BUCKETS,
            ("cache",),
        )
        self._gap = self._histogram(
            "inter_token_latency_seconds", "Between two pieces of an answer.", GAP_BUCKETS
        ).labels(model)
        self._whole = self._seconds("e2e_request_latency_seconds", "From arrival to end.")
        self._queue = self._seconds(
            "request_queue_time_seconds", "In the engine, before the first step."
        )
        self._prefill = self._seconds(
            "request_prefill_time_seconds", "From the first step to the first token."
        )
        self._decode = self._seconds(
            "request_decode_time_seconds", "From the first token to the last."
        )
        self._prompt = self._histogram(
            "request_prompt_tokens", "Tokens of a prompt.", TOKEN_BUCKETS
        ).labels(model)
        self._completion = self._histogram(
            "request_generation_tokens", "Tokens of all answers to a request.", TOKEN_BUCKETS
        ).labels(model)
        self._ended = self._counter(
            "requests",
            "Answers that ended, by reason; abort: cut off, revoked: their key was.",
            ("finished_reason",),
        )
        self._missed = self._counter(
            "cache_outcome_requests",
            "Requests by why no more of their prompt was read from the cache.",
            ("cause",),
        )
        self._refused = self._counter(
            "requests_refused", "Requests that were not let in.", ("status", "code")
        )
        self._failed = self._counter("requests_failed", "Requests that broke.", ("code",))
        self._tenants = _TenantMetrics(registry, model) if by_tenant else None
        self._codes: set[str] = set()
        self._begin_at_zero()

    def add(self, record: RequestRecord) -> None:
        """Count a request that is over."""
        model = self._model
        code = bounded(record.code or "none", self._codes)
        if record.outcome == "refused":
            self._refused.labels(model, str(record.status), code).inc()
        elif record.outcome == "failed":
            self._failed.labels(model, code).inc()
        for reason in record.finish:
            self._ended.labels(model, reason).inc()
        if record.ttft_s is not None:
            self._first.labels(model, record.temperature).observe(record.ttft_s)
        if record.queue_s is not None and record.prefill_s is not None:
            self._add_engine_times(record, record.queue_s, record.prefill_s)
        if record.missed is not None:
            self._missed.labels(model, _label(record.missed)).inc()
        if self._tenants is not None:
            self._tenants.add(record)

    def gap(self, seconds: float) -> None:
        """Count the time between two pieces of an answer."""
        self._gap.observe(seconds)

    def _begin_at_zero(self) -> None:
        """Else the first of a kind would be no increase, and alerts would not see it."""
        for reason in get_args(Finish):
            self._ended.labels(self._model, reason)
        for cause in get_args(Cause):
            self._missed.labels(self._model, _label(cause))
        for temperature in get_args(Temperature):
            self._first.labels(self._model, temperature)

    def _add_engine_times(self, record: RequestRecord, queue_s: float, prefill_s: float) -> None:
        self._whole.observe(record.seconds)
        self._queue.observe(queue_s)
        self._prefill.observe(prefill_s)
        if record.decode_s is not None:
            self._decode.observe(record.decode_s)
        self._prompt.observe(record.prompt_tokens)
        self._completion.observe(record.completion_tokens)

    def _seconds(self, name: str, text: str) -> Histogram:
        return self._histogram(name, text, REQUEST_BUCKETS).labels(self._model)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> Histogram:
        return Histogram(
            f"agentkit_{name}",
            text,
            ("model_name", *labels),
            buckets=buckets,
            registry=self._registry,
        )

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"agentkit_{name}", text, ("model_name", *labels), registry=self._registry)


class HttpMetrics:
    """Counts HTTP answers. Used in the server's event loop."""

    def __init__(self, registry: CollectorRegistry, model: str) -> None:
        self._model = model
        self._answers = Counter(
            "agentkit_http_responses",
            "HTTP answers by route and status; 499: the client went away.",
            ("model_name", "route", "method", "status"),
            registry=registry,
        )
        self._open = Gauge(
            "agentkit_http_requests_open",
            "HTTP requests that are being answered.",
            ("model_name",),
            registry=registry,
        ).labels(model)

    def began(self) -> None:
        """A request came."""
        self._open.inc()

    def ended(self, *, route: str, method: str, status: int) -> None:
        """Its answer is over. `route` and `method` must be of a bounded set."""
        self._open.dec()
        self._answers.labels(self._model, route, method, str(status)).inc()


class _TenantMetrics:
    def __init__(self, registry: CollectorRegistry, model: str) -> None:
        self._model = model
        self._known: set[str] = set()

        def counter(name: str, text: str, *labels: str) -> Counter:
            names = ("model_name", "tenant", *labels)
            return Counter(f"agentkit_tenant_{name}", text, names, registry=registry)

        self._requests = counter("requests", "Requests by how they ended.", "outcome")
        self._prompt = counter("prompt_tokens", "Tokens of prompts.")
        self._cached = counter("cached_tokens", "Of them, read from the cache.")
        self._completion = counter("generation_tokens", "Tokens of answers.")

    def add(self, record: RequestRecord) -> None:
        labels = (self._model, bounded(record.tenant, self._known))
        self._requests.labels(*labels, record.outcome).inc()
        self._prompt.labels(*labels).inc(record.prompt_tokens)
        self._cached.labels(*labels).inc(record.cached_tokens)
        self._completion.labels(*labels).inc(record.completion_tokens)


def _label(cause: Cause) -> str:
    return cause.replace(" ", "_")


def bounded(value: str, known: set[str]) -> str:
    """`value`, or `OTHER` when as many others are `known` as a label may have."""
    if value not in known:
        if len(known) >= MAX_LABELS:
            return OTHER
        known.add(value)
    return value
