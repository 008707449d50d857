"""What the key store holds, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentkit_runtime.spelling import listed, or_meant
from agentkit_runtime.tenancy.store_file import NoSuchTenant
from agentkit_runtime.tenancy.terms import UNLIMITED, Terms

if TYPE_CHECKING:
    from agentkit_runtime.api.caller import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key, without anything that could be used as one. Times are Unix seconds."""

    id: str
    """Names the key in lists, logs and commands."""
    shown: str
    """How the key begins."""
    roles: frozenset[Role]
    tenant: str | None
    """None: an admin key that has no tenant's data."""
    name: str
    """What people call it; may be empty."""
    created_s: float
    expires_s: float | None
    revoked_s: float | None
    used_s: float | None
    """When it was last used, within half a minute or so; None is never."""

    def state(self, now_s: float) -> str:
        """ "active", "expired" or "revoked"."""
        if self.revoked_s is not None:
            return "revoked"
        return "expired" if self.expires_s is not None and self.expires_s <= now_s else "active"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was made just now. `key` is nowhere kept: whoever loses it makes another."""

    key: str = field(repr=False)
    record: KeyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that decides about requests, at one moment."""

    keys: Mapping[bytes, KeyRecord]
    """By digest."""
    terms: Mapping[str, Terms]
    """By tenant; only of those for which somebody set any."""

    def terms_of(self, tenant: str) -> Terms:
        """What a tenant may do."""
        return self.terms.get(tenant, UNLIMITED)

    def tenants(self) -> frozenset[str]:
        """All that have, or had, a key, or terms."""
        with_keys = {key.tenant for key in self.keys.values() if key.tenant is not None}
        return frozenset(with_keys | self.terms.keys())

    def require_tenant(self, name: str) -> None:
        """Raise NoSuchTenant for a name that is none of `tenants`."""
        known = self.tenants()
        if name not in known:
            raise NoSuchTenant(
                f"there is no tenant {name!r}{or_meant(name, known)} There are: {listed(known)}"
            )
