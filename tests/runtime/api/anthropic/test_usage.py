"""What tokens are counted as."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.api.anthropic.request import Ttl
from agentkit_runtime.api.anthropic.usage import Kept, usage_of
from agentkit_runtime.types import Priority, RequestStats


def stats(n_prompt: int, n_cached: int) -> RequestStats:
    return RequestStats(
        prompt_tokens=n_prompt,
        cached_tokens=n_cached,
        completion_tokens=7,
        queue_s=0.0,
        ttft_s=None,
        total_s=0.0,
    )


def counts(n_prompt: int, n_cached: int, *kept: tuple[int, Ttl]) -> tuple[int, int, int, int]:
    """Read, created for an hour, created for five minutes, the rest."""
    usage = usage_of(stats(n_prompt, n_cached), [Kept(*mark) for mark in kept], Priority.NORMAL)
    created = usage["cache_creation"]
    one_hour, minutes = created["ephemeral_1h_input_tokens"], created["ephemeral_5m_input_tokens"]
    assert usage["cache_creation_input_tokens"] == one_hour + minutes
    return usage["cache_read_input_tokens"], one_hour, minutes, usage["input_tokens"]


@pytest.mark.parametrize(
    ("n_cached", "expected"),
    [(0, (0, 1000, 4000, 200)), (1000, (1000, 0, 4000, 200)), (4000, (4000, 0, 1000, 200))],
)
def test_marks_of_two_lifetimes_are_billed_as_anthropic_documents(
    n_cached: int, expected: tuple[int, int, int, int]
) -> None:
    """The example of "Mixing different TTLs" in Anthropic's page on prompt caching."""
    assert counts(5200, n_cached, (1000, "1h"), (5000, "5m")) == expected


def test_without_marks_what_is_read_is_told_and_nothing_is_created() -> None:
    assert counts(100, 60) == (60, 0, 0, 40)


def test_what_is_read_beyond_the_last_mark_is_not_created() -> None:
    assert counts(100, 60, (50, "5m")) == (60, 0, 0, 40)


def test_a_mark_that_is_not_kept_creates_nothing() -> None:
    assert counts(100, 10, (0, "1h"), (0, "5m")) == (10, 0, 0, 90)


def test_an_hour_behind_which_five_minutes_are_not_kept() -> None:
    assert counts(100, 10, (30, "1h"), (0, "5m")) == (10, 20, 0, 70)


@given(st.data())
def test_all_kinds_of_input_add_up_to_the_prompt(data: st.DataObject) -> None:
    n_prompt = data.draw(st.integers(1, 1000))
    n_cached = data.draw(st.integers(0, n_prompt - 1))
    place = st.integers(0, n_prompt)
    kept = data.draw(st.lists(st.tuples(place, st.sampled_from(["5m", "1h"])), max_size=4))

    found = counts(n_prompt, n_cached, *kept)  # type: ignore[arg-type]

    assert sum(found) == n_prompt
    assert min(found) >= 0


@pytest.mark.parametrize(
    ("priority", "tier"),
    [
        (Priority.BATCH, "batch"),
        (Priority.NORMAL, "standard"),
        (Priority.INTERACTIVE, "priority"),
    ],
)
def test_the_service_tier_is_the_priority(priority: Priority, tier: str) -> None:
    assert usage_of(stats(9, 0), [], priority)["service_tier"] == tier
