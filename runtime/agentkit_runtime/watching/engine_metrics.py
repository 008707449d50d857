"""The engine's own numbers as metrics, read from one snapshot when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS
from agentkit_runtime.watching.window import Change, Window

if TYPE_CHECKING:
    from agentkit_runtime.kv.tiers.stats import TierStats
    from agentkit_runtime.service import ChatService
    from agentkit_runtime.stats import CoreStats


class EngineCollector(Collector):
    """Makes metrics of `CoreStats`. Takes well under a millisecond; never waits for the engine."""

    def __init__(
        self,
        service: ChatService,
        model: str,
        pressure: Callable[[], float],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`pressure` says how full the server is, from 0 to 1."""
        self._service = service
        self._model = model
        self._pressure = pressure
        self._window = Window(service.stats(), clock)

    def collect(self) -> Iterator[Metric]:
        """All families. They are the same each time, so that alerts on absence work; those of
        slower tiers are there only where these are."""
        stats = self._service.stats()
        yield from self._state(stats, self._window.look(stats))
        yield from self._tokens(stats)
        yield from self._work(stats)
        if stats.tiers is not None:
            yield from self._tiers(stats.tiers)
        yield self._info("build", "What runs here.", {"version": _version()})
        yield self._info(
            "cache_config",
            "The KV pool: blocks of this many tokens.",
            {
                "block_size": str(BLOCK_TOKENS),
                "num_gpu_blocks": str(stats.total_slots // BLOCK_TOKENS),
                "enable_prefix_caching": "True",
            },
        )

    def _state(self, stats: CoreStats, change: Change) -> Iterator[Metric]:
        gauge, scheduler = self._gauge, stats.scheduler
        yield gauge("engine_up", "1 while the engine takes requests.", int(self._service.healthy))
        yield gauge("pressure_ratio", "How close the engine is to its limits.", self._pressure())
        yield gauge("requests_running", "Requests that hold KV slots.", stats.running)
        yield gauge("requests_waiting", "Requests that wait for the engine.", stats.waiting)
        yield self._by(
            GaugeMetricFamily,
            "requests_waiting_by_priority",
            "Requests that wait, by class.",
            "priority",
            ((priority.name.lower(), n) for priority, n in scheduler.waiting.items()),
        )
        yield gauge("requests_prefilling", "Running, prompt not computed.", scheduler.prefilling)
        yield gauge(
            "requests_following",
            "Waiting for a neighbour that computes what they share.",
            scheduler.following,
        )
        yield gauge("requests_loading", "Waiting for host memory or disk.", scheduler.loading)
        yield gauge(
            "oldest_wait_seconds", "Of the request that waits longest.", scheduler.oldest_wait_s
        )
        yield self._by(
            GaugeMetricFamily,
            "kv_slots",
            "Slots of the pool: held by requests, cached and reusable, free.",
            "state",
            (
                ("held", stats.held_slots),
                ("cached", stats.cached_slots),
                ("free", stats.free_slots),
            ),
        )
        yield gauge(
            "kv_cache_usage_ratio",
            "Share of the pool that running requests and pins hold; what is merely cached counts "
            "as free.",
            stats.held_slots / max(1, stats.total_slots),
        )
        yield gauge("kv_used_tokens", "Slots that are held.", stats.held_slots)
        yield gauge("pinned_tokens", "Tokens that pins keep.", stats.pinned_tokens)
        yield gauge(
            "prefix_cache_hit_ratio", "Of prompt tokens, in the last minute.", change.hit_ratio
        )
        yield gauge(
            "cache_thrash_ratio",
            "Share of the prompt tokens computed in the last minute that had been cached in the "
            "ten minutes before: the pool is too small for what is asked again.",
            change.thrash_ratio,
        )
        yield gauge("generation_tokens_per_second", "In the last minute.", change.generated_per_s)

    def _tokens(self, stats: CoreStats) -> Iterator[Metric]:
        count = self._count
        yield count(
            "prompt_tokens",
            "Of prompts of ended requests; one with several answers counts once.",
            stats.prompt_tokens,
        )
        yield count("generation_tokens", "Tokens that were generated.", stats.generated_tokens)
        yield count(
            "prefix_cache_queries", "Prompt tokens that were looked up.", stats.prompt_tokens
        )
        yield count("prefix_cache_hits", "Of them, read from the cache.", stats.hit_tokens)
        yield self._by(
            CounterMetricFamily,
            "cached_tokens",
            "Prompt tokens read from the cache: from the device, or restored from host memory or "
            "disk.",
            "cache_source",
            (
                ("device", stats.hit_tokens - stats.restored_tokens),
                ("host", stats.restored_tokens),
            ),
        )
        yield count("public_tokens", "Read from published prefixes.", stats.public_tokens)
        yield count("evicted_tokens", "Left the cache to make room.", stats.evicted_tokens)
        yield count(
            "lost_tokens",
            "Not in the cache when requests started, but there less than ten minutes before.",
            stats.lost_tokens,
        )
        yield count("computed_tokens", "Went through the model.", stats.computed_tokens)
        yield count("prefill_tokens", "Of them, tokens of prompts.", stats.prefill_tokens)
        yield count("draft_tokens", "Guessed ahead and verified.", stats.drafted_tokens)
        yield count("accepted_draft_tokens", "Of them, guessed right.", stats.accepted_tokens)
        losses = self._service.template_report().losses
        yield count("turns", "Requests that went on from an answer given here.", losses.turns)
        yield count(
            "rewritten_turns", "Of them, those whose history came back changed.", losses.rewritten
        )
        yield count("rewritten_tokens", "Computed twice for that.", losses.lost_tokens)

    def _work(self, stats: CoreStats) -> Iterator[Metric]:
        count, scheduler = self._count, stats.scheduler
        yield count("steps", "Steps of the engine.", stats.steps)
        yield count("split_steps", "Run in halves for want of memory.", stats.split_steps)
        yield count("prefill_seconds", "In steps with prompt tokens.", stats.prefill_s)
        yield count("decode_seconds", "In all other steps.", stats.decode_s)
        yield count("preemptions", "Requests that had to leave their slots.", stats.preemptions)
        yield count("overtakes", "Requests that others overtook.", scheduler.overtakes)
        yield count("deadlines_missed", "Requests that their deadline ended.", scheduler.late)
        yield self._by(
            CounterMetricFamily,
            "generations",
            "Generations that ended in the engine, pre-warming included.",
            "reason",
            ((reason.value, n) for reason, n in stats.ended.items()),
        )
        yield count(
            "shared_reads", "Prefixes that were read once for many.", stats.attention.shared_reads
        )

    def _tiers(self, tiers: TierStats) -> Iterator[Metric]:
        gauge, count = self._gauge, self._count
        for name, text, values in (
            ("tier_blocks", "Blocks of KV.", (tiers.host_blocks, tiers.disk_blocks)),
            ("tier_bytes", "Bytes of KV.", (tiers.host_bytes, tiers.disk_bytes)),
        ):
            named = zip(("host", "disk"), values, strict=True)
            yield self._by(GaugeMetricFamily, name, text, "tier", named)
        yield gauge("tier_host_max_bytes", "That host memory may take.", tiers.host_max_bytes)
        hits = (("host", tiers.hits_host), ("disk", tiers.hits_disk))
        yield self._by(CounterMetricFamily, "tier_hits", "Blocks fetched.", "tier", hits)
        yield count("tier_misses", "Look-ups that found nothing.", tiers.misses)
        yield count("tier_declined", "Look-ups where computing was faster.", tiers.declined)
        yield count("tier_saved_blocks", "Copied to host memory.", tiers.saved)
        yield count("tier_written_blocks", "Written to disk.", tiers.written)
        yield count("tier_written_bytes", "Written to disk.", tiers.written_bytes)
        skipped = (("cheap", tiers.skipped_cheap), ("busy", tiers.skipped_busy))
        yield self._by(CounterMetricFamily, "tier_skipped", "Blocks not kept.", "why", skipped)
        yield count("tier_failures", "Blocks not copied, written or read.", tiers.failures)
        yield count("restored_tokens", "Loaded into slots.", tiers.restored_tokens)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"agentkit_{name}", text, labels=("model_name",))
        family.add_metric((self._model,), value)
        return family

    def _count(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"agentkit_{name}", text, labels=("model_name",))
        family.add_metric((self._model,), value)
        return family

    def _by(
        self,
        kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        text: str,
        label: str,
        values: Iterable[tuple[str, float]],
    ) -> Metric:
        family = kind(f"agentkit_{name}", text, labels=("model_name", label))
        for value, number in values:
            family.add_metric((self._model, value), number)
        return family

    def _info(self, name: str, text: str, labels: dict[str, str]) -> Metric:
        family = GaugeMetricFamily(f"agentkit_{name}_info", text, labels=("model_name", *labels))
        family.add_metric((self._model, *labels.values()), 1)
        return family


def _version() -> str:
    try:
        return version("agentkit-radix")
    except PackageNotFoundError:
        return "unknown"
