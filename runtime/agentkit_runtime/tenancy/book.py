"""The tenants of a key store, as who operates a running server names and changes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.store_file import KeyStoreFault, NoSuchTenant


class TenantBook:
    """One server's `api.admin.parts.Tenants`. Usable from any thread."""

    def __init__(self, path: Path, live: LiveStore) -> None:
        self._path = path
        self._live = live

    def require(self, tenant: str) -> None:
        """Raise `ApiError` (404) for a tenant that the key store does not know."""
        try:
            self._live.now().require_tenant(tenant)
        except NoSuchTenant as error:
            raise _unknown(error) from None

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights of these tenants, and those of all others to 1; in the file, at once.

        Blocks. Raises `ApiError`: 400 and 404 for weights and tenants that are none, 503 where the
        file cannot be written.
        """
        try:
            with KeyStore(self._path) as store:  # opened each time: it may have been replaced
                store.set_weights(weights)
        except NoSuchTenant as error:
            raise _unknown(error) from None
        except ValidationError as error:
            raise ApiError(f"weight: {error.errors()[0]['msg']}", param="tenant_weights") from None
        except (KeyStoreFault, OSError) as error:
            raise ApiError(
                f"nothing was changed: {error}", status=503, code="key_store", retry_after_s=1
            ) from error
        self._live.now()  # whoever listens steers the engine


def _unknown(error: NoSuchTenant) -> ApiError:
    return ApiError(str(error), status=404, param="tenant", code="tenant_not_found")
