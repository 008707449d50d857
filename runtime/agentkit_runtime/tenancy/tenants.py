"""A key store at work in a server: its authenticator, its gate, its headers, its upkeep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentkit_runtime.tenancy.accounts import Accounts
from agentkit_runtime.tenancy.authenticator import KeyAuthenticator
from agentkit_runtime.tenancy.book import TenantBook
from agentkit_runtime.tenancy.gate import TenantGate
from agentkit_runtime.tenancy.ledger import Ledger
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.records import Snapshot
from agentkit_runtime.tenancy.upkeep import Upkeep

if TYPE_CHECKING:
    from agentkit_runtime.service import ChatService


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """What a server with keys is built with."""

    authenticator: KeyAuthenticator
    gate: TenantGate
    accounts: Accounts
    """For `RateHeaders`."""
    book: TenantBook
    """For operators."""


@contextmanager
def tenants_of(path: Path, service: ChatService) -> Iterator[Tenants]:
    """Serve the tenants of a key store until the block ends; then what they used is saved.

    Raises:
        KeyStoreFault: there is no key store at `path`.
    """
    with LiveStore(path) as store:
        ledger = Ledger()
        accounts = Accounts(store, ledger, lambda: service.stats().scheduler.computed)
        store.listen(_steering(service))
        with Upkeep(path, accounts):
            yield Tenants(
                authenticator=KeyAuthenticator(store, used=ledger.used),
                gate=TenantGate(accounts),
                accounts=accounts,
                book=TenantBook(path, store),
            )


def _steering(service: ChatService) -> Callable[[Snapshot], None]:
    """Hands shares and pin quotas to the engine whenever they change."""

    def steer(snapshot: Snapshot) -> None:
        terms = snapshot.terms.items()
        quotas: Mapping[str, int] = {
            tenant: one.pinned_tokens for tenant, one in terms if one.pinned_tokens is not None
        }
        weights = {tenant: one.weight for tenant, one in terms}
        service.set_tenant_terms(weights=weights, pin_quotas=quotas)

    return steer
