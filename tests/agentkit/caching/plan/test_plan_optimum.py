"""The plan against the best that any placement of marks and lifetimes could do, on short sequences.

Exact are: all trees of requests within the shortest lifetime, and all trees whose requests follow
each other at equal gaps, of any length. Unequal gaps are not: a draft knows its own gap, not those
after it, so a longer lifetime may come one request late. How much that costs at most is tested too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit.caching.policy import AnthropicPolicy, BlockKind, OpenAiMarkPolicy
from agentkit.caching.request import Message, Role
from tests.agentkit.caching.plan.brute_force import Timed, least_cost, planned_cost
from tests.agentkit.caching.plan.planning import CLAUDE, GPT, block, policy_of, request

PROVIDERS = pytest.mark.parametrize(("provider", "model"), [("anthropic", CLAUDE), ("openai", GPT)])
SIZES = (100, 600, 2000, 7000)
ANSWERS = (BlockKind.TEXT, BlockKind.TOOL_USE, BlockKind.THINKING)
LONG_GAPS = {"anthropic": (30, 400, 4000), "openai": (30, 2000, 50_000)}
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def trees(
    draw: st.DrawFn,
    *,
    model: str,
    gaps: Sequence[int],
    equal: bool,
    n_requests: int,
    n_blocks: int = 6,
) -> list[Timed]:
    """Requests that go on from one another, or part from one another, at any block."""
    forms = draw(st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(ANSWERS)), min_size=30))
    paths: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(2, n_requests))):
        before = draw(st.sampled_from(paths)) if paths else ()
        kept = before[: draw(st.integers(0, min(len(before), n_blocks - 1)))]
        new = draw(st.lists(st.integers(0, 2), min_size=1, max_size=min(3, n_blocks - len(kept))))
        paths.append((*kept, *new))
    gap = draw(st.sampled_from(gaps))
    return [
        Timed(
            _request(path, forms, model),
            (gap if equal else draw(st.sampled_from(gaps))) if number else 0,
        )
        for number, path in enumerate(paths)
    ]


def _request(path: tuple[int, ...], forms: list[tuple[int, BlockKind]], model: str):  # type: ignore[no-untyped-def]
    messages = []
    for depth in range(len(path)):
        name = repr(path[: depth + 1])
        n_tokens, kind = forms[sum(ord(letter) for letter in name) % len(forms)]
        role = Role.ASSISTANT if depth % 2 else Role.USER
        messages.append(
            Message(role, (block(name, n_tokens, kind if depth % 2 else BlockKind.TEXT),))
        )
    asked = request(messages, model=model)
    return replace(asked, identity=replace(asked.identity, cache_key="one"))


def _policy(provider: str, model: str) -> AnthropicPolicy | OpenAiMarkPolicy:
    policy = policy_of(provider, model)
    assert isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy)
    return policy


@PROVIDERS
@SLOW
@given(data=st.data())
def test_within_the_shortest_lifetime_the_plan_costs_what_the_best_placement_costs(
    provider: str, model: str, data: st.DataObject
) -> None:
    policy = _policy(provider, model)
    uses = data.draw(trees(model=model, gaps=(10, 60), equal=False, n_requests=4))
    assert planned_cost(uses, policy) == least_cost(uses, policy)


@PROVIDERS
@SLOW
@given(data=st.data())
def test_at_equal_gaps_the_plan_costs_what_the_best_placement_and_lifetimes_cost(
    provider: str, model: str, data: st.DataObject
) -> None:
    """Gaps within the shorter lifetime, within the longer one, and beyond both."""
    policy = _policy(provider, model)
    gaps = LONG_GAPS[provider]
    uses = data.draw(trees(model=model, gaps=gaps, equal=True, n_requests=3, n_blocks=5))
    assert planned_cost(uses, policy) == least_cost(uses, policy)


@PROVIDERS
@SLOW
@given(data=st.data())
def test_at_unequal_gaps_the_plan_costs_little_more_than_the_best(
    provider: str, model: str, data: st.DataObject
) -> None:
    """At most what one request's longer lifetime would have saved: a second write of the prefix."""
    policy = _policy(provider, model)
    gaps = LONG_GAPS[provider]
    uses = data.draw(trees(model=model, gaps=gaps, equal=False, n_requests=3, n_blocks=5))
    assert planned_cost(uses, policy) <= least_cost(uses, policy) * Decimal("1.6")
