"""Which key goes with a request: a server tells tenants apart by nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from agentkit.errors import RequestRefused

KEY_VARIABLE = "AGENTKIT_RUNTIME_KEY"
"""Where a server's key is looked for, if none is given."""


class TenantKeys:
    """The keys for one server. Usable from several threads."""

    def __init__(
        self, label: str, given: str | Mapping[str, str] | None, *, shares_cache: bool
    ) -> None:
        """`given` is one key, or one for each tenant; None is that in the environment, or none."""
        self._label = label
        self._given = given
        self._shares_cache = shares_cache
        self._only_tenant: str | None = None
        self._lock = threading.Lock()

    def headers(self, tenant: str) -> dict[str, str]:
        """Return what says whose request it is.

        Raises:
            RequestRefused: there is no key for the tenant, or it would share another's cache.
        """
        key = self._key(tenant)
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _key(self, tenant: str) -> str | None:
        if isinstance(self._given, Mapping):
            if tenant not in self._given:
                raise RequestRefused(
                    f"{self._label} has no key for tenant {tenant!r}; add one to api_key"
                )
            return self._given[tenant]
        with self._lock:
            if self._only_tenant is None:
                self._only_tenant = tenant
            if tenant != self._only_tenant and not self._shares_cache:
                raise RequestRefused(
                    f"agents of tenants {self._only_tenant!r} and {tenant!r} would share one key "
                    f"of {self._label}, and so one cache; use RuntimeModel(url, "
                    "api_key={tenant: key, ...}), or shares_cache=True where they may"
                )
        return self._given or os.environ.get(KEY_VARIABLE)

    def __repr__(self) -> str:
        return f"TenantKeys({self._label!r})"  # and no key
