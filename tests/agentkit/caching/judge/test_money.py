"""What was paid, uncached, planned: exact, from the provider's counts, or unknown."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal as D
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import Json
from agentkit.caching.iterations import ModelUsage, usage_of_iterations
from agentkit.caching.judge import judge
from agentkit.caching.judge.split import NoSplit, scaled, split_of
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import InputSplit, Policy, Rates, Ttl, policy_for
from agentkit.caching.prices import PriceBook
from agentkit.caching.verdict import Cause, Verdict
from agentkit.usage import Usage
from tests.agentkit.caching.judging import ANTHROPIC, NOON, TALK, plan, sent, usage

OPENAI = policy_for("openai", "gpt-6-sol", NOON.date())
DEEPSEEK = policy_for("deepseek", "deepseek-flash", NOON.date())
GEMINI = policy_for("gemini", "gemini-3.8-flash", NOON.date())
VLLM = policy_for("vllm", "llama", NOON.date())


def verdict(given_: Usage, *, policy: Policy = ANTHROPIC, **values: Any) -> Verdict:
    settings: dict[str, Any] = {"plan": plan(6_000, 2_000, hit=6), "at": NOON, "now": sent()}
    return judge(policy=policy, usage=given_, **{**settings, **values})


def test_each_token_is_paid_at_its_own_rate() -> None:
    """C71: reads and writes in one request, each with its own price."""
    given_ = Usage(
        input_tokens=1_100_000,
        cache_read_tokens=1_000_000,
        cache_write_tokens=80_000,
        cache_write_long_tokens=30_000,
        output_tokens=1_000,
    )

    found = verdict(given_)

    assert found.cost is not None
    assert found.cost.read == D("0.10")
    assert found.cost.write == D("0.125") + D("0.12")
    assert found.cost.uncached == D("0.04")
    assert found.cost.output == D("0.01")
    assert found.uncached_cost == D("2.21")
    assert found.price_source == "policy (package 2026-11-29)"


def test_a_streamed_request_costs_what_the_same_request_costs_at_once() -> None:
    """C70: counts that come in pieces add up to the same money."""
    start = Usage(
        input_tokens=10_000,
        cache_read_tokens=9_000,
        cache_write_tokens=900,
        cache_write_long_tokens=0,
        output_tokens=1,
    )
    end = Usage(cache_read_tokens=9_000, cache_write_tokens=900, output_tokens=500)

    streamed = verdict(start.merge(end))
    whole = verdict(replace(start, output_tokens=500))

    assert streamed == whole
    assert streamed.cost is not None
    assert streamed.cost.read == D("0.0009")


def test_a_last_event_without_cache_counts_does_not_forget_them() -> None:
    """C73: the stream's start has 900 read tokens, its end only the output."""
    merged = usage(900, 0, 100, output=1).merge(Usage(output_tokens=20))

    found = verdict(merged)

    assert found.actual is not None
    assert (found.actual.read, merged.output_tokens) == (900, 20)


def test_counts_that_come_last_are_counted() -> None:
    """C74: nothing is known until a last chunk that has usage and no choices."""
    merged = Usage().merge(usage(900, 0, 100))

    found = verdict(merged)

    assert found.actual is not None
    assert found.actual.read == 900


def test_exclusive_counts_are_not_clamped_to_a_free_prompt() -> None:
    """C76: `input_tokens` without the read ones; 100 - 900 is not 0 new tokens."""
    found = verdict(
        Usage(input_tokens=100, cache_read_tokens=900, cache_write_tokens=0, output_tokens=5)
    )

    assert found.cost is None
    assert found.shortfall is not None
    assert found.shortfall.cause is Cause.UNKNOWN
    assert "inclusive" in found.shortfall.detail


def test_more_long_writes_than_writes_are_a_contradiction() -> None:
    given_ = Usage(
        input_tokens=100,
        cache_read_tokens=0,
        cache_write_tokens=10,
        cache_write_long_tokens=20,
        output_tokens=5,
    )

    assert verdict(given_).cost is None


@pytest.mark.parametrize("missing", ["input_tokens", "cache_read_tokens", "output_tokens"])
def test_what_is_not_reported_is_unknown_and_never_free(missing: str) -> None:
    found = verdict(replace(usage(900, 0, 100), **{missing: None}))

    assert found.cost is None


def test_unreported_writes_are_unknown_where_writing_has_a_price() -> None:
    given_ = replace(usage(900, 0, 100), cache_write_tokens=None, cache_write_long_tokens=None)

    assert verdict(given_, policy=OPENAI).cost is None
    assert verdict(given_, policy=DEEPSEEK).cost is not None


def test_the_uncached_cost_is_known_although_the_reads_are_not() -> None:
    found = verdict(Usage(input_tokens=1_000_000, output_tokens=0))

    assert (found.cost, found.uncached_cost) == (None, D(2))


class TestLifetimesThatAreNotReported:
    GIVEN = Usage(
        input_tokens=10_000, cache_read_tokens=2_000, cache_write_tokens=6_000, output_tokens=1
    )

    def test_they_are_those_of_the_plan(self) -> None:
        split = split_of(self.GIVEN, ANTHROPIC, plan(2_000, 6_000, ttl=Ttl.ONE_HOUR))

        assert split == InputSplit(read=2_000, writes=((Ttl.ONE_HOUR, 6_000),), uncached=2_000)

    def test_two_are_divided_as_planned(self) -> None:
        both = plan(0, 0)
        planned = replace(
            both.predicted.split, writes=((Ttl.ONE_HOUR, 1_000), (Ttl.FIVE_MINUTES, 2_000))
        )
        mixed = replace(both, predicted=replace(both.predicted, split=planned))

        split = split_of(self.GIVEN, ANTHROPIC, mixed)

        assert isinstance(split, InputSplit)
        assert split.writes == ((Ttl.ONE_HOUR, 2_000), (Ttl.FIVE_MINUTES, 4_000))

    def test_what_nobody_planned_has_the_shorter_one(self) -> None:
        split = split_of(self.GIVEN, ANTHROPIC, plan(2_000, 0, 8_000))

        assert isinstance(split, InputSplit)
        assert split.writes == ((Ttl.FIVE_MINUTES, 6_000),)

    def test_a_reported_split_beats_the_plan(self) -> None:
        given_ = replace(self.GIVEN, cache_write_long_tokens=0)

        split = split_of(given_, ANTHROPIC, plan(2_000, 6_000, ttl=Ttl.ONE_HOUR))

        assert isinstance(split, InputSplit)
        assert split.writes == ((Ttl.FIVE_MINUTES, 6_000),)

    @pytest.mark.parametrize("policy", [DEEPSEEK, GEMINI, VLLM])
    def test_where_there_are_none_writes_cost_what_input_costs(self, policy: Policy) -> None:
        split = split_of(self.GIVEN, policy, plan(2_000, 0, 8_000))

        assert split == InputSplit(read=2_000, uncached=8_000)


def test_the_plan_is_priced_for_the_tokens_that_the_provider_counted() -> None:
    found = verdict(usage(0, 10_000, 0, output=0), plan=plan(3_000, 2_000))

    assert found.planned_cost == D("0.0106")  # 6,000 read at 0.10 and 4,000 written at 2.50


def test_an_unknown_price_is_unknown_and_the_cause_is_still_found() -> None:
    found = verdict(usage(0, 8_000, 0), policy=VLLM)

    assert (found.cost, found.uncached_cost, found.planned_cost) == (None, None, None)
    assert found.price_source is None
    assert found.shortfall is not None
    assert found.shortfall.lost_usd is None


def test_a_price_of_ones_own_is_used_and_named() -> None:
    book = PriceBook(overrides={"llama": Rates(input=D(1), read=D(0), output=D(2))})

    found = verdict(usage(500_000, 0, 500_000, output=0), policy=VLLM, prices=book)

    assert found.cost is not None
    assert (found.cost.total, found.price_source) == (D("0.5"), "override")


def test_a_lifetime_without_a_price_leaves_the_bill_unknown() -> None:
    only_short = Rates(input=D(1), read=D("0.1"), output=D(2), writes=((Ttl.THIRTY_MINUTES, D(1)),))
    book = PriceBook(overrides={"gpt-6-sol": only_short})
    given_ = replace(usage(0, 1_000, 0), cache_write_long_tokens=1_000)

    assert verdict(given_, policy=OPENAI, prices=book).cost is None


def test_other_models_within_a_request_are_billed_at_their_own_price() -> None:
    advisor = ModelUsage(
        model="claude-opus-5-5", kind="advisor_message", usage=usage(0, 0, 1_000_000, output=0)
    )

    alone = verdict(usage(6_000, 2_000, 0))
    both = verdict(usage(6_000, 2_000, 0), parts=(advisor,))

    assert alone.cost is not None
    assert both.cost is not None
    assert alone.uncached_cost is not None
    assert both.cost.total == alone.cost.total + 4
    assert both.uncached_cost == alone.uncached_cost + 4
    assert both.actual == alone.actual


def test_keeping_entries_alive_is_money_that_nobody_spends_without_a_cache() -> None:
    found = verdict(usage(8_000, 0, 0, output=0), keeps_alive=True)

    assert found.cost is not None
    assert found.cost.total == found.planned_cost == D("0.0008")
    assert found.uncached_cost == 0


def test_each_iteration_pays_for_its_own_length() -> None:
    """Two rounds of 60,000 tokens are no prompt of 120,000, which would cost five times as much."""
    policy = policy_for("anthropic", "claude-haiku-5-5", NOON.date())
    round_: dict[str, Json] = {
        "type": "message",
        "input_tokens": 60_000,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "output_tokens": 0,
    }
    found = usage_of_iterations([round_, round_], model="claude-haiku-5-5")

    bill = verdict(found.first, policy=policy, parts=found.rest, plan=plan(0, 0, 60_000))

    assert found.own.input_tokens == 120_000
    assert bill.cost is not None
    assert bill.cost.total == bill.uncached_cost == D("0.012")


def test_an_unknown_part_leaves_the_whole_unknown() -> None:
    silent = ModelUsage(model="claude-opus-5-5", kind="advisor_message", usage=Usage())

    assert verdict(usage(6_000, 2_000, 0), parts=(silent,)).cost is None


def test_lost_tokens_are_those_behind_the_read_ones_the_longer_lifetime_first() -> None:
    given_ = Usage(
        input_tokens=8_000,
        cache_read_tokens=0,
        cache_write_tokens=8_000,
        cache_write_long_tokens=1_000,
        output_tokens=1,
    )

    found = verdict(given_, expected_read=3_000)

    assert found.shortfall is not None
    assert found.shortfall.lost_tokens == 3_000
    assert found.shortfall.lost_usd == D("0.0087")  # (1,000 * 3.90 + 2,000 * 2.40) / 1e6


def test_a_verdict_names_the_model_and_its_time() -> None:
    found = verdict(usage(1, 0, 1), now=sent(talk=TALK))

    assert (found.model, found.at) == ("anthropic:claude-sonnet-5-5", NOON)


COUNTS = st.integers(0, 10**9)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_what_was_paid_and_what_was_saved_add_up_to_the_uncached_price(
    read: int, write: int, uncached: int, output: int
) -> None:
    found = verdict(usage(read, write, uncached, output), plan=plan(1, 1, 1))

    assert found.cost is not None
    assert found.uncached_cost is not None
    rates = policy_for("anthropic", "claude-sonnet-5-5", NOON.date()).prices
    assert rates is not None
    saved = D(read) * (rates.rates.input - rates.rates.read) / 1_000_000
    assert found.cost.total + saved - found.cost.write_premium == found.uncached_cost


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**7))
def test_a_scaled_split_has_exactly_the_tokens_that_were_counted(
    read: int, write: int, uncached: int, total: int
) -> None:
    split = InputSplit(read=read, writes=((Ttl.ONE_HOUR, write),), uncached=uncached)

    found = scaled(split, total)

    assert found.total == total
    assert min(found.read, found.written, found.uncached) >= 0


@given(
    st.one_of(st.none(), COUNTS),
    st.one_of(st.none(), COUNTS),
    st.one_of(st.none(), COUNTS),
    st.one_of(st.none(), COUNTS),
    st.sampled_from([ANTHROPIC, OPENAI, DEEPSEEK, GEMINI, VLLM]),
)
def test_a_split_has_all_tokens_or_there_is_none(
    total: int | None, read: int | None, write: int | None, long: int | None, policy: Policy
) -> None:
    given_ = Usage(
        input_tokens=total,
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_long_tokens=long,
    )
    empty: CachePlan = plan(0, 0, 1)

    split = split_of(given_, policy, empty)

    if isinstance(split, NoSplit):
        assert split.cause in (Cause.UNKNOWN, Cause.UNREPORTED)
    else:
        assert (split.total, split.read) == (total, read)
        assert split.uncached >= 0
