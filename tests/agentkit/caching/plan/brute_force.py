"""The cheapest way to send a few requests: every placement of marks with every lifetime, tried out.

Only for very short sequences. States of the cache that are no better than another one, and have
cost no less, are given up; that loses no optimum, because more and longer-lived entries never make
a later request dearer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix
from agentkit.caching.plan.prompt import roles_of
from agentkit.caching.policy import AnthropicPolicy, OpenAiMarkPolicy, Ttl
from agentkit.caching.request import CacheRequest, Mark, Role
from agentkit.caching.simulate import ManualClock, Refused, SimulatedCache
from agentkit.caching.simulate.store import Entry
from tests.agentkit.caching.plan.planning import cache_for, send

State = Mapping[bytes, Entry]


@dataclass(frozen=True, slots=True)
class Timed:
    """A request, and the seconds since the one before."""

    asked: CacheRequest
    wait_s: float


def planned_cost(uses: Sequence[Timed], policy: AnthropicPolicy | OpenAiMarkPolicy) -> Decimal:
    """What the planner pays, if it is told exactly who will need what, and when."""
    clock = ManualClock()
    cache = cache_for(policy.provider.value, policy.model, clock)
    longest_s = max(choice.ttl.seconds for choice in policy.ttls)
    total = Decimal(0)
    for number, use in enumerate(uses):
        clock.advance(use.wait_s)
        cost = send(cache, clock, _informed(uses, number, longest_s), policy).served.cost
        assert cost is not None
        total += cost.total
    return total


def least_cost(uses: Sequence[Timed], policy: AnthropicPolicy | OpenAiMarkPolicy) -> Decimal:
    """The least over all placements and lifetimes."""
    clock = ManualClock()
    cache = cache_for(policy.provider.value, policy.model, clock)
    states: list[tuple[Decimal, State]] = [(Decimal(0), {})]
    for number, use in enumerate(uses):
        clock.advance(use.wait_s)
        later = _later_keys(cache, uses, number)
        found: list[tuple[Decimal, State]] = []
        for cost, state in states:
            for marked in _placements(use.asked, policy):
                cache._store._entries = dict(state)
                served = cache.request(marked)
                assert not isinstance(served, Refused), served.message
                assert served.cost is not None
                after = {k: e for k, e in cache._store._entries.items() if k in later}
                found.append((cost + served.cost.total, after))
        states = _undominated(found)
    return min(cost for cost, _ in states)


def _informed(uses: Sequence[Timed], number: int, longest_s: float) -> Draft:
    asked = uses[number].asked
    digests = [block.digest for block in asked.blocks]
    reads: dict[int, int] = {}
    gaps: dict[int, float] = {}
    waited, used_s = 0.0, dict.fromkeys(range(len(digests) + 1), 0.0)
    for use in uses[number + 1 :]:
        waited += use.wait_s
        end = _common(digests, [block.digest for block in use.asked.blocks])
        # A need counts as long as an entry can live to see it, used by those before.
        if waited - used_s[end] < longest_s:
            reads[end] = reads.get(end, 0) + 1
            gaps.setdefault(end, waited)
        used_s |= dict.fromkeys(range(end + 1), waited)
    ends = sorted(end for end in reads if end)
    shared = [
        SharedPrefix(
            end=end,
            by=SharedBy.RUN if end == ends[-1] else SharedBy.AGENT,
            reads=Decimal(reads[end]),
            gap_s=Decimal(str(gaps[end])),
        )
        for end in ends
    ]
    return Draft(request=asked, shared=tuple(shared))


def _common(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    n_equal = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine != theirs:
            break
        n_equal += 1
    return n_equal


def _later_keys(cache: SimulatedCache, uses: Sequence[Timed], number: int) -> set[bytes]:
    now = cache._clock()
    return {key for use in uses[number + 1 :] for key in cache._located(use.asked, now)[1].keys}


def _placements(
    asked: CacheRequest, policy: AnthropicPolicy | OpenAiMarkPolicy
) -> Iterator[CacheRequest]:
    """All requests with up to four marks, longer lifetimes first; at OpenAI in both modes."""
    from dataclasses import replace

    long = policy.ttls[-1].ttl
    blocks = list(asked.blocks)
    places = [
        index
        for index, (block, role) in enumerate(zip(blocks, roles_of(asked), strict=True))
        if block.kind in policy.markable
        and block.n_tokens
        and (isinstance(policy, AnthropicPolicy) or role is not Role.ASSISTANT)
    ]
    modes = ["explicit"] if isinstance(policy, AnthropicPolicy) else ["explicit", "implicit"]
    for mode in modes:
        base = replace(asked, openai=replace(asked.openai, mode=mode))  # type: ignore[arg-type]
        for size in range(5):
            for chosen in combinations(places, size):
                for n_long in range(size + 1):
                    marked = list(blocks)
                    for order, place in enumerate(chosen):
                        ttl: Ttl | None = long if order < n_long else None
                        marked[place] = replace(marked[place], mark=Mark(ttl))
                    yield base.with_blocks(marked)


def _undominated(found: list[tuple[Decimal, State]]) -> list[tuple[Decimal, State]]:
    kept: list[tuple[Decimal, State]] = []
    for cost, state in sorted(found, key=lambda each: (each[0], -len(each[1]))):
        if not any(_covers(better, state) for _, better in kept):
            kept.append((cost, state))
    return kept


def _covers(better: State, state: State) -> bool:
    """Whether everything in a state is in the other too, and lives at least as long there."""
    for key, entry in state.items():
        other = better.get(key)
        if other is None or other.ttl_s < entry.ttl_s or other.expires_s < entry.expires_s:
            return False
    return True
