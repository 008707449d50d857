"""Keys that bring requests with one prefix to one cache, and keep tenants apart.

A key is a hash of the tenant, the model and the bytes that all agents of a team share. So it is the
same for siblings, for another run and after a restart, and nothing has to be stored. Where a
provider bears only so many requests a minute for one key, sessions are spread over several by
rendezvous hashing. A session that has begun keeps its key, however the rate grows: what it has
written would be lost.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from itertools import chain, islice
from math import ceil

from agentkit.caching.plan.draft import Draft, SharedBy
from agentkit.caching.policy import DeepSeekPolicy, Policy
from agentkit.caching.recent import Recent
from agentkit.caching.request import Identity

_HEADROOM = Decimal("0.8")
"""Sessions do not fall evenly; a key is planned to get at most this part of what it may."""
_MINUTE_S = 60
_HOLD_S = 3_600
"""How long a number of keys is kept after its rate was seen: moving back would lose entries."""
_SESSIONS_KEPT = 8_192
"""Sessions whose key is remembered. One that was forgotten may get another key, and loses once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheKey:
    """A key, and what it was before it was split by session."""

    value: str
    base: str


@dataclass(slots=True)
class _Rate:
    recent: deque[float] = field(default_factory=deque)
    peaks: deque[tuple[float, int]] = field(default_factory=deque)
    """When which rate was seen; each but the last is followed by lower ones only."""


class KeyRates:
    """How often each key was used lately, and which session has which key.

    Small, and forgets keys and sessions that rest for an hour.
    """

    def __init__(self) -> None:
        self._rates: dict[str, _Rate] = {}
        self._sessions: Recent[tuple[str, str], tuple[str, float]] = Recent(_SESSIONS_KEPT)

    def note(self, base: str, now: datetime) -> None:
        """Count a request that was sent with a key; `base` is `CachePlan.key_base`."""
        now_s = now.timestamp()
        for old in [b for b, rate in self._rates.items() if _is_old(rate, now_s)]:
            del self._rates[old]
        rate = self._rates.setdefault(base, _Rate())
        while rate.recent and rate.recent[0] <= now_s - _MINUTE_S:
            rate.recent.popleft()
        rate.recent.append(now_s)
        while rate.peaks and rate.peaks[-1][1] <= len(rate.recent):
            rate.peaks.pop()
        rate.peaks.append((now_s, len(rate.recent)))
        while now_s - rate.peaks[0][0] >= _HOLD_S:
            rate.peaks.popleft()

    def per_minute(self, base: str, now: datetime) -> int:
        """Return the highest rate of the last hour, in requests a minute."""
        rate = self._rates.get(base)
        if rate is None:
            return 0
        since_s = now.timestamp() - _HOLD_S
        return next((peak for at_s, peak in rate.peaks if at_s > since_s), 0)

    def key_of(self, base: str, session: str, n_keys: int, now: datetime) -> str:
        """Return the key of a session: the one that it has, or its own among `n_keys`."""
        now_s = now.timestamp()
        had, at_s = self._sessions.get((base, session), (None, now_s))
        key = shard(base, session, n_keys) if had is None or now_s - at_s >= _HOLD_S else had
        if session:
            self._sessions[base, session] = (key, now_s)
        return key


def with_key(draft: Draft, policy: Policy, rates: KeyRates | None, now: datetime) -> Draft:
    """Return the draft with its cache key in the identity, as `written` has to be asked for it."""
    if draft.request.identity.cache_key is not None:
        return draft
    key = cache_key(draft, policy, rates, now)
    if key is None:
        return draft
    identity = _keyed(draft.request.identity, key.value)
    return replace(draft, request=replace(draft.request, identity=identity))


@lru_cache(maxsize=256)
def _keyed(identity: Identity, key: str) -> Identity:
    """Return an identity with a key; the requests of a run have the same."""
    return replace(identity, cache_key=key)


def cache_key(
    draft: Draft, policy: Policy, rates: KeyRates | None, now: datetime
) -> CacheKey | None:
    """Return the key of a request; None where the provider takes none."""
    affinity = policy.affinity
    if affinity is None:
        return None
    if isinstance(policy, DeepSeekPolicy):
        # Its field only keeps tenants apart: whatever else differed in it would not be shared.
        return _tenant_key(draft)
    if KEY_FIELD not in affinity.body_fields:
        return None
    base = front_key(draft, policy)
    if affinity.requests_per_minute is None or rates is None:
        return CacheKey(value=base, base=base)
    rate = rates.per_minute(base, now) + 1  # with this request
    bearable = max(Decimal(1), affinity.requests_per_minute * _HEADROOM)
    n_keys = ceil(rate / bearable) if rate > affinity.requests_per_minute else 1
    return CacheKey(value=rates.key_of(base, draft.session, n_keys, now), base=base)


KEY_FIELD = "prompt_cache_key"
"""The body field that `CachePlan.cache_key` stands for, where it is not a tenant's."""


def front_key(draft: Draft, policy: Policy) -> str:
    """Return the hash of what all agents of a team have in common, and whose it is."""
    request = draft.request
    blocks = islice(
        chain(request.tools, request.system, request.messages.blocks), _front_end(draft)
    )
    return _front_name(draft.tenant, policy.model, tuple([block.digest for block in blocks]))


@lru_cache(maxsize=256)
def _front_name(tenant: str, model: str, digests: tuple[bytes, ...]) -> str:
    return _name("front", tenant, model, *(digest.hex() for digest in digests))


def session_key(draft: Draft, policy: Policy) -> str:
    """Return a name for the conversation that no other tenant's conversation has."""
    if not draft.session:
        return front_key(draft, policy)
    return _name("session", draft.tenant, draft.session)


def tenant_salt(draft: Draft) -> str | None:
    """Return a value that only this tenant has; None without a tenant."""
    return _name("tenant", draft.tenant) if draft.tenant else None


def shard(base: str, session: str, n_keys: int) -> str:
    """Return the key of a session among `n_keys`; the first of them is `base` itself."""
    weights = {number: framed("shard", base, str(number), session) for number in range(n_keys)}
    best = max(weights, key=lambda number: weights[number])
    return base if best == 0 else f"{base}-{best}"


def framed(*parts: str) -> str:
    """Return a hash of texts; each is framed by its length, so no two lists hash the same bytes."""
    hashed = hashlib.blake2b(digest_size=16)
    for data in _encoded(parts):
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.hexdigest()


def _tenant_key(draft: Draft) -> CacheKey | None:
    salt = tenant_salt(draft)
    return None if salt is None else CacheKey(value=salt, base=salt)


def _front_end(draft: Draft) -> int:
    """Return how many blocks the most widely shared front has; tools and system without any."""
    for by in (SharedBy.ORGANIZATION, SharedBy.AGENT):
        ends = [shared.end for shared in draft.shared if shared.by is by]
        if ends:
            return ends[-1]
    return len(draft.request.tools) + len(draft.request.system)


def _name(*parts: str) -> str:
    return f"ak-{framed(*parts)}"


def _encoded(parts: tuple[str, ...]) -> Iterator[bytes]:
    for part in parts:
        yield part.encode("utf-8", "surrogatepass")


def _is_old(rate: _Rate, now_s: float) -> bool:
    return not rate.recent or now_s - rate.recent[-1] >= _HOLD_S
