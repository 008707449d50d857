"""The engine's own numbers as metrics, from snapshots that a test makes."""

from __future__ import annotations

import dataclasses
from typing import Any

from agentkit_runtime.attention.base import AttentionStats
from agentkit_runtime.kv.tiers.stats import TierStats
from agentkit_runtime.sched.stats import SchedulerStats
from agentkit_runtime.stats import CoreStats
from agentkit_runtime.types import FinishReason, Priority
from agentkit_runtime.watching.engine_metrics import EngineCollector
from agentkit_runtime.watching.window import WINDOW_S, Window

TIERS = TierStats(
    host_blocks=3,
    host_bytes=300,
    host_max_bytes=1000,
    disk_blocks=7,
    disk_bytes=700,
    disk_max_bytes=7_000,
    saved=11,
    written=12,
    written_bytes=1300,
    hits_host=14,
    hits_disk=15,
    misses=16,
    declined=17,
    skipped_cheap=18,
    skipped_busy=19,
    failures=20,
    restored_tokens=21,
)


def snapshot(**changes: Any) -> CoreStats:
    scheduler = SchedulerStats(
        waiting={Priority.BATCH: 2, Priority.NORMAL: 0, Priority.INTERACTIVE: 1},
        waiting_tokens=0,
        running=2,
        prefilling=1,
        following=1,
        loading=0,
        oldest_wait_s=3.5,
        preemptions=0,
        overtakes=0,
        late=1,
    )
    plain = CoreStats(
        running=2,
        waiting=3,
        total_slots=1600,
        free_slots=1000,
        cached_slots=200,
        steps=5,
        computed_tokens=900,
        prompt_tokens=1000,
        hit_tokens=600,
        preemptions=0,
        restored_tokens=100,
        ended={FinishReason.STOP: 4, FinishReason.DEADLINE: 1},
        scheduler=scheduler,
        attention=AttentionStats(),
        tiers=TIERS,
    )
    return dataclasses.replace(plain, **changes)


class Engine:
    """Shows what a test says."""

    healthy = True

    def __init__(self, stats: CoreStats) -> None:
        self.now = stats

    def stats(self) -> CoreStats:
        return self.now

    def template_report(self) -> Any:
        losses = type("Losses", (), {"turns": 8, "rewritten": 2, "lost_tokens": 90})
        return type("Report", (), {"losses": losses})


def read(collector: EngineCollector) -> dict[tuple[str, ...], float]:
    """Values by name and further labels."""
    return {
        (s.name, *(v for k, v in sorted(s.labels.items()) if k != "model_name")): s.value
        for family in collector.collect()
        for s in family.samples
    }


def collector_of(engine: Any) -> EngineCollector:
    return EngineCollector(engine, "m", lambda: 0.625)


def test_each_number_stands_under_its_name() -> None:
    found = read(collector_of(Engine(snapshot())))
    assert found["agentkit_engine_up",] == 1
    assert found["agentkit_pressure_ratio",] == 0.625
    assert found["agentkit_kv_cache_usage_ratio",] == 0.25, "cached slots count as free"
    assert found["agentkit_kv_slots", "held"] == 400
    assert found["agentkit_kv_slots", "cached"] == 200
    assert found["agentkit_requests_waiting_by_priority", "batch"] == 2
    assert found["agentkit_requests_waiting_by_priority", "interactive"] == 1
    assert found["agentkit_oldest_wait_seconds",] == 3.5
    assert found["agentkit_cached_tokens_total", "device"] == 500
    assert found["agentkit_cached_tokens_total", "host"] == 100
    assert found["agentkit_generations_total", "deadline"] == 1
    assert found["agentkit_deadlines_missed_total",] == 1
    assert found["agentkit_rewritten_turns_total",] == 2
    assert found["agentkit_tier_bytes", "disk"] == 700
    assert found["agentkit_tier_hits_total", "host"] == 14
    assert found["agentkit_tier_failures_total",] == 20


def test_a_server_without_slower_tiers_shows_none() -> None:
    found = read(collector_of(Engine(snapshot(tiers=None))))
    assert not [name for name, *_ in found if name.startswith("agentkit_tier")]


def test_a_stopped_engine_is_shown_as_down() -> None:
    engine = Engine(snapshot())
    engine.healthy = False
    assert read(collector_of(engine))["agentkit_engine_up",] == 0


def test_ratios_are_of_the_last_minute() -> None:
    now = [0.0]
    window = Window(snapshot(prompt_tokens=0, hit_tokens=0), lambda: now[0])
    cold = snapshot(prompt_tokens=1000, hit_tokens=0, prefill_tokens=1000, generated_tokens=50)
    now[0] = 10.0
    change = window.look(cold)
    assert (change.hit_ratio, change.generated_per_s) == (0.0, 5.0)
    now[0] = 50.0
    warm = dataclasses.replace(
        cold, prompt_tokens=2000, hit_tokens=900, prefill_tokens=1100, lost_tokens=25
    )
    change = window.look(warm)
    assert (change.hit_ratio, change.thrash_ratio) == (0.45, 25 / 1100)
    now[0] = 10.0 + WINDOW_S
    change = window.look(warm)
    assert (change.hit_ratio, change.thrash_ratio) == (0.9, 0.25), "the cold start is over"
    now[0] = 500.0
    window.look(warm)
    now[0] = 600.0
    assert window.look(warm).hit_ratio == 0.0, "nothing was asked"
