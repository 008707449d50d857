"""What is left of each tenant's rates and budget.

Tokens are read from the engine, which counts what it computes for each tenant: requests that were
aborted or failed are in it, and a long answer is paid for while it is written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentkit_runtime.tenancy.bucket import Bucket
from agentkit_runtime.tenancy.estimates import Estimates
from agentkit_runtime.tenancy.ledger import Ledger
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.terms import UNLIMITED, Terms

Computed = Callable[[], Mapping[str, int]]
"""Tokens that were computed for each tenant since start; `SchedulerStats.computed`."""


@dataclass(slots=True)
class Account:
    """One tenant, now. None where its terms set no rate."""

    terms: Terms = UNLIMITED
    requests: Bucket | None = None
    tokens: Bucket | None = None
    n_running: int = 0
    """Answers that are being written."""
    reserved: int = 0
    """Tokens that requests under way may still cost: set aside, and not charged."""
    estimates: Estimates = field(default_factory=Estimates)
    """Of what is set aside, that which the engine has not looked at yet."""
    charged: int = 0
    """Of the engine's count of its tokens, what is charged already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A rate, as its tenant may know it."""

    limit: int
    """A minute."""
    remaining: int
    reset_s: float
    """Until all of it is there again, if nothing is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a tenant has left of its rates; None where there is no such limit."""

    requests: Level | None
    tokens: Level | None


class Accounts:
    """The accounts of the tenants that came to this server. Usable from any thread.

    There are no more of them than there were tenants.
    """

    def __init__(
        self,
        store: LiveStore,
        ledger: Ledger,
        computed: Computed,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives monotonic seconds."""
        self.ledger = ledger
        self._store = store
        self._computed = computed
        self._clock = clock
        self._lock = threading.Lock()
        self._accounts: dict[str, Account] = {}
        self._before = dict(computed())
        """What the engine had computed before it had tenants to charge."""

    def of(self, tenant: str) -> Account:
        """A tenant's account, with today's terms, and charged with all that was computed."""
        terms = self._store.now().terms_of(tenant)
        with self._lock:
            account = self._account(tenant)
            account.terms = terms
            account.requests = self._fitted(account.requests, terms.requests_per_minute)
            account.tokens = self._fitted(account.tokens, terms.tokens_per_minute)
            self._charge(tenant, account, self._computed().get(tenant, 0))
            return account

    def charge_all(self) -> None:
        """Charge all tenants with what was computed for them."""
        with self._lock:
            for tenant, n_tokens in self._computed().items():
                self._charge(tenant, self._account(tenant), n_tokens)

    def standing(self, tenant: str) -> Standing:
        """What the tenant has left."""
        account = self.of(tenant)
        return Standing(
            requests=_level(account.requests), tokens=_level(account.tokens, account.reserved)
        )

    def _account(self, tenant: str) -> Account:
        if tenant not in self._accounts:
            self._accounts[tenant] = Account(charged=self._before.pop(tenant, 0))
        return self._accounts[tenant]

    def _charge(self, tenant: str, account: Account, computed: int) -> None:
        # The engine forgets who was away for long and begins again: then all of it is new.
        new = computed - account.charged if computed >= account.charged else computed
        account.charged = computed
        self.ledger.spend(tenant, new)
        if account.tokens is not None:
            account.tokens.take(new)

    def _fitted(self, bucket: Bucket | None, per_minute: int | None) -> Bucket | None:
        if per_minute is None:
            return None
        if bucket is None:
            return Bucket(per_minute, self._clock)
        if bucket.per_minute != per_minute:
            bucket.resize(per_minute)
        return bucket


def _level(bucket: Bucket | None, reserved: int = 0) -> Level | None:
    if bucket is None:
        return None
    return Level(
        limit=bucket.per_minute,
        remaining=max(0, int(bucket.level() - reserved)),
        reset_s=bucket.seconds_until(bucket.per_minute + reserved),
    )
