"""Which root of the radix tree a chat request reads and writes, and under which labels."""

from __future__ import annotations

from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.kv.namespace import Identity, NamespaceKeys
from agentkit_runtime.kv.scope import Scope

_PUBLIC = ("public",)
"""The permissions of the operator's root. No tenant has any, so no tenant's root has its name."""


class Roots:
    """Names roots for one model. Thread-safe: keys are replaced in one step."""

    def __init__(self, keys: NamespaceKeys, identity: Identity) -> None:
        self._keys = keys
        self._identity = identity

    @property
    def public(self) -> bytes:
        """The root whose published prefixes all tenants may read."""
        return self._keys.digest(tenant="", permissions=_PUBLIC, identity=self._identity)

    def of(self, tenant: str) -> bytes:
        """The tenant's own root."""
        return self._keys.digest(tenant=tenant, permissions=(), identity=self._identity)

    def scope(self, request: ChatRequest) -> Scope:
        """On whose behalf a request uses the cache."""
        return Scope(
            tenant=request.tenant,
            public=self.public,
            session=request.session,
            tags=request.tags,
        )

    def rotate(self, key: bytes) -> None:
        """Name roots by another key from now on: every tenant starts cold."""
        self._keys = self._keys.rotate(key)
