"""Anthropic's iterations: sums by model, and never the same tokens twice."""

from __future__ import annotations

import pytest

from agentkit.blocks import Json
from agentkit.caching.iterations import ModelUsage, inclusive_input, usage_of_iterations
from agentkit.usage import Usage

MODEL = "claude-sonnet-5-5"


def iteration(kind: str, *, model: str | None = None, n: int = 1, long: int = 0) -> dict[str, Json]:
    """Exclusive counts, as the API gives them: 10 new, 200 read, 30 written, 4 out; times n."""
    found: dict[str, Json] = {
        "type": kind,
        "input_tokens": 10 * n,
        "cache_read_input_tokens": 200 * n,
        "cache_creation_input_tokens": 30 * n,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 30 * n - long,
            "ephemeral_1h_input_tokens": long,
        },
        "output_tokens": 4 * n,
    }
    if model is not None:
        found["model"] = model
    return found


def test_exclusive_counts_become_one_inclusive_total() -> None:
    """C77: input_tokens is 10 at the API and 240 here; details and total add up, none is twice."""
    found = usage_of_iterations([iteration("message", long=5)], model=MODEL).own

    assert found == Usage(
        input_tokens=240,
        cache_read_tokens=200,
        cache_write_tokens=30,
        cache_write_long_tokens=5,
        output_tokens=4,
    )


def test_compactions_are_part_of_the_bill_although_the_top_level_leaves_them_out() -> None:
    found = usage_of_iterations([iteration("compaction", n=2), iteration("message")], model=MODEL)

    assert found.own.input_tokens == 3 * 240
    assert found.first.input_tokens == 2 * 240
    assert [(part.kind, part.usage.input_tokens) for part in found.rest] == [("message", 240)]


def test_a_loop_of_tools_on_the_server_is_judged_by_its_first_round() -> None:
    found = usage_of_iterations([iteration("message", n=n) for n in (1, 2, 3)], model=MODEL)

    assert found.own.cache_read_tokens == 6 * 200
    assert found.first.cache_read_tokens == 200
    assert [part.usage.cache_read_tokens for part in found.rest] == [400, 600]


def test_other_models_are_no_part_of_the_models_own_sum() -> None:
    found = usage_of_iterations(
        [
            iteration("advisor_message", model="claude-opus-5-5"),
            iteration("message", model=MODEL),
            iteration("advisor_message", model="claude-opus-5-5", n=2),
            iteration("fallback_message", model="claude-haiku-5-5"),
        ],
        model=MODEL,
    )

    assert found.own.output_tokens == found.first.output_tokens == 4
    assert [(part.model, part.kind, part.usage.output_tokens) for part in found.rest] == [
        ("claude-opus-5-5", "advisor_message", 4),
        ("claude-opus-5-5", "advisor_message", 8),
        ("claude-haiku-5-5", "fallback_message", 4),
    ]
    assert isinstance(found.rest[0], ModelUsage)


def test_a_dated_name_of_the_same_model_is_the_same_model() -> None:
    found = usage_of_iterations(
        [iteration("message", model="claude-sonnet-5-5-20260928")], model=MODEL
    )

    assert (found.own, found.rest) == (found.first, ())


def test_the_length_of_the_context_is_that_of_the_last_message_and_no_sum() -> None:
    found = usage_of_iterations(
        [iteration("message"), iteration("message", n=3), iteration("compaction", n=9)],
        model=MODEL,
    )

    assert found.context_tokens == 3 * 244


def test_what_an_iteration_does_not_say_is_unknown_in_the_sum() -> None:
    silent = {**iteration("message"), "cache_read_input_tokens": None}

    found = usage_of_iterations([iteration("message"), silent], model=MODEL).own

    assert (found.input_tokens, found.cache_read_tokens) == (None, None)
    assert found.output_tokens == 8


def test_writes_without_their_lifetimes_leave_these_unknown() -> None:
    silent = {**iteration("message"), "cache_creation": None}
    nothing = {**silent, "cache_creation_input_tokens": 0}

    assert usage_of_iterations([silent], model=MODEL).own.cache_write_long_tokens is None
    assert usage_of_iterations([nothing], model=MODEL).own.cache_write_long_tokens == 0


def test_no_iterations_and_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="top-level"):
        usage_of_iterations([], model=MODEL)
    with pytest.raises(ValueError, match="top-level"):
        usage_of_iterations([iteration("message", model="claude-haiku-5-5")], model=MODEL)
    with pytest.raises(ValueError, match="output_tokens"):
        usage_of_iterations([{**iteration("message"), "output_tokens": "4"}], model=MODEL)


def test_an_unknown_part_makes_the_inclusive_input_unknown() -> None:
    assert inclusive_input(10, 200, 30) == 240
    assert inclusive_input(10, None, 30) is None
