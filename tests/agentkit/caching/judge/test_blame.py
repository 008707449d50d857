"""Never the user's fault where it is the provider's, never the provider's where it is ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentkit.caching.judge import judge, remembered
from agentkit.caching.plan.plan import CachePlan, PlacedMark, Prediction
from agentkit.caching.policy import InputSplit, Policy, Ttl, policy_for
from agentkit.caching.request import Identity
from agentkit.caching.verdict import Cause, Shortfall
from agentkit.usage import Usage
from tests.agentkit.caching.judging import NOON, TALK, sent

MODELS = {
    "openrouter": "anthropic/claude-sonnet-5-5",
    "xai": "grok-4.7",
    "gemini": "gemini-3.8-flash",
    "vllm": "m",
    "groq": "openai/gpt-oss-120b",
    "moonshot": "kimi-k3",
    "alibaba": "qwen4-max",
    "deepseek": "deepseek-flash",
    "openai": "gpt-5.4",
}


def policy_of(provider: str) -> Policy:
    return policy_for(provider, MODELS[provider], NOON.date())


def plan(read: int, rest: int, marks: tuple[PlacedMark, ...] = (), **more: Any) -> CachePlan:
    split = InputSplit(read=read, uncached=rest)
    predicted = Prediction(split=split, hit=read // 1_000, cost=None, uncached=None)
    return CachePlan(marks=marks, predicted=predicted, **more)


def shortfall(
    provider: str,
    *,
    gap_s: float = 20,
    expected: int = 6_000,
    identity: tuple[Identity, Identity] | None = None,
    first: CachePlan | None = None,
    volatile: tuple[str | None, str | None] = (None, None),
    keys: CachePlan | None = None,
    **more: Any,
) -> Shortfall | None:
    """The verdict on a request that extends the one before and has read nothing of it."""
    policy = policy_of(provider)
    was, has = identity or (Identity(model=MODELS[provider]),) * 2
    before = sent(policy=policy, identity=was, volatile=volatile[0])
    before = replace(before, n_cached=0)
    split = InputSplit(read=0, uncached=before.tokens(len(before.wire)))
    kept = remembered(before, plan=first or plan(0, 6_000), policy=policy, actual=split)
    now = sent(policy=policy, identity=has, talk=TALK, volatile=volatile[1])
    total = now.tokens(len(now.wire))
    verdict = judge(
        plan=keys or plan(expected, total - expected, (first or plan(0, 0)).marks),
        policy=policy,
        usage=Usage(input_tokens=total, cache_read_tokens=0, cache_write_tokens=0, output_tokens=1),
        at=NOON,
        now=now,
        before=kept,
        gap_s=gap_s,
        **more,
    )
    return verdict.shortfall


@pytest.mark.parametrize("provider", ["xai", "vllm", "gemini", "deepseek"])
def test_after_a_long_pause_it_is_said_that_no_lifetime_is_published(provider: str) -> None:
    """C44: an hour and more without use is no miss of the provider's that one could show."""
    found = shortfall(provider, gap_s=4_000, expected=0)
    assert found is not None
    assert (found.cause, found.lost_tokens) == (Cause.EXPIRED, 6_000)
    assert f"{provider} publishes no lifetime" in found.detail


@pytest.mark.parametrize("provider", ["xai", "gemini", "deepseek"])
def test_a_short_pause_is_no_excuse(provider: str) -> None:
    found = shortfall(provider, gap_s=30)
    assert found is not None
    assert found.cause is Cause.EVICTED


def test_a_published_lifetime_is_not_said_to_be_none() -> None:
    within, beyond = shortfall("groq", gap_s=4_000), shortfall("groq", gap_s=7_300)
    assert within is not None
    assert within.cause is Cause.EVICTED
    assert beyond is not None
    assert beyond.cause is Cause.EXPIRED
    assert "its entry of 7,200 s" in beyond.detail


def test_what_a_gateway_marks_lives_as_long_as_the_mark() -> None:
    """OpenRouter stays with a host for ten minutes, but the entry behind a mark lives for five."""
    marked = plan(0, 6_000, (PlacedMark(index=5),))
    for gap_s, cause in ((290, Cause.EVICTED), (310, Cause.EXPIRED)):
        found = shortfall("openrouter", gap_s=gap_s, first=marked)
        assert found is not None
        assert found.cause is cause
    hour = plan(0, 6_000, (PlacedMark(index=5, ttl=Ttl.ONE_HOUR),))
    found = shortfall("openrouter", gap_s=310, first=hour)
    assert found is not None
    assert found.cause is Cause.EVICTED


def test_a_lifetime_for_the_whole_request_counts() -> None:
    options = replace(plan(0, 0).openai, ttl=Ttl.ONE_HOUR)
    short = shortfall("moonshot", gap_s=400)
    long = shortfall("moonshot", gap_s=400, first=plan(0, 6_000, openai=options))
    assert short is not None
    assert long is not None
    assert (short.cause, long.cause) == (Cause.EXPIRED, Cause.EVICTED)


def test_a_gateway_is_not_blamed_where_a_setting_is_another() -> None:
    """Whether the provider behind it keys entries by the tool choice is not published."""
    auto = Identity(model=MODELS["openrouter"])
    found = shortfall("openrouter", identity=(auto, replace(auto, tool_choice="look")))
    assert found is not None
    assert found.cause is Cause.UNKNOWN
    assert "tool_choice was auto and is look" in found.detail
    assert "not published" in found.detail


@pytest.mark.parametrize("provider", ["deepseek", "vllm"])
def test_a_sibling_that_still_writes_is_named(provider: str) -> None:
    found = shortfall(provider, still_writing=True, expected=0)
    assert found is not None
    assert found.cause is Cause.NOT_YET_READABLE


def test_a_unit_that_ends_behind_volatile_text_is_no_fault_of_deepseeks() -> None:
    found = shortfall("deepseek", expected=0, volatile=("it is noon", "it is one"))
    assert found is not None
    assert found.cause is Cause.NOT_YET_READABLE
    assert "behind its volatile text" in found.detail


def test_a_beginning_that_is_no_unit_yet_is_no_fault_of_deepseeks() -> None:
    found = shortfall("deepseek", expected=0)
    assert found is not None
    assert found.cause is Cause.NOT_YET_READABLE
    assert "whole units" in found.detail


def test_a_key_that_we_spread_is_routing_and_nothing_to_do() -> None:
    """C49: the key changed because the rate passed the ceiling; the user set none."""
    one, other = (Identity(model=MODELS["openai"], cache_key=key) for key in ("ak-1", "ak-1-3"))
    spread = plan(6_000, 2_000, cache_key="ak-1-3", key_base="ak-1")
    found = shortfall("openai", identity=(one, other), keys=spread)
    assert found is not None
    assert found.cause is Cause.ROUTED_ELSEWHERE
    assert "nothing to do" in found.detail
    assert "keep it the same" not in found.detail


def test_a_key_of_another_front_is_still_a_setting() -> None:
    one, other = (Identity(model=MODELS["openai"], cache_key=key) for key in ("ak-2", "ak-1"))
    other_key = plan(6_000, 2_000, cache_key="ak-1", key_base="ak-1")
    found = shortfall("openai", identity=(one, other), keys=other_key)
    assert found is not None
    assert found.cause is Cause.IDENTITY_CHANGED


def test_another_output_format_may_be_a_summary_of_our_own() -> None:
    """The summary of a typed agent's context is asked for without its schema, on purpose."""
    typed = Identity(model=MODELS["openai"], output_format="a1b2")
    found = shortfall("openai", identity=(typed, replace(typed, output_format=None)))
    assert found is not None
    assert found.cause is Cause.IDENTITY_CHANGED
    assert "keyed by output_format" in found.detail
    assert "a request for a summary has another one on purpose" in found.detail
    assert "keep it the same within a run" not in found.detail
