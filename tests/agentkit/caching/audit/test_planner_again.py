"""Rules of the planner that its own tests hold too loosely: each fails on one changed line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit.caching.plan.draft import Written
from agentkit.caching.plan.keys import with_key
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import AnthropicPolicy, BlockKind, OpenAiMarkPolicy
from agentkit.caching.request import CacheRequest
from agentkit.caching.simulate import ManualClock
from tests.agentkit.caching.plan.brute_force import Timed, least_cost, planned_cost
from tests.agentkit.caching.plan.planning import (
    CLAUDE,
    GPT,
    assistant,
    block,
    cache_for,
    conversations,
    draft_of,
    policy_of,
    request,
    user,
    with_user_marks,
)

PLAIN = [BlockKind.TEXT, BlockKind.TOOL_USE]


def _asked(*names: str, model: str) -> CacheRequest:
    messages = [(assistant if n % 2 else user)(block(name, 7_000)) for n, name in enumerate(names)]
    asked = request(messages, model=model)
    return replace(asked, identity=replace(asked.identity, cache_key="one"))


@pytest.mark.parametrize(
    ("provider", "model", "gap_s"), [("anthropic", CLAUDE, 400), ("openai", GPT, 2_000)]
)
@pytest.mark.parametrize(
    "paths",
    [
        [("a",), ("a", "b", "c"), ("a", "b", "c", "d", "e")],
        [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "e")],
        [("a",), ("a", "b", "c"), ("a", "x", "y")],
    ],
)
def test_beyond_the_shorter_lifetime_the_longer_one_is_bought_where_it_pays(
    provider: str, model: str, gap_s: int, paths: list[tuple[str, ...]]
) -> None:
    """Three requests whose gaps only the longer lifetime spans: it is worth its price."""
    policy = policy_of(provider, model)
    assert isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy)
    uses = [Timed(_asked(*path, model=model), gap_s if n else 0) for n, path in enumerate(paths)]
    assert policy.prices is not None
    n_tokens = sum(each.n_tokens for use in uses for each in use.asked.blocks)
    plain = n_tokens * policy.prices.rates.input / 1_000_000

    best = least_cost(uses, policy)

    assert planned_cost(uses, policy) == best
    assert best < plain


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_at_openai_no_mark_of_ours_pushes_another_out_of_what_is_written(
    data: st.DataObject,
) -> None:
    """Marks never exceed the budget: only so many of the latest new ones are written."""
    policy = policy_of("openai", GPT)
    assert isinstance(policy, OpenAiMarkPolicy)
    clock = ManualClock()
    cache = cache_for("openai", GPT, clock)
    for asked in data.draw(conversations(model=GPT, kinds=PLAIN, max_turns=5)):
        n_front = len(asked.tools) + len(asked.system)
        takes = [
            n_front + n
            for n, each in enumerate(asked.messages[0].blocks)
            if each.kind is BlockKind.TEXT and each.n_tokens
        ]
        theirs = data.draw(
            st.lists(st.sampled_from(takes), max_size=3, unique=True) if takes else st.just([])
        )
        organization = (data.draw(st.integers(0, n_front)), 2)
        draft = draft_of(with_user_marks(asked, theirs, None), organization=organization, run=3)
        draft = with_key(draft, policy, None, clock())
        written = cache.written(draft.request) if data.draw(st.booleans()) else Written()

        planned = plan(draft, policy, written, clock())

        new = [mark for mark in planned.marks if mark.index >= planned.predicted.hit]
        explicit = planned.openai.mode == "explicit"
        budget = policy.explicit_writes if explicit else policy.implicit_explicit_writes
        ours = [mark for mark in planned.marks if not mark.by_user]
        assert len(new) <= max(budget, sum(mark.by_user for mark in new))
        assert len(ours) <= policy.explicit_writes
        cache.request(planned.applied(draft.request))
        clock.advance(60)
