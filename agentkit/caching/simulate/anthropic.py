"""Anthropic's cache: entries at marks, a lookback of 20 positions, tiers, two lifetimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from agentkit.blocks import Json
from agentkit.caching.chain import Boundary, boundaries, extended
from agentkit.caching.policy import (
    AnthropicPolicy,
    AnthropicRefresh,
    BlockKind,
    Isolation,
    LookbackUnit,
    Platform,
    Switches,
    Ttl,
    anthropic_policy,
)
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate.anthropic_checks import (
    automatic_mark,
    refuse_marks,
    refuse_request,
    rendered,
)
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
        self._bound: dict[tuple[str, bytes], tuple[str, bytes]] = {}
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
        request = replace(request, tools=tuple(filter(_is_in_prefix, request.tools)))
        prefixes = boundaries(
            request, scope=_scope(request, policy), invalidations=policy.invalidations
        )
        unbound = self._check_thinking(request, policy, prefixes)
        if unbound is not None:
            return unbound
        marks = _marks(prefixes, policy, automatic)
        now_s = now.timestamp()
        hit = self._find(prefixes, marks, policy, now_s)
        hit_tokens = 0 if hit is None else prefixes[hit].n_tokens
        effective = [mark for mark in marks if prefixes[mark.index].n_tokens >= minimum]
        total = prefixes[-1].n_tokens if prefixes else 0
        return Plan(
            request=request,
            policy=policy,
            at=now,
            prefixes=tuple(prefixes),
            split=split_at_marks(
                total,
                hit_tokens,
                [(prefixes[mark.index].n_tokens, mark.ttl) for mark in effective],
            ),
            miss=find_miss(
                request,
                policy,
                prefixes,
                hit_tokens=hit_tokens,
                store=self._store,
                now_s=now_s,
                asks=bool(marks),
                minimum=minimum,
            ),
            touched=_touched(prefixes, marks, hit, policy),
            writes=tuple(
                Write(key=prefixes[mark.index].key, ttl_s=mark.ttl.seconds)
                for mark in effective
                if hit is None or mark.index > hit
            ),
        )

    def _find(
        self,
        prefixes: Sequence[Boundary],
        marks: Sequence[_PlacedMark],
        policy: AnthropicPolicy,
        now_s: float,
    ) -> int | None:
        positions = _positions(prefixes, policy.lookback.unit)
        for mark in reversed(marks):
            last = positions[mark.index] - policy.lookback.size
            for index in range(mark.index, -1, -1):
                if positions[index] <= last:
                    break
                if self._store.is_readable(prefixes[index].key, now_s):
                    return index
        return None

    def _check_thinking(
        self, request: CacheRequest, policy: AnthropicPolicy, prefixes: Sequence[Boundary]
    ) -> Refused | None:
        if not policy.thinking_is_bound:
            return None
        for before, prefix in zip([None, *prefixes], prefixes, strict=False):
            if prefix.block.kind not in _THINKING or before is None:
                continue
            name = (request.tenant.organization, prefix.block.digest)
            here = (policy.model, before.content)
            if self._bound.setdefault(name, here) != here:
                return Refused(
                    reason=RefusalReason.THINKING_BOUND,
                    message=(
                        f"thinking block {prefix.block.digest!r} is bound to a different "
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


@dataclass(frozen=True, slots=True)
class _PlacedMark:
    index: int
    ttl: Ttl


def _is_in_prefix(tool: Block) -> bool:
    return tool.kind is not BlockKind.DEFERRED_TOOL


def _scope(request: CacheRequest, policy: AnthropicPolicy) -> tuple[str, ...]:
    tenant = request.tenant
    if policy.isolation is Isolation.WORKSPACE:
        return ("anthropic", tenant.organization, tenant.workspace)
    return ("anthropic", tenant.organization)


def _marks(
    prefixes: Sequence[Boundary], policy: AnthropicPolicy, automatic: tuple[int, Ttl] | None
) -> list[_PlacedMark]:
    """All marks in order: the user's, the automatic one, and those of server tools."""
    found = {
        index: prefix.block.mark.ttl or policy.default_ttl
        for index, prefix in enumerate(prefixes)
        if prefix.block.mark is not None
    }
    found = {index: ttl for index, ttl in found.items() if not _later_in_group(index, prefixes)}
    if automatic is not None:
        found[automatic[0]] = automatic[1]
    if found:
        for index, prefix in enumerate(prefixes):
            if prefix.block.kind is BlockKind.SERVER_TOOL_RESULT:
                found.setdefault(index, policy.server_tool_ttl)
    return [_PlacedMark(index, found[index]) for index in sorted(found)]


def _later_in_group(index: int, prefixes: Sequence[Boundary]) -> bool:
    """Whether a later mark of the same group stands for this one."""
    group = prefixes[index].block.group
    if group is None:
        return False
    for prefix in prefixes[index + 1 :]:
        if prefix.block.group != group:
            return False
        if prefix.block.mark is not None:
            return True
    return False


def _positions(prefixes: Sequence[Boundary], unit: LookbackUnit) -> list[int]:
    """The position of each block: one more than the one before, except inside a run."""
    positions: list[int] = []
    for index, prefix in enumerate(prefixes):
        if index == 0:
            positions.append(0)
            continue
        same = unit is LookbackUnit.COLLAPSED_RUNS and _is_one_run(
            prefixes[index - 1].block, prefix.block
        )
        positions.append(positions[-1] + (0 if same else 1))
    return positions


def _is_one_run(before: Block, block: Block) -> bool:
    if block.group is not None and before.group == block.group:
        return True
    return before.kind is block.kind and block.kind in (
        BlockKind.TOOL_USE,
        BlockKind.TOOL_RESULT,
    )


def _touched(
    prefixes: Sequence[Boundary],
    marks: Sequence[_PlacedMark],
    hit: int | None,
    policy: AnthropicPolicy,
) -> tuple[bytes, ...]:
    if hit is None or not policy.refreshes_on_hit:
        return ()
    match policy.switches.anthropic_refresh:
        case AnthropicRefresh.HIT_ONLY:
            indexes = {hit}
        case AnthropicRefresh.HIT_AND_MARKED:
            indexes = {hit} | {mark.index for mark in marks if mark.index < hit}
        case AnthropicRefresh.ALL_SHORTER:
            indexes = set(range(hit + 1))
    return tuple(prefixes[index].key for index in sorted(indexes))
