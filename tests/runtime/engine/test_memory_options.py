"""What `build_core` is told about pins and events reaches the cache."""

from __future__ import annotations

import pytest

from agentkit_runtime.errors import PinRefused
from agentkit_runtime.kv.events import BlockStored
from agentkit_runtime.kv.pins import PinQuota
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.load import EngineOptions, build_core
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.types import EngineEvent, GenerateRequest, SamplingParams
from tests.runtime.engine.conftest import IdText

PROMPT = tuple(range(1, 41))


def _fill() -> GenerateRequest:
    return GenerateRequest(
        request_id="fill",
        prompt=PROMPT,
        namespace=b"n",
        text=IdText(),
        sampling=SamplingParams(max_tokens=0),
    )


def test_a_core_with_an_event_log_reports_the_blocks_of_a_prompt(decoder: Decoder) -> None:
    core = build_core(decoder, n_slots=128, kv_events=8)
    seen: list[EngineEvent] = []
    core.add(_fill(), seen.append)
    while not core.idle:
        core.step()
    assert core.cache.events is not None
    kept = core.cache.events.since(0)
    assert isinstance(kept, list)
    stored = [e.event for e in kept if isinstance(e.event, BlockStored)]
    assert sum(len(event.block_hashes) for event in stored) == len(PROMPT) // 16


def test_pins_end_on_the_clock_of_the_core_and_stop_at_its_quota(decoder: Decoder) -> None:
    now = [0.0]
    core = build_core(
        decoder, n_slots=128, clock=lambda: now[0], pin_quota=PinQuota(per_tenant=len(PROMPT))
    )
    core.add(_fill(), lambda event: None)
    while not core.idle:
        core.step()
    scope = Scope(tenant="t")
    core.cache.pin(b"n", pack(PROMPT), scope=scope, ttl_s=10.0)
    assert core.cache.pinned_tokens == len(PROMPT)
    now[0] = 11.0
    core.step()
    assert core.cache.pinned_tokens == 0
    small = build_core(decoder, n_slots=128, pin_quota=PinQuota(per_tenant=8))
    small.add(_fill(), lambda event: None)
    while not small.idle:
        small.step()
    with pytest.raises(PinRefused, match="8"):
        small.cache.pin(b"n", pack(PROMPT), scope=scope)


def test_an_event_log_of_no_events_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kv_events must be between 1 and [0-9]+, got 0"):
        EngineOptions(kv_events=0)
