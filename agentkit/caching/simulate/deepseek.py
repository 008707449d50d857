"""DeepSeek's cache: whole persisted units, on disk, for everyone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from agentkit.blocks import Json
from agentkit.caching.chain import Boundary, Prefixes, boundaries, extended
from agentkit.caching.policy import (
    DeepSeekPolicy,
    InputSplit,
    Platform,
    Switches,
    deepseek_policy,
)
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate.cache import Plan, SimulatedCache
from agentkit.caching.simulate.clock import Clock
from agentkit.caching.simulate.diagnose import find_miss
from agentkit.caching.simulate.served import RefusalReason, Refused
from agentkit.caching.simulate.store import Write


class SimulatedDeepSeek(SimulatedCache):
    """The context cache of DeepSeek's API.

    Units are kept for the end of each request's input, for the end of its output, for a common
    prefix of two requests, and at fixed distances in long texts. Only a whole unit is a hit.
    Sizes and times are not published; they are arguments.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        switches: Switches | None = None,
        policy_of: Callable[[str, date], DeepSeekPolicy] | None = None,
        build_s: float = 5.0,
        lifetime_s: float = 86_400.0,
        interval_tokens: int | None = None,
    ) -> None:
        """`build_s`: from the end of a request until its units can be read ("seconds").

        `lifetime_s`: how long an unused unit stays ("hours to days").
        `interval_tokens`: distance of units in long texts; None makes none of these.
        """
        super().__init__(clock=clock)
        if interval_tokens is not None and interval_tokens < 1:
            raise ValueError(f"interval_tokens must be at least 1 or None, got {interval_tokens!r}")
        self._policy_of = policy_of or (
            lambda model, on: deepseek_policy(
                model, on, platform=Platform.DIRECT, switches=switches
            )
        )
        self._build_s = build_s
        self._lifetime_s = lifetime_s
        self._interval_tokens = interval_tokens
        self._seen: set[bytes] = set()
        """Every prefix of every request and reply: what a common prefix is found by."""

    def _plan(self, request: CacheRequest, now: datetime) -> Plan | Refused:
        policy = self._policy_of(request.identity.model, now.date())
        if request.marked or request.prewarm:
            return Refused(
                reason=RefusalReason.UNSUPPORTED,
                message="DeepSeek has no cache marks and no prewarm; leave them out",
            )
        prefixes = self._prefixes(request, policy)
        now_s = now.timestamp()
        readable = [p for p in prefixes if self._store.is_readable(p.key, now_s)]
        hit_tokens = readable[-1].n_tokens if readable else 0
        total = prefixes[-1].n_tokens if prefixes else 0
        read = hit_tokens
        if policy.block_tokens is not None:
            read = hit_tokens // policy.block_tokens * policy.block_tokens
        units = self._units(prefixes, policy)
        return Plan(
            request=request,
            policy=policy,
            at=now,
            prefixes=prefixes,
            split=InputSplit(read=read, uncached=total - read),
            miss=find_miss(
                prefixes,
                hit_tokens=hit_tokens,
                store=self._store,
                now_s=now_s,
            ),
            touched=tuple(prefix.key for prefix in readable[-1:]),
            writes=tuple(Write(key=key, ttl_s=self._lifetime_s) for key in units),
        )

    def _located(self, request: CacheRequest, now: datetime) -> tuple[Sequence[int], Prefixes]:
        policy = self._policy_of(request.identity.model, now.date())
        prefixes = self._prefixes(request, policy)
        return range(len(prefixes)), prefixes

    def _default_life_s(self, request: CacheRequest, now: datetime) -> float:
        return self._lifetime_s

    def _prefixes(self, request: CacheRequest, policy: DeepSeekPolicy) -> Prefixes:
        scope = ("deepseek", request.tenant.organization, repr(request.identity.cache_key))
        return boundaries(
            request, scope=scope, invalidations=policy.invalidations, memory=self._prefix_memory
        )

    def _arrived(self, plan: Plan) -> None:
        self._seen.update(prefix.key for prefix in plan.prefixes)

    def _units(self, prefixes: Sequence[Boundary], policy: DeepSeekPolicy) -> list[bytes]:
        """The prefixes of this request that become units."""
        if policy.block_tokens is not None:  # the old rule: any common prefix, cut to blocks
            return [prefix.key for prefix in prefixes]
        common = [prefix.key for prefix in prefixes if prefix.key in self._seen]
        keys = common[-1:] + [prefix.key for prefix in prefixes[-1:]]
        if self._interval_tokens is not None:
            crossed = 0
            for prefix in prefixes:
                # Blocks are not divisible: the unit is the first whole block past the distance.
                if prefix.n_tokens // self._interval_tokens > crossed:
                    crossed = prefix.n_tokens // self._interval_tokens
                    keys.append(prefix.key)
        return list(dict.fromkeys(keys))

    def _response_began(self, plan: Plan) -> None:
        """Nothing: units are built when the request has ended."""

    def _aborted(self, plan: Plan, *, responding: bool) -> None:
        del responding  # nothing is built before the end
        self._abandon(plan)

    def _ended(self, plan: Plan, output: tuple[Block, ...]) -> None:
        readable_s = self._clock().timestamp() + self._build_s
        self._publish(plan, readable_s=readable_s)
        if not output or not plan.prefixes:
            return
        keys = extended(plan.prefixes[-1].key, output)
        self._seen.update(keys)
        kept = keys if _keeps_every_block(plan) else keys[-1:]
        for key in kept:
            self._store.put(
                Write(key=key, ttl_s=self._lifetime_s),
                used_s=plan.at.timestamp(),
                readable_s=readable_s,
            )

    def _usage(self, plan: Plan, output_tokens: int) -> Mapping[str, Json]:
        split = plan.split
        return {
            "prompt_tokens": split.total,
            "completion_tokens": output_tokens,
            "total_tokens": split.total + output_tokens,
            "prompt_cache_hit_tokens": split.read,
            "prompt_cache_miss_tokens": split.uncached,
            "prompt_tokens_details": {"cached_tokens": split.read},
        }


def _keeps_every_block(plan: Plan) -> bool:
    return isinstance(plan.policy, DeepSeekPolicy) and plan.policy.block_tokens is not None
