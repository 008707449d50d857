"""What the engine counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.types import FinishReason, Priority
from tests.runtime.kv.world import FakeTiers

from .fakes import Clock, prompt_of

Make = Callable[..., Any]


def test_tokens_and_seconds_are_counted_by_kind(make: Make) -> None:
    clock = Clock()
    harness = make(clock=clock, step_tokens=16)

    def ticking(forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            clock.now += 1.0
            return forward(*args)

        return run

    decoder = harness.core._decoder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "forward", ticking(decoder.forward))
        harness.generate(prompt_of(1, 40), 4)
        harness.generate(prompt_of(1, 40), 3)
    stats = harness.core.stats()
    # Three chunks and three more tokens; then the last token of the prompt and two more.
    assert (stats.prefill_s, stats.decode_s) == (4.0, 5.0)
    assert (stats.prefill_tokens, stats.computed_tokens) == (41, 46)
    assert (stats.prompt_tokens, stats.hit_tokens, stats.generated_tokens) == (80, 39, 7)
    assert (stats.cold_requests, stats.cold_ttft_s) == (1, 3.0)
    assert (stats.warm_requests, stats.warm_ttft_s) == (1, 1.0)
    assert stats.ended == {FinishReason.LENGTH: 2}


def test_who_waits_and_what_is_pinned_or_evicted_is_in_the_snapshot(make: Make) -> None:
    harness = make(n_slots=100, max_lanes=1)
    prompt = prompt_of(1, 20)
    harness.generate(prompt, 0)
    harness.core.cache.pin(b"ns", pack(prompt))
    harness.generate(prompt_of(2, 60), 2)
    harness.generate(prompt_of(3, 60), 2)
    runs = [harness.add(prompt_of(4, 20), 5, priority=p) for p in Priority]
    harness.step()
    stats = harness.core.stats()
    assert stats.pinned_tokens == 20
    assert stats.evicted_tokens > 0
    assert stats.waiting == 2
    assert sum(stats.scheduler.waiting.values()) == 2
    assert stats.scheduler.waiting[Priority.INTERACTIVE] == 0
    harness.drain()
    assert [run.finished.reason for run in runs] == [FinishReason.LENGTH] * 3


def test_tiers_hear_how_long_prompts_take(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, float, int]] = []
    monkeypatch.setattr(
        FakeTiers,
        "note_prefill",
        lambda _, n, seconds, context=0: heard.append((n, seconds, context)),
    )
    harness = make(clock=Clock(), step_tokens=16)
    harness.core.cache.attach_tiers(FakeTiers({}))
    harness.generate(prompt_of(1, 32), 4)
    assert heard == [(16, 0.0, 7), (16, 0.0, 23)]


def test_what_tiers_and_attention_did_is_in_the_snapshot(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeTiers, "note_prefill", lambda *_, **__: None)
    harness = make(n_slots=120)
    assert harness.core.stats().tiers is None
    tiers = FakeTiers(dict.fromkeys(range(120), 0))
    harness.core.cache.attach_tiers(tiers)
    before = harness.core.stats().attention  # the decoder has served other cores
    shared = prompt_of(1, 40)
    harness.generate(shared, 0)
    first, second = harness.add([*shared, 1], 3), harness.add([*shared, 2], 3)
    harness.drain()
    assert first.finished.stats.cached_tokens == second.finished.stats.cached_tokens == 40
    attention = harness.core.stats().attention
    assert attention.plans - before.plans == harness.core.stats().steps
    decided = attention.shared_reads + attention.refused
    assert decided > before.shared_reads + before.refused
    harness.core.cache.evict(100)
    stats = harness.core.stats()
    assert stats.tiers is not None
    assert stats.tiers.host_blocks == len(tiers.blocks) >= 2
