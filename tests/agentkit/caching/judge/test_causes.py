"""Each cause, alone; and never the user's fault where it is the provider's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.judge import judge, remembered
from agentkit.caching.judge.vendor import vendor_says
from agentkit.caching.plan.plan import PlacedMark
from agentkit.caching.policy import Change, InputSplit, Policy, Section, Ttl, policy_for
from agentkit.caching.request import Identity
from agentkit.caching.verdict import Cause, Shortfall
from agentkit.usage import Usage
from tests.agentkit.caching.judging import (
    ANTHROPIC,
    NOON,
    TALK,
    TOOLS,
    answered,
    plan,
    sent,
    usage,
)

FULL = plan(6_000, 2_000, hit=6)
"""All six blocks of the request before are to be read, and the two new ones written."""


def shortfall(policy: Policy = ANTHROPIC, **given_: Any) -> Shortfall | None:
    """The verdict on a request that missed all of what its run had sent before."""
    values: dict[str, Any] = {
        "plan": FULL,
        "usage": usage(0, 8_000, 0),
        "at": NOON,
        "before": answered(sent(), tokens=6_000),
        "now": sent(talk=TALK),
        "gap_s": 20.0,
    }
    return judge(policy=policy, **{**values, **given_}).shortfall


def test_nothing_is_said_where_all_was_read() -> None:
    assert shortfall(usage=usage(6_000, 2_000, 0)) is None


def test_a_prompt_below_the_minimum_is_too_short() -> None:
    found = shortfall(
        plan=plan(0, 0, 300),
        usage=usage(0, 0, 300),
        before=None,
        now=sent(talk=TALK[:1], n_tokens=75),
    )

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.TOO_SHORT, 0)
    assert "300" in found.detail
    assert "512" in found.detail


def test_a_prefix_below_the_minimum_is_too_short_although_it_was_sent_before() -> None:
    short = answered(sent(n_tokens=60), tokens=360)

    found = shortfall(
        plan=plan(0, 0, 900), usage=usage(0, 0, 900), before=short, now=sent(talk=TALK, n_tokens=60)
    )

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.TOO_SHORT, 0)


def test_another_setting_is_named_with_both_its_values() -> None:
    now = sent(talk=TALK, identity=Identity(model="claude-sonnet-5-5", web_tools=True))

    found = shortfall(now=now, usage=usage(2_000, 6_000, 0))

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.IDENTITY_CHANGED, 4_000)
    assert "web_tools was False and is True" in found.detail


def test_another_schema_for_the_answer_is_reported_as_the_cause() -> None:
    """C68: the response schema changes between turns, and the prompt is paid anew."""
    now = sent(talk=TALK, identity=Identity(model="claude-sonnet-5-5", output_format="sha:2"))
    before = sent(identity=Identity(model="claude-sonnet-5-5", output_format="sha:1"))

    found = shortfall(before=answered(before, tokens=6_000), now=now, usage=usage(3_000, 5_000, 0))

    assert found is not None
    assert found.cause is Cause.IDENTITY_CHANGED
    assert "output_format was 'sha:1' and is 'sha:2'" in found.detail


def test_a_changed_segment_is_named_with_its_byte_and_its_source() -> None:
    now = sent(talk=TALK, role="It is 12:01. You are a clerk.", sources={1: "app.py:12"})

    found = shortfall(now=now, usage=usage(2_000, 6_000, 0))

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.SEGMENT_CHANGED, 4_000)
    assert found.difference is not None
    assert found.difference.segment == "system/role"
    assert found.difference.source == "app.py:12"
    assert "app.py:12" in found.detail


def test_a_tool_that_takes_longer_than_the_lifetime_expires_the_entry() -> None:
    """C44: a tool that takes one second more than the lifetime; nobody changed a byte."""
    found = shortfall(gap_s=301.0, plan=plan(0, 8_000))

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.EXPIRED, 6_000)
    assert found.difference is None
    assert "a lifetime of 1h or a keep-alive" in found.detail


def test_a_gap_longer_than_every_lifetime_says_so() -> None:
    found = shortfall(gap_s=4_000.0, plan=plan(0, 8_000))

    assert found is not None
    assert found.cause is Cause.EXPIRED
    assert "no lifetime that can be chosen" in found.detail


def test_within_its_life_the_same_prefix_was_evicted() -> None:
    found = shortfall()

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.EVICTED, 6_000)
    assert found.lost_usd == Decimal("0.0144")  # 6,000 at 2.50 written instead of 0.10 read


def test_above_the_rate_of_its_key_a_request_went_elsewhere() -> None:
    found = shortfall(key_overloaded=True)

    assert found is not None
    assert found.cause is Cause.ROUTED_ELSEWHERE


def test_a_neighbour_that_still_wrote_is_named() -> None:
    found = shortfall(still_writing=True, plan=plan(0, 8_000))

    assert found is not None
    assert found.cause is Cause.NOT_YET_READABLE


def test_a_new_epoch_is_a_compaction_and_no_fault() -> None:
    now = sent(talk=("a summary of it all", "thank you"))

    found = shortfall(
        plan=plan(3_000, 2_000, hit=3), now=now, epoch_changed=True, usage=usage(3_000, 2_000, 0)
    )

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.COMPACTED, 2_000)
    assert "history[0]" in found.detail


def test_without_a_loss_a_long_answer_is_what_costs() -> None:
    found = shortfall(usage=usage(6_000, 2_000, 0, output=40_000))

    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.OUTPUT_DOMINATES, 0)


def test_a_silent_provider_is_unreported() -> None:
    found = shortfall(usage=Usage(input_tokens=8_000, output_tokens=10))

    assert found is not None
    assert found.cause is Cause.UNREPORTED


def test_a_server_that_hides_its_usage_is_named_with_the_flag_that_shows_it() -> None:
    vllm = policy_for("vllm", "llama", NOON.date())

    found = shortfall(policy=vllm, usage=Usage(input_tokens=8_000, output_tokens=10))

    assert found is not None
    assert "--enable-prompt-tokens-details" in found.detail


def test_what_the_plan_itself_did_not_reach_is_unknown_and_says_what_the_plan_said() -> None:
    found = shortfall(plan=replace(plan(0, 8_000), notes=("caching is off",)))

    assert found is not None
    assert found.cause is Cause.UNKNOWN
    assert "caching is off" in found.detail


def test_numbers_that_contradict_each_other_are_unknown() -> None:
    bad = Usage(input_tokens=100, cache_read_tokens=900, cache_write_tokens=0, output_tokens=1)

    verdict = judge(plan=FULL, policy=ANTHROPIC, usage=bad, at=NOON, now=sent(), before=None)

    assert verdict.actual is None
    assert verdict.cost is None
    assert verdict.shortfall is not None
    assert verdict.shortfall.cause is Cause.UNKNOWN
    assert "900 read" in verdict.shortfall.detail


def test_the_larger_loss_names_the_cause() -> None:
    """The role changed, which loses four blocks; the provider lost the two before it as well."""
    now = sent(talk=TALK, role="You are another clerk.")

    small = shortfall(now=now, plan=plan(2_000, 6_000, hit=2), usage=usage(0, 8_000, 0))
    late = sent(talk=(*TALK[:2], "count to four", *TALK[3:]))
    large = shortfall(now=late, plan=plan(5_000, 3_000, hit=5), usage=usage(0, 8_000, 0))

    assert small is not None
    assert small.cause is Cause.SEGMENT_CHANGED
    assert large is not None
    assert large.cause is Cause.EVICTED


class TestTheVendorsWord:
    def test_it_decides_between_two_changes_of_ours(self) -> None:
        now = sent(
            talk=(*TALK[:2], "another"),
            identity=Identity(model="claude-sonnet-5-5", effort="low"),
        )

        plain = shortfall(now=now, usage=usage(3_000, 3_000, 0))
        said = shortfall(now=now, usage=usage(3_000, 3_000, 0), note="messages_changed")

        assert plain is not None
        assert plain.cause is Cause.IDENTITY_CHANGED
        assert said is not None
        assert (said.cause, said.vendor) == (Cause.SEGMENT_CHANGED, "messages_changed")

    def test_it_is_not_believed_against_the_bytes(self) -> None:
        found = shortfall(note="tools_changed")

        assert found is not None
        assert (found.cause, found.vendor) == (Cause.EVICTED, "tools_changed")
        assert "does not have" in found.detail

    def test_it_is_all_we_have_where_nothing_was_remembered(self) -> None:
        found = shortfall(
            before=None, plan=plan(0, 8_000), note="system_changed (3546 tokens missed)"
        )

        assert found is not None
        assert (found.cause, found.lost_tokens) == (Cause.SEGMENT_CHANGED, 3_546)

    @pytest.mark.parametrize("note", ["unavailable", "previous_message_not_found", "cache_hit"])
    def test_what_says_nothing_changes_nothing(self, note: str) -> None:
        found = shortfall(note=note)

        assert found is not None
        assert found.cause is Cause.EVICTED

    @pytest.mark.parametrize(
        ("note", "said"),
        [
            ("tools_changed (about 1200 input tokens)", Section.TOOLS),
            ("cache_miss: input_changed, 120 tokens missed", Section.MESSAGES),
            ("system_changed", Section.SYSTEM),
            ("cache_miss: prompt_cache_key_changed", Change.CACHE_KEY),
            ("cache_miss: reasoning_effort_changed", Change.EFFORT),
            ("cache_miss: text_format_changed", Change.OUTPUT_FORMAT),
            ("cache_miss: context_compacted", Cause.COMPACTED),
            ("cache_hit", None),
            (None, None),
        ],
    )
    def test_its_words_are_ours(self, note: str | None, said: object) -> None:
        assert vendor_says(note) == said

    def test_a_compaction_on_the_vendors_side_is_a_compaction(self) -> None:
        found = shortfall(before=None, plan=plan(0, 8_000), note="context_compacted")

        assert found is not None
        assert found.cause is Cause.COMPACTED


@given(
    read=st.integers(0, 6_000),
    gap_s=st.none() | st.floats(0, 10_000),
    overloaded=st.booleans(),
    writing=st.booleans(),
    epoch=st.booleans(),
    note=st.none() | st.sampled_from(["tools_changed", "messages_changed", "model_changed"]),
    planned=st.integers(0, 8_000),
)
def test_a_providers_miss_is_never_called_a_change_of_ours(
    read: int,
    gap_s: float | None,
    overloaded: bool,
    writing: bool,
    epoch: bool,
    note: str | None,
    planned: int,
) -> None:
    found = shortfall(
        usage=usage(read, 8_000 - read, 0),
        gap_s=gap_s,
        key_overloaded=overloaded,
        still_writing=writing,
        epoch_changed=epoch,
        note=note,
        plan=plan(planned, 8_000 - planned, hit=6),
    )

    assert found is None or found.cause not in (
        Cause.SEGMENT_CHANGED,
        Cause.IDENTITY_CHANGED,
        Cause.COMPACTED,
    )
    assert found is None or found.lost_tokens <= 8_000 - read


@given(
    changed=st.integers(0, 5),
    extra=st.integers(0, 2_000),
)
def test_a_change_of_ours_that_explains_the_loss_is_always_named(changed: int, extra: int) -> None:
    tools = [f"{name}!" if index == changed else name for index, name in enumerate(TOOLS)]
    talk = [f"{text}!" if index + 3 == changed else text for index, text in enumerate(TALK)]
    now = sent(tools=tools, role="changed" if changed == 2 else "", talk=talk)
    before = sent(role="")
    read = changed * 1_000

    found = shortfall(
        before=answered(before, tokens=6_000),
        now=now,
        usage=usage(read, 8_000 - read, extra),
        plan=plan(read, 8_000 - read, hit=changed),
    )

    assert found is not None
    assert found.cause is Cause.SEGMENT_CHANGED
    assert found.difference is not None
    assert found.difference.block == changed
    assert found.lost_tokens == 6_000 - read


class TestRoundingIsNoLoss:
    @pytest.mark.parametrize(
        ("provider", "model", "read", "is_loss"),
        [
            ("openai", "gpt-5.5", 4_096, False),  # 6,000 cut to its interval of 2,048
            ("openai", "gpt-5.5", 2_048, True),
            ("vllm", "llama", 5_984, False),  # blocks of 16
            ("deepseek", "deepseek-flash", 5_950, False),
            ("deepseek", "deepseek-flash", 5_000, True),
            ("vllm", "llama", 5_000, True),
            ("anthropic", "claude-sonnet-5-5", 5_940, False),
            ("anthropic", "claude-sonnet-5-5", 5_900, True),
        ],
    )
    def test_a_read_may_fall_short_by_less_than_a_unit(
        self, provider: str, model: str, read: int, is_loss: bool
    ) -> None:
        policy = policy_for(provider, model, NOON.date())

        found = shortfall(
            policy=policy,
            usage=usage(read, 0, 8_000 - read),
            before=answered(sent(policy=policy), tokens=6_000),
            now=sent(talk=TALK, policy=policy),
        )

        assert (found is not None) == is_loss

    def test_an_estimate_is_not_believed_to_the_token(self) -> None:
        unknown = answered(sent(), tokens=None)

        assert shortfall(before=unknown, usage=usage(5_000, 3_000, 0)) is None
        assert shortfall(before=unknown, usage=usage(4_000, 4_000, 0)) is not None


def test_a_count_that_cannot_be_true_is_not_believed() -> None:
    """A server-side loop of three rounds reports the same context three times."""
    looped = answered(sent(), tokens=18_000)

    assert shortfall(before=looped, usage=usage(6_000, 2_000, 0)) is None


class TestWhatTheNextRequestShouldExtend:
    def test_it_is_what_the_marks_wrote(self) -> None:
        request = sent(talk=TALK, volatile="it is 12:00")

        kept = remembered(
            request,
            plan=plan(3_000, 3_000, 3_000),
            policy=ANTHROPIC,
            actual=None,
        )

        assert (kept.n_cached, kept.cached_tokens, kept.life_s) == (6, None, 300)

    def test_the_providers_count_of_it_is_kept(self) -> None:
        verdict = judge(
            plan=FULL, policy=ANTHROPIC, usage=usage(6_100, 2_100, 50), at=NOON, now=sent(talk=TALK)
        )

        kept = remembered(sent(talk=TALK), plan=FULL, policy=ANTHROPIC, actual=verdict.actual)

        assert (kept.n_cached, kept.cached_tokens) == (8, 8_200)

    def test_what_the_provider_says_it_did_not_keep_is_not_expected(self) -> None:
        nothing = InputSplit(read=0, uncached=6_000)

        kept = remembered(sent(), plan=plan(0, 6_000), policy=ANTHROPIC, actual=nothing)

        assert kept.n_cached == 0

    def test_a_whole_prompt_without_marks_has_the_tokens_that_were_counted(self) -> None:
        policy = policy_for("deepseek", "deepseek-flash", NOON.date())
        whole = InputSplit(read=1_000, uncached=5_100)

        kept = remembered(sent(policy=policy), plan=plan(0, 0, 6_000), policy=policy, actual=whole)

        assert (kept.n_cached, kept.cached_tokens) == (6, 6_100)

    def test_when_it_was_sent_gives_the_gap(self) -> None:
        kept = remembered(sent(), plan=plan(0, 6_000), policy=ANTHROPIC, actual=None, at=NOON)

        late = NOON + timedelta(seconds=301)
        found = shortfall(before=kept, at=late, gap_s=None, plan=plan(0, 8_000))
        soon = shortfall(before=kept, at=late - timedelta(seconds=2), gap_s=None)

        assert found is not None
        assert found.cause is Cause.EXPIRED
        assert soon is not None
        assert soon.cause is Cause.EVICTED

    def test_nothing_is_kept_of_what_was_not_answered(self) -> None:
        failed = replace(sent(), n_cached=0)

        assert shortfall(before=failed, plan=plan(0, 8_000)) is None

    def test_nothing_is_kept_without_marks(self) -> None:
        kept = remembered(sent(), plan=plan(0, 0, 6_000), policy=ANTHROPIC, actual=None)

        assert kept.n_cached == 0

    def test_caches_without_marks_keep_everything_but_the_volatile_end(self) -> None:
        policy = policy_for("deepseek", "deepseek-flash", NOON.date())

        kept = remembered(
            sent(volatile="now", policy=policy),
            plan=plan(0, 0, 7_000),
            policy=policy,
            actual=None,
        )

        assert (kept.n_cached, kept.life_s) == (6, None)

    def test_of_two_lifetimes_the_shorter_one_bounds_the_whole_prefix(self) -> None:
        both = replace(
            plan(0, 6_000),
            marks=(
                PlacedMark(index=2, ttl=Ttl.ONE_HOUR),
                PlacedMark(index=5, ttl=Ttl.FIVE_MINUTES),
            ),
        )

        kept = remembered(sent(), plan=both, policy=ANTHROPIC, actual=None)

        assert kept.life_s == 300

    @pytest.mark.parametrize(
        ("provider", "model", "ttl", "life_s"),
        [
            ("anthropic", "claude-sonnet-5-5", Ttl.ONE_HOUR, 3_600),
            ("openai", "gpt-6-sol", Ttl.THIRTY_MINUTES, 1_800),
            ("openai", "gpt-6-sol", Ttl.TWELVE_HOURS, 43_200),
        ],
    )
    def test_it_lives_as_long_as_its_marks_say(
        self, provider: str, model: str, ttl: Ttl, life_s: float
    ) -> None:
        policy = policy_for(provider, model, NOON.date())

        kept = remembered(
            sent(policy=policy), plan=plan(0, 6_000, ttl=ttl), policy=policy, actual=None
        )

        assert kept.life_s == life_s
