"""Why a request found no more of its prompt in the cache, and how much had been there lately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentkit_runtime.kv.ghosts import KEPT_S, Ghosts
from agentkit_runtime.kv.missed import Missed
from agentkit_runtime.kv.tokens import pack

from .fakes import Clock, prompt_of

Make = Callable[..., Any]


def missed(harness: Any, prompt: Sequence[int], **fields: Any) -> Missed:
    found = harness.generate(prompt, 1, **fields).finished.stats.missed
    assert isinstance(found, Missed)
    return found


def test_a_prompt_is_new_then_cached_then_changed(make: Make) -> None:
    harness = make(n_slots=300)
    prompt = prompt_of(1, 100)
    assert missed(harness, prompt) == ("never seen", 0)
    assert missed(harness, prompt) == ("cached", 0)
    assert missed(harness, (*prompt, *prompt_of(2, 50))) == ("never seen", 0), "it only goes on"
    changed = (*prompt[:40], 96 - prompt[40], *prompt[41:])
    assert missed(harness, changed) == ("diverged", 0)
    assert harness.core.stats().lost_tokens == 0


def test_a_prompt_that_was_evicted_is_told_from_one_that_is_new(make: Make) -> None:
    harness = make(n_slots=200)
    prompt = prompt_of(1, 150)
    missed(harness, prompt)
    assert missed(harness, prompt_of(2, 150)) == ("diverged", 0), "the tree begins otherwise"
    n_cached = harness.core.cache.peek(b"ns", pack(prompt))
    again = harness.generate(prompt, 1).finished.stats
    assert again.missed == ("evicted", 128 - n_cached), "four whole blocks were known"
    assert harness.core.stats().lost_tokens == 128 - n_cached


def test_what_another_namespace_lost_says_nothing(make: Make) -> None:
    harness = make(n_slots=200)
    prompt = prompt_of(1, 150)
    missed(harness, prompt, namespace=b"theirs")
    missed(harness, prompt_of(2, 150))
    assert missed(harness, prompt) == ("diverged", 0)


def test_who_comes_back_late_was_not_evicted_too_early(make: Make) -> None:
    clock = Clock()
    harness = make(n_slots=200, clock=clock)
    prompt = prompt_of(1, 150)
    missed(harness, prompt)
    missed(harness, prompt_of(2, 150))
    clock.now += KEPT_S + 1
    assert missed(harness, prompt).lost_tokens == 0


def test_a_cache_that_was_cleared_has_lost_nothing(make: Make) -> None:
    harness = make(n_slots=300)
    missed(harness, prompt_of(1, 150))
    harness.core.cache.clear()
    assert missed(harness, prompt_of(1, 150)) == ("never seen", 0)


def test_a_request_that_never_started_missed_nothing(make: Make) -> None:
    harness = make(n_slots=300, max_lanes=1)
    harness.add(prompt_of(1, 20), 5)
    waits = harness.add(prompt_of(2, 20), 5)
    harness.step()
    harness.core.abort(waits.request_id)
    harness.drain()
    assert waits.finished.stats.missed is None


def test_ghosts_are_bounded_and_the_oldest_go_first() -> None:
    ghosts = Ghosts(Clock(), max_blocks=6)
    old, new = pack(prompt_of(1, 128)), pack(prompt_of(2, 128))
    ghosts.note(b"ns", old)
    ghosts.note(b"ns", new)
    assert len(ghosts) == 6
    assert ghosts.lost(b"ns", new, 0) == 128
    assert ghosts.lost(b"ns", old, 0) == 0, "its first block is forgotten"
    assert ghosts.lost(b"ns", old, 70) == 58, "its last two are not"
