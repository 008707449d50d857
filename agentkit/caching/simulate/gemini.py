"""Gemini's caches: the implicit one, and cached-content objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

from agentkit.blocks import Json
from agentkit.caching.chain import Boundary, Prefixes, boundaries
from agentkit.caching.policy import (
    GeminiPolicy,
    InputSplit,
    Platform,
    Switches,
    gemini_policy,
)
from agentkit.caching.request import CacheRequest, Tenant
from agentkit.caching.simulate.cache import Plan, SimulatedCache, known_minimum
from agentkit.caching.simulate.clock import Clock
from agentkit.caching.simulate.diagnose import find_miss
from agentkit.caching.simulate.gemini_objects import CachedContent, ContentStore
from agentkit.caching.simulate.served import RefusalReason, Refused
from agentkit.caching.simulate.store import Write


class SimulatedGemini(SimulatedCache):
    """Gemini's implicit cache, and `client.caches`.

    The implicit cache is best effort, and its rules are not published: here it finds the longest
    common prefix of whole blocks, and keeps it for `lifetime_s` without use.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        platform: Platform = Platform.DIRECT,
        switches: Switches | None = None,
        policy_of: Callable[[str, date], GeminiPolicy] | None = None,
        lifetime_s: float = 3_600.0,
        implicit: bool = True,
    ) -> None:
        """`implicit`: whether the implicit cache works at all; it promises nothing."""
        super().__init__(clock=clock)
        self._policy_of = policy_of or (
            lambda model, on: gemini_policy(model, on, platform=platform, switches=switches)
        )
        self._lifetime_s = lifetime_s
        self._implicit = implicit
        self._contents = ContentStore()

    def create(
        self, request: CacheRequest, *, ttl_s: float | None = None
    ) -> CachedContent | Refused:
        """Make a cached-content object of the request's blocks: billed as input, then by the hour.

        Raises:
            UnknownModel: the shortest prefix that can be cached is not known for the model.
        """
        now = self._clock()
        policy = self._policy_of(request.identity.model, now.date())
        return self._contents.create(request, policy, now, ttl_s=ttl_s)

    def get(self, name: str, tenant: Tenant | None = None) -> CachedContent | Refused:
        """Return an object that is alive."""
        return self._contents.get(name, tenant or Tenant(), self._clock())

    def living(self, tenant: Tenant | None = None) -> tuple[CachedContent, ...]:
        """Return all objects of the tenant that are alive, oldest first."""
        return self._contents.living(tenant or Tenant(), self._clock())

    def update(
        self, name: str, *, ttl_s: float, tenant: Tenant | None = None
    ) -> CachedContent | Refused:
        """Let an object live for `ttl_s` from now. Nothing else of it can be changed."""
        return self._contents.update(name, tenant or Tenant(), self._clock(), ttl_s=ttl_s)

    def delete(self, name: str, tenant: Tenant | None = None) -> CachedContent | Refused:
        """End an object, and with it what its storage costs."""
        return self._contents.delete(name, tenant or Tenant(), self._clock())

    def storage_cost(self, name: str) -> Decimal | None:
        """Return what keeping an object has cost until now, in USD; None if unknown.

        No response has it: this is the only place where it appears.
        """
        return self._contents.storage_cost(name, self._clock())

    def _plan(self, request: CacheRequest, now: datetime) -> Plan | Refused:
        policy = self._policy_of(request.identity.model, now.date())
        if request.marked or request.prewarm:
            return Refused(
                reason=RefusalReason.UNSUPPORTED,
                message="Gemini has no cache marks and no prewarm; create cached content instead",
            )
        if request.cached_content is not None:
            return self._plan_explicit(request, request.cached_content, policy, now)
        minimum = known_minimum(policy)
        prefixes = self._prefixes(request, policy)
        now_s = now.timestamp()
        readable = [
            prefix
            for prefix in prefixes
            if prefix.n_tokens >= minimum and self._store.is_readable(prefix.key, now_s)
        ]
        read = readable[-1].n_tokens if readable else 0
        return Plan(
            request=request,
            policy=policy,
            at=now,
            prefixes=prefixes,
            split=InputSplit(read=read, uncached=_total(prefixes) - read),
            miss=find_miss(
                prefixes,
                hit_tokens=read,
                store=self._store,
                now_s=now_s,
                asks=self._implicit,
                minimum=minimum,
            ),
            touched=tuple(prefix.key for prefix in readable),
            writes=self._writes(prefixes, policy, minimum),
        )

    def _plan_explicit(
        self, request: CacheRequest, name: str, policy: GeminiPolicy, now: datetime
    ) -> Plan | Refused:
        content = self._contents.get(name, request.tenant, now)
        if isinstance(content, Refused):
            return content
        if content.model != policy.model:
            return _refused(f"{name!r} belongs to {content.model!r}, not to {policy.model!r}")
        if request.tools or request.system:
            return _refused(
                f"tools and system instruction are part of {name!r}; leave them out of the request"
            )
        prefixes = self._prefixes(request, policy)
        return Plan(
            request=request,
            policy=policy,
            at=now,
            prefixes=prefixes,
            split=InputSplit(read=content.n_tokens, uncached=_total(prefixes)),
            miss=None,
        )

    def _located(self, request: CacheRequest, now: datetime) -> tuple[Sequence[int], Prefixes]:
        policy = self._policy_of(request.identity.model, now.date())
        prefixes = self._prefixes(request, policy)
        return range(len(prefixes)), prefixes

    def _default_life_s(self, request: CacheRequest, now: datetime) -> float:
        return self._lifetime_s

    def _prefixes(self, request: CacheRequest, policy: GeminiPolicy) -> Prefixes:
        scope = ("gemini", request.tenant.organization)
        plain = replace(request, identity=replace(request.identity, model=policy.model))
        return boundaries(
            plain, scope=scope, invalidations=policy.invalidations, memory=self._prefix_memory
        )

    def _writes(
        self, prefixes: Sequence[Boundary], policy: GeminiPolicy, minimum: int
    ) -> tuple[Write, ...]:
        if not self._implicit:
            return ()
        return tuple(
            Write(key=p.key, ttl_s=self._lifetime_s, max_age_s=policy.implicit_max_age_s)
            for p in prefixes
            if p.n_tokens >= minimum
        )

    def _usage(self, plan: Plan, output_tokens: int) -> Mapping[str, Json]:
        split = plan.split
        usage: dict[str, Json] = {
            "promptTokenCount": split.total,
            "candidatesTokenCount": output_tokens,
            "totalTokenCount": split.total + output_tokens,
        }
        if split.read:  # zero counts are left out of the JSON
            usage["cachedContentTokenCount"] = split.read
            usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": split.read}]
        return usage


def _total(prefixes: Sequence[Boundary]) -> int:
    return prefixes[-1].n_tokens if prefixes else 0


def _refused(message: str) -> Refused:
    return Refused(reason=RefusalReason.CACHED_CONTENT, message=message)
