"""What cached-content objects cost. No response says it: it has to be reckoned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from agentkit.caching.ledger import Charge
from agentkit.caching.policy import Rates
from agentkit.caching.policy.money import MILLION

_HOUR_MICROSECONDS = Decimal(3_600_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectLife:
    """One object, from its creation to its end."""

    model: str
    tenant: str
    n_tokens: int
    created_at: datetime
    ends_at: datetime
    """When it expires or was deleted."""
    rates: Rates | None
    """Prices on the day of creation; None: not known."""

    def token_hours(self, now: datetime) -> Decimal:
        """Return tokens times hours, until now or its end."""
        life = max(timedelta(0), min(now, self.ends_at) - self.created_at)
        return self.n_tokens * Decimal(life // timedelta(microseconds=1)) / _HOUR_MICROSECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """Objects of one tenant and model, added up. Amounts in USD; None where a price is unknown."""

    model: str
    tenant: str
    objects: int
    created_tokens: int
    """Input that was paid, at the plain price, to make them."""
    token_hours: Decimal
    creation_cost: Decimal | None
    storage_cost: Decimal | None

    @property
    def cost(self) -> Decimal | None:
        """Creation and storage together."""
        return _plus(self.creation_cost, self.storage_cost)

    def __add__(self, other: StorageUse) -> StorageUse:
        """Add up two of one model and tenant. Unknown plus anything is unknown."""
        return StorageUse(
            model=self.model,
            tenant=self.tenant,
            objects=self.objects + other.objects,
            created_tokens=self.created_tokens + other.created_tokens,
            token_hours=self.token_hours + other.token_hours,
            creation_cost=_plus(self.creation_cost, other.creation_cost),
            storage_cost=_plus(self.storage_cost, other.storage_cost),
        )


def use_of(life: ObjectLife, now: datetime) -> StorageUse:
    """Return what one object has used and cost until now."""
    hours, rates = life.token_hours(now), life.rates
    storage = None if rates is None or rates.storage_hour is None else rates.storage_hour
    return StorageUse(
        model=life.model,
        tenant=life.tenant,
        objects=1,
        created_tokens=life.n_tokens,
        token_hours=hours,
        creation_cost=None if rates is None else life.n_tokens * rates.input / MILLION,
        storage_cost=None if storage is None else hours * storage / MILLION,
    )


def totals(uses: Iterable[StorageUse]) -> dict[tuple[str, str], StorageUse]:
    """Add up by model and tenant."""
    found: dict[tuple[str, str], StorageUse] = {}
    for use in uses:
        key = (use.model, use.tenant)
        found[key] = found[key] + use if key in found else use
    return found


class Charges:
    """What objects have cost since it was last asked: lines for a ledger that only grows."""

    def __init__(self) -> None:
        self._charged: dict[tuple[str, str], StorageUse] = {}

    def since_last(self, uses: Iterable[StorageUse], at: datetime) -> Iterator[Charge]:
        """Yield a charge for what is new in each sum; none where nothing is."""
        for use in uses:
            before = self._charged.get((use.model, use.tenant), _nothing(use))
            self._charged[use.model, use.tenant] = use
            if use.created_tokens != before.created_tokens:
                usd = _minus(use.creation_cost, before.creation_cost)
                yield _charge("creation of cached content", use, usd, at)
            if use.token_hours != before.token_hours:
                usd = _minus(use.storage_cost, before.storage_cost)
                yield _charge("storage of cached content", use, usd, at)


def _nothing(use: StorageUse) -> StorageUse:
    zero = Decimal(0)
    return StorageUse(
        model=use.model,
        tenant=use.tenant,
        objects=0,
        created_tokens=0,
        token_hours=zero,
        creation_cost=zero,
        storage_cost=zero,
    )


def _charge(what: str, use: StorageUse, usd: Decimal | None, at: datetime) -> Charge:
    return Charge(at=at, what=what, model=use.model, usd=usd, tenant=use.tenant)


def _minus(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    return None if first is None or second is None else first - second


def _plus(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    return None if first is None or second is None else first + second
