"""Gemini's cached-content objects: what `client.caches` does, and what keeping them costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from agentkit.caching.policy import Cost, GeminiPolicy, InputSplit
from agentkit.caching.policy.money import MILLION
from agentkit.caching.request import CacheRequest, Tenant
from agentkit.caching.simulate.billing import bill
from agentkit.caching.simulate.cache import known_minimum
from agentkit.caching.simulate.served import RefusalReason, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedContent:
    """A stored prompt front."""

    name: str
    model: str
    tenant: Tenant
    n_tokens: int
    created_at: datetime
    expires_at: datetime
    creation_cost: Cost | None
    """Plain input; None if the price is unknown."""
    storage_hour: Decimal | None
    """USD for a million tokens and an hour, on the day of creation; None if unknown."""


class ContentStore:
    """All objects, the dead ones too: their storage was paid for."""

    def __init__(self) -> None:
        self._contents: dict[str, CachedContent] = {}

    def create(
        self,
        request: CacheRequest,
        policy: GeminiPolicy,
        now: datetime,
        *,
        ttl_s: float | None,
    ) -> CachedContent | Refused:
        """Make an object of the request's blocks."""
        ttl_s = policy.explicit_default_ttl_s if ttl_s is None else ttl_s
        n_tokens = sum(block.n_tokens for block in request.blocks)
        refused = _refuse(policy, n_tokens, ttl_s)
        if refused is not None:
            return refused
        content = CachedContent(
            name=f"cachedContents/{len(self._contents) + 1}",
            model=policy.model,
            tenant=request.tenant,
            n_tokens=n_tokens,
            created_at=now,
            expires_at=now + timedelta(seconds=ttl_s),
            creation_cost=bill(
                policy,
                InputSplit(read=0, uncached=n_tokens),
                at=now,
                terms=request.terms,
                output_tokens=0,
            ),
            storage_hour=None if policy.prices is None else policy.prices.rates.storage_hour,
        )
        self._contents[content.name] = content
        return content

    def get(self, name: str, tenant: Tenant, now: datetime) -> CachedContent | Refused:
        """Return an object that is alive and belongs to the tenant's organisation."""
        content = self._contents.get(name)
        if (
            content is None
            or content.tenant.organization != tenant.organization
            or now >= content.expires_at
        ):
            return Refused(
                reason=RefusalReason.CACHED_CONTENT,
                message=f"no cached content {name!r} here, or it has expired; create it again",
                status=404,
            )
        return content

    def living(self, tenant: Tenant, now: datetime) -> tuple[CachedContent, ...]:
        """Return the living objects of the tenant's organisation, oldest first."""
        found = (self.get(name, tenant, now) for name in self._contents)
        return tuple(content for content in found if isinstance(content, CachedContent))

    def update(
        self, name: str, tenant: Tenant, now: datetime, *, ttl_s: float
    ) -> CachedContent | Refused:
        """Set the life of an object, from now."""
        if ttl_s <= 0:
            raise ValueError(f"ttl_s must be above 0, got {ttl_s!r}; use delete() to end it")
        return self._replace(name, tenant, now, now + timedelta(seconds=ttl_s))

    def delete(self, name: str, tenant: Tenant, now: datetime) -> CachedContent | Refused:
        """End the life of an object now."""
        return self._replace(name, tenant, now, now)

    def storage_cost(self, name: str, now: datetime) -> Decimal | None:
        """Return tokens times hours times price, until now or the end of its life.

        Raises:
            KeyError: there never was such an object.
        """
        content = self._contents[name]
        if content.storage_hour is None:
            return None
        life = min(now, content.expires_at) - content.created_at
        hours = Decimal(life // timedelta(microseconds=1)) / Decimal(3_600_000_000)
        return content.n_tokens * hours * content.storage_hour / MILLION

    def _replace(
        self, name: str, tenant: Tenant, now: datetime, expires_at: datetime
    ) -> CachedContent | Refused:
        content = self.get(name, tenant, now)
        if isinstance(content, Refused):
            return content
        self._contents[name] = replace(content, expires_at=expires_at)
        return self._contents[name]


def _refuse(policy: GeminiPolicy, n_tokens: int, ttl_s: float) -> Refused | None:
    if not policy.explicit:
        return _refused(f"{policy.model!r} has no cached content; its implicit cache is all")
    minimum = known_minimum(policy)
    if n_tokens < minimum:
        return _refused(f"cached content has {n_tokens!r} tokens, the minimum is {minimum}")
    if ttl_s <= 0 or ttl_s < policy.explicit_minimum_ttl_s:
        least = policy.explicit_minimum_ttl_s
        return _refused(f"ttl {ttl_s!r} s is too short; it must be above 0 and at least {least} s")
    return None


def _refused(message: str) -> Refused:
    return Refused(reason=RefusalReason.CACHED_CONTENT, message=message)
