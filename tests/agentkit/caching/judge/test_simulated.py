"""The judge against simulated providers: it finds what was done to the run, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.caching.chain import settings
from agentkit.caching.difference import Sent
from agentkit.caching.judge import judge, remembered
from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix
from agentkit.caching.plan.keys import with_key
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import Platform, Policy, Provider, Switches, Ttl, policy_for
from agentkit.caching.request import Identity
from agentkit.caching.simulate import ManualClock
from agentkit.caching.simulate.cache import SimulatedCache
from agentkit.caching.simulate.served import Refused
from agentkit.caching.track.shadow import PolicyBook, shadow_of
from agentkit.caching.verdict import Cause, Verdict
from agentkit.usage import Usage
from tests.agentkit.caching.judging import sent

MODELS = [
    (Provider.ANTHROPIC, "claude-sonnet-5-5"),
    (Provider.OPENAI, "gpt-6-sol"),
    (Provider.OPENAI, "gpt-5.5"),
    (Provider.DEEPSEEK, "deepseek-flash"),
    (Provider.VLLM, "llama"),
]
TALK = [f"message {number}" for number in range(12)]
FRONT = 3
"""Blocks that all runs share: two tools and the role."""
RUN_READS = Decimal("0.85")


@dataclass
class Run:
    """One run at a simulated provider, with our own simulator beside it."""

    provider: Provider
    model: str
    clock: ManualClock = field(default_factory=ManualClock)
    before: Sent | None = None
    ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.policy: Policy = policy_for(self.provider, self.model, self.clock().date())
        self.real = self._cache()
        self.shadow = self._cache()

    def _cache(self) -> SimulatedCache:
        book = PolicyBook(self.provider, self.model, platform=Platform.DIRECT, switches=Switches())
        return shadow_of(book, clock=self.clock)

    def provider_forgets(self) -> None:
        """Every entry is dropped, and we are not told."""
        self.real = self._cache()

    def ask(self, talk: Sequence[str], *, gap_s: float = 20.0, **other: Any) -> Verdict:
        """Send a request and judge it."""
        epoch_changed = other.pop("epoch_changed", False)
        identity = other.pop("identity", Identity(model=self.model))
        self.clock.advance(gap_s)
        now = sent(talk=talk, identity=identity, policy=self.policy, **other)
        draft = with_key(self._draft(now), self.policy, None, self.clock())
        written = self.shadow.written(draft.request)
        planned = plan(draft, self.policy, written, self.clock())
        now = replace(
            now,
            request=draft.request,
            settings=settings(draft.request, self.policy.invalidations),
        )
        at = self.clock()
        request = planned.applied(draft.request)
        flights = [cache.begin(request) for cache in (self.real, self.shadow)]
        self.clock.advance(2)
        served = None
        for flight in reversed(flights):
            assert not isinstance(flight, Refused)
            flight.response_began()
            served = flight.end(output_tokens=10)
        assert served is not None
        verdict = judge(
            plan=planned,
            policy=self.policy,
            usage=usage_of(served.split, self.policy),
            at=at,
            before=self.before,
            now=now,
            epoch_changed=epoch_changed,
            still_writing=any(
                entry is not None and entry.readable_s > at.timestamp()
                for entry in written.entries[planned.predicted.hit :]
            ),
        )
        assert verdict.cost == served.cost
        self.before = remembered(
            now, plan=planned, policy=self.policy, actual=verdict.actual, at=at
        )
        self.ends.append(len(now.wire))
        return verdict

    def _draft(self, now: Sent) -> Draft:
        earlier = [end for end in self.ends if FRONT < end < len(now.wire)]
        return Draft(
            request=now.request,
            shared=(
                SharedPrefix(end=FRONT, by=SharedBy.AGENT, reads=Decimal(2)),
                *(SharedPrefix(end=end, by=SharedBy.RUN, reads=RUN_READS) for end in earlier),
                SharedPrefix(end=len(now.wire), by=SharedBy.RUN, reads=RUN_READS),
            ),
        )


def usage_of(split: Any, policy: Policy) -> Usage:
    long = [split.wrote(ttl) for ttl in (Ttl.ONE_HOUR, Ttl.TWELVE_HOURS)]
    return Usage(
        input_tokens=split.total,
        cache_read_tokens=split.read,
        cache_write_tokens=split.written,
        cache_write_long_tokens=sum(long),
        output_tokens=10,
    )


@pytest.mark.parametrize(("provider", "model"), MODELS)
def test_a_run_that_only_grows_costs_what_was_planned_and_has_no_shortfall(
    provider: Provider, model: str
) -> None:
    run = Run(provider, model)

    for turn in range(5):
        verdict = run.ask(TALK[: 2 * turn + 1])

        assert verdict.shortfall is None
        assert verdict.actual == verdict.predicted.split
        paid = None if verdict.cost is None else verdict.cost.total
        assert verdict.planned_cost == paid


@pytest.mark.parametrize(("provider", "model"), MODELS[:3])
def test_a_gap_longer_than_the_life_is_found_where_a_life_is_published(
    provider: Provider, model: str
) -> None:
    run = Run(provider, model)
    run.ask(TALK[:5])

    verdict = run.ask(TALK[:7], gap_s=90_000)

    assert verdict.shortfall is not None
    assert verdict.shortfall.cause is Cause.EXPIRED


@pytest.mark.parametrize(("provider", "model"), MODELS)
class TestWhatWasDoneToTheRunIsFound:
    def test_a_cache_that_was_emptied(self, provider: Provider, model: str) -> None:
        run = Run(provider, model)
        run.ask(TALK[:5])
        run.provider_forgets()

        verdict = run.ask(TALK[:7])

        assert verdict.shortfall is not None
        assert verdict.shortfall.cause is Cause.EVICTED
        assert verdict.shortfall.difference is None

    def test_another_role(self, provider: Provider, model: str) -> None:
        run = Run(provider, model)
        run.ask(TALK[:5])

        verdict = run.ask(TALK[:7], role="It is 12:01.", sources={1: "app.py:12"})

        assert verdict.shortfall is not None
        assert verdict.shortfall.cause is Cause.SEGMENT_CHANGED
        assert verdict.shortfall.difference is not None
        assert verdict.shortfall.difference.segment == "system/role"
        assert verdict.shortfall.difference.source == "app.py:12"

    def test_another_tool_list(self, provider: Provider, model: str) -> None:
        run = Run(provider, model)
        run.ask(TALK[:5])

        verdict = run.ask(TALK[:7], tools=("beta", "alpha"))

        assert verdict.shortfall is not None
        assert verdict.shortfall.cause is Cause.SEGMENT_CHANGED
        assert verdict.shortfall.difference is not None
        assert verdict.shortfall.difference.block == 0

    def test_a_compaction(self, provider: Provider, model: str) -> None:
        run = Run(provider, model)
        for turn in range(3):
            run.ask(TALK[: 2 * turn + 5])

        verdict = run.ask(["a summary", "thank you"], epoch_changed=True)

        assert verdict.shortfall is not None
        assert verdict.shortfall.cause is Cause.COMPACTED


@pytest.mark.parametrize(
    ("provider", "model"), [model for model in MODELS if model[0] is not Provider.VLLM]
)
def test_another_model_is_a_setting(provider: Provider, model: str) -> None:
    run = Run(provider, model)
    run.ask(TALK[:5])
    other = {"gpt-6-sol": "gpt-6.1-sol", "gpt-5.5": "gpt-5.4"}.get(model, model + "-other")
    run.policy = replace(run.policy, model=model)

    verdict = run.ask(TALK[:7], identity=Identity(model=other, effort="low"))

    assert verdict.shortfall is not None
    assert verdict.shortfall.cause is Cause.IDENTITY_CHANGED
    assert "model was" in verdict.shortfall.detail


@given(
    which=st.sampled_from(MODELS),
    growths=st.lists(st.integers(1, 2), min_size=2, max_size=5),
    gaps=st.lists(st.sampled_from([1.0, 30.0, 200.0, 400.0, 5_000.0]), min_size=5, max_size=5),
    forgets=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_a_run_that_only_grows_is_never_blamed(
    which: tuple[Provider, str], growths: list[int], gaps: list[float], forgets: list[bool]
) -> None:
    run, length = Run(*which), 1

    for growth, gap_s, forgotten in zip(growths, gaps, forgets, strict=False):
        if forgotten:
            run.provider_forgets()
        verdict = run.ask(TALK[:length], gap_s=gap_s)
        length += growth

        if verdict.shortfall is not None:
            cause = verdict.shortfall.cause
            # A process that waits for 5,000 s may find the cache empty at any provider.
            assert cause is Cause.EXPIRED or forgotten or gap_s > 1_000 or _is_slow(run, cause)
            assert cause in (Cause.EXPIRED, Cause.EVICTED, Cause.NOT_YET_READABLE)


def _is_slow(run: Run, cause: Cause) -> bool:
    return run.provider is Provider.DEEPSEEK and cause is Cause.NOT_YET_READABLE
