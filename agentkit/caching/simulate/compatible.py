"""Servers that speak the OpenAI protocol: the longest common prefix, in whole blocks of tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from agentkit.blocks import Json
from agentkit.caching.chain import Prefixes, boundaries
from agentkit.caching.policy import CompatiblePolicy, InputSplit
from agentkit.caching.request import CacheRequest
from agentkit.caching.simulate.cache import Plan, SimulatedCache
from agentkit.caching.simulate.clock import Clock
from agentkit.caching.simulate.diagnose import find_miss
from agentkit.caching.simulate.store import Write

_LIFETIME_S = 3_600.0
"""Where a policy has none: until evicted, which a server with little load does late."""


class SimulatedCompatible(SimulatedCache):
    """The prefix cache of vLLM, SGLang and hosts like them.

    Simplified: marks are taken for hints that change nothing, nothing is evicted before its time,
    and `identity.cache_key` (a salt, a session) keeps requests apart.
    """

    def __init__(self, *, clock: Clock, policy_of: Callable[[str, date], CompatiblePolicy]) -> None:
        super().__init__(clock=clock)
        self._policy_of = policy_of

    def _plan(self, request: CacheRequest, now: datetime) -> Plan:
        policy = self._policy_of(request.identity.model, now.date())
        prefixes = self._prefixes(request, policy)
        now_s = now.timestamp()
        readable = [prefix for prefix in prefixes if self._store.is_readable(prefix.key, now_s)]
        total = prefixes[-1].n_tokens if prefixes else 0
        common = readable[-1].n_tokens if readable else 0
        read = whole_blocks(common, total, policy)
        minimum = policy.minimum_tokens or 0
        writes = tuple(
            Write(key=prefix.key, ttl_s=policy.idle_s or _LIFETIME_S) for prefix in prefixes
        )
        return Plan(
            request=request,
            policy=policy,
            at=now,
            prefixes=prefixes,
            split=InputSplit(read=read, uncached=total - read),
            miss=find_miss(
                prefixes,
                hit_tokens=common,
                store=self._store,
                now_s=now_s,
                minimum=minimum,
            ),
            touched=tuple(prefix.key for prefix in readable),
            writes=writes if total >= minimum else (),
        )

    def _located(self, request: CacheRequest, now: datetime) -> tuple[Sequence[int], Prefixes]:
        policy = self._policy_of(request.identity.model, now.date())
        prefixes = self._prefixes(request, policy)
        return range(len(prefixes)), prefixes

    def _default_life_s(self, request: CacheRequest, now: datetime) -> float:
        return self._policy_of(request.identity.model, now.date()).idle_s or _LIFETIME_S

    def _prefixes(self, request: CacheRequest, policy: CompatiblePolicy) -> Prefixes:
        scope = (
            policy.provider.value,
            request.tenant.organization,
            repr(request.identity.cache_key),
        )
        return boundaries(
            request, scope=scope, invalidations=policy.invalidations, memory=self._prefix_memory
        )

    def _usage(self, plan: Plan, output_tokens: int) -> Mapping[str, Json]:
        total = plan.split.total
        return {
            "prompt_tokens": total,
            "prompt_tokens_details": {"cached_tokens": plan.split.read},
            "completion_tokens": output_tokens,
            "total_tokens": total + output_tokens,
        }


def whole_blocks(common: int, total: int, policy: CompatiblePolicy) -> int:
    """Return how many of `common` leading tokens are read: whole blocks, and never the last token.

    Source: vLLM 0.33.0 caps a hit at one token less than the prompt, then cuts to blocks.
    """
    if policy.recomputes_last_token:
        common = min(common, total - 1)
    return max(0, common) // (policy.block_tokens or 1) * (policy.block_tokens or 1)
