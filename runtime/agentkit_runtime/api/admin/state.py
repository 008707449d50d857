"""The state of the server in one document."""

from __future__ import annotations

import dataclasses

from agentkit_runtime.api.admin.parts import AdminParts
from agentkit_runtime.api.admin.wire import (
    CountsDocument,
    PoolDocument,
    PressureDocument,
    SampleDocument,
    SchedulerDocument,
    StateDocument,
    TiersDocument,
)
from agentkit_runtime.api.site import Site
from agentkit_runtime.stats import CoreStats
from agentkit_runtime.types import Priority


def state_document(site: Site, parts: AdminParts, history: list[SampleDocument]) -> StateDocument:
    """The whole of it. Reads the snapshot of the engine's last step, and waits for nothing."""
    stats = site.service.stats()
    return {
        "object": "state",
        "model": site.model,
        "time_s": site.clock(),
        "started_s": site.started_s,
        "healthy": site.service.healthy,
        "phase": None if parts.lifecycle is None else parts.lifecycle.phase,
        "pool": _pool(site, stats),
        "tiers": _tiers(stats),
        "scheduler": _scheduler(stats),
        "pressure": _pressure(parts),
        "counts": _counts(stats),
        "history": history,
    }


def _pool(site: Site, stats: CoreStats) -> PoolDocument:
    size = site.service.pool
    return {
        "total": stats.total_slots,
        "free": stats.free_slots,
        "cached": stats.cached_slots,
        "held": stats.held_slots,
        "pinned": stats.pinned_tokens,
        "bytes_per_token": None if size is None else size.bytes_per_token,
        "kv_dtype": None if size is None else size.kv_dtype,
    }


def _tiers(stats: CoreStats) -> TiersDocument | None:
    return None if stats.tiers is None else dataclasses.asdict(stats.tiers)


def _scheduler(stats: CoreStats) -> SchedulerDocument:
    scheduler = stats.scheduler
    return {
        "running": stats.running,
        "prefilling": scheduler.prefilling,
        "waiting": {
            "batch": scheduler.waiting.get(Priority.BATCH, 0),
            "normal": scheduler.waiting.get(Priority.NORMAL, 0),
            "interactive": scheduler.waiting.get(Priority.INTERACTIVE, 0),
        },
        "following": scheduler.following,
        "loading": scheduler.loading,
        "oldest_wait_s": scheduler.oldest_wait_s,
        "preemptions": scheduler.preemptions,
        "late": scheduler.late,
    }


def _pressure(parts: AdminParts) -> PressureDocument | None:
    if parts.pressure is None:
        return None
    pressure = parts.pressure()
    return {
        "index": pressure.index,
        "slots": pressure.slots,
        "queue": pressure.queue,
        "wait": pressure.wait,
        "cause": pressure.cause,
    }


def _counts(stats: CoreStats) -> CountsDocument:
    asked = stats.prompt_tokens
    return {
        "prompt_tokens": asked,
        "hit_tokens": stats.hit_tokens,
        "hit_ratio": stats.hit_tokens / asked if asked else None,
        "restored_tokens": stats.restored_tokens,
        "public_tokens": stats.public_tokens,
        "evicted_tokens": stats.evicted_tokens,
        "computed_tokens": stats.computed_tokens,
        "generated_tokens": stats.generated_tokens,
        "ended": {reason.value: n for reason, n in stats.ended.items()},
    }
