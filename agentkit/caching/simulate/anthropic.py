"""Anthropic's cache: entries at marks, a lookback of 20 positions, tiers, two lifetimes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import pairwise
from typing import TypeAlias

from agentkit.blocks import Json
from agentkit.caching.chain import Boundary, Prefixes, boundaries, extended
from agentkit.caching.policy import (
    AnthropicPolicy,
    AnthropicRefresh,
    BlockKind,
    Isolation,
    Platform,
    Switches,
    Ttl,
    anthropic_policy,
)
from agentkit.caching.recent import Recent
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate.anthropic_checks import (
    automatic_mark,
    is_deferred,
    refuse_marks,
    refuse_request,
    rendered,
    shown_indexes,
)
from agentkit.caching.simulate.anthropic_reach import Positions, acting_marks, found_entry
from agentkit.caching.simulate.billing import split_at_marks
from agentkit.caching.simulate.cache import Plan, SimulatedCache, known_minimum
from agentkit.caching.simulate.clock import Clock
from agentkit.caching.simulate.diagnose import find_miss
from agentkit.caching.simulate.served import RefusalReason, Refused
from agentkit.caching.simulate.store import Write


class SimulatedAnthropic(SimulatedCache):
    """The prompt cache of the Claude API.

    Not documented and therefore chosen: a failed request writes nothing before its response
    begins; an entry keeps the lifetime it was written with; `Switches` has the rest.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        platform: Platform = Platform.DIRECT,
        switches: Switches | None = None,
        policy_of: Callable[[str, date], AnthropicPolicy] | None = None,
    ) -> None:
        super().__init__(clock=clock)
        self._policy_of = policy_of or (
            lambda model, on: anthropic_policy(model, on, platform=platform, switches=switches)
        )
        self._bound: Recent[_Bound, tuple[str, bytes]] = Recent(100_000)
        """Organisation and digest of a thinking block: its model, and the prefix before it."""

    def _plan(self, request: CacheRequest, now: datetime) -> Plan | Refused:
        policy = self._policy_of(request.identity.model, now.date())
        minimum = known_minimum(policy)
        request = rendered(request, policy)
        automatic = automatic_mark(request, policy)
        if isinstance(automatic, Refused):
            return automatic
        refused = refuse_request(request, policy) or refuse_marks(request, policy, automatic)
        if refused is not None:
            return refused
        request = _without_deferred(request)
        prefixes = boundaries(
            request,
            scope=_scope(request, policy),
            invalidations=policy.invalidations,
            memory=self._prefix_memory,
        )
        unbound = self._check_thinking(request, policy, prefixes)
        if unbound is not None:
            return unbound
        blocks = request.blocks
        marks = acting_marks(
            blocks, _placed(request, policy, automatic), policy, kinds=request.kinds
        )
        now_s = now.timestamp()
        hit = found_entry(
            list(marks),
            Positions(blocks, policy.lookback.unit),
            policy.lookback.size,
            lambda place: self._store.is_readable(prefixes.keys[place], now_s),
        )
        hit_tokens = 0 if hit is None else prefixes[hit].n_tokens
        effective = {i: ttl for i, ttl in marks.items() if prefixes[i].n_tokens >= minimum}
        total = prefixes[-1].n_tokens if prefixes else 0
        return Plan(
            request=request,
            policy=policy,
            at=now,
            prefixes=prefixes,
            split=split_at_marks(
                total,
                hit_tokens,
                [(prefixes[index].n_tokens, ttl) for index, ttl in effective.items()],
            ),
            miss=find_miss(
                prefixes,
                hit_tokens=hit_tokens,
                store=self._store,
                now_s=now_s,
                asks=bool(marks),
                minimum=minimum,
            ),
            touched=_touched(prefixes, marks, hit, policy),
            writes=tuple(
                Write(key=prefixes[index].key, ttl_s=ttl.seconds)
                for index, ttl in effective.items()
                if hit is None or index > hit
            ),
        )

    def _located(self, request: CacheRequest, now: datetime) -> tuple[Sequence[int], Prefixes]:
        policy = self._policy_of(request.identity.model, now.date())
        shown = _without_deferred(rendered(request, policy))
        prefixes = boundaries(
            shown,
            scope=_scope(shown, policy),
            invalidations=policy.invalidations,
            memory=self._prefix_memory,
        )
        return shown_indexes(request, policy), prefixes

    def _default_life_s(self, request: CacheRequest, now: datetime) -> float:
        return self._policy_of(request.identity.model, now.date()).default_ttl.seconds

    def _arrived(self, plan: Plan) -> None:
        """Bind the thinking blocks that nobody has seen before to where they are now."""
        if isinstance(plan.policy, AnthropicPolicy) and plan.policy.thinking_is_bound:
            for name, here in _bindings(plan.request, plan.policy, plan.prefixes):
                self._bound.setdefault(name, here)

    def _check_thinking(
        self, request: CacheRequest, policy: AnthropicPolicy, prefixes: Sequence[Boundary]
    ) -> Refused | None:
        if not policy.thinking_is_bound:
            return None
        seen: dict[_Bound, tuple[str, bytes]] = {}
        for name, here in _bindings(request, policy, prefixes):
            if self._bound.get(name, seen.setdefault(name, here)) != here:
                return Refused(
                    reason=RefusalReason.THINKING_BOUND,
                    message=(
                        f"thinking block {name[1]!r} is bound to a different "
                        "conversation; replay history unchanged, or leave the block out"
                    ),
                )
        return None

    def _ended(self, plan: Plan, output: tuple[Block, ...]) -> None:
        if not plan.prefixes or not isinstance(plan.policy, AnthropicPolicy):
            return
        parents = [plan.prefixes[-1].content, *extended(plan.prefixes[-1].content, output)]
        for block, parent in zip(output, parents, strict=False):
            if block.kind in _THINKING and plan.policy.thinking_is_bound:
                name = (plan.request.tenant.organization, block.digest)
                self._bound[name] = (plan.policy.model, parent)

    def _usage(self, plan: Plan, output_tokens: int) -> Mapping[str, Json]:
        split = plan.split
        return {
            "input_tokens": split.uncached,
            "cache_creation_input_tokens": split.written,
            "cache_read_input_tokens": split.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": split.wrote(Ttl.FIVE_MINUTES),
                "ephemeral_1h_input_tokens": split.wrote(Ttl.ONE_HOUR),
            },
            "output_tokens": output_tokens,
            "service_tier": "batch" if plan.request.terms.batch else "standard",
            "speed": plan.request.terms.speed.value,
            "inference_geo": "us" if plan.request.terms.us_only else None,
        }


_THINKING = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)


_Bound: TypeAlias = tuple[str, bytes]
"""Organisation and digest of a thinking block."""


def _bindings(
    request: CacheRequest, policy: AnthropicPolicy, prefixes: Sequence[Boundary]
) -> Iterator[tuple[_Bound, tuple[str, bytes]]]:
    if request.kinds.isdisjoint(_THINKING):
        return
    for before, prefix in pairwise(prefixes):
        if prefix.block.kind in _THINKING:
            name = (request.tenant.organization, prefix.block.digest)
            yield name, (policy.model, before.content)


def _without_deferred(request: CacheRequest) -> CacheRequest:
    if not any(map(is_deferred, request.tools)):
        return request
    return replace(request, tools=tuple(t for t in request.tools if not is_deferred(t)))


def _scope(request: CacheRequest, policy: AnthropicPolicy) -> tuple[str, ...]:
    tenant = request.tenant
    if policy.isolation is Isolation.WORKSPACE:
        return ("anthropic", tenant.organization, tenant.workspace)
    return ("anthropic", tenant.organization)


def _placed(
    request: CacheRequest, policy: AnthropicPolicy, automatic: tuple[int, Ttl] | None
) -> dict[int, Ttl]:
    """The marks of the request, and the automatic one."""
    found = {
        place: block.mark.ttl or policy.default_ttl
        for place, block in request.marked_places
        if block.mark is not None
    }
    return found if automatic is None else found | {automatic[0]: automatic[1]}


def _touched(
    prefixes: Sequence[Boundary],
    marks: Mapping[int, Ttl],
    hit: int | None,
    policy: AnthropicPolicy,
) -> tuple[bytes, ...]:
    if hit is None or not policy.refreshes_on_hit:
        return ()
    match policy.switches.anthropic_refresh:
        case AnthropicRefresh.HIT_ONLY:
            indexes = {hit}
        case AnthropicRefresh.HIT_AND_MARKED:
            indexes = {hit} | {index for index in marks if index < hit}
        case AnthropicRefresh.ALL_SHORTER:
            indexes = set(range(hit + 1))
    return tuple(prefixes[index].key for index in sorted(indexes))
