"""What the admin API steers besides the engine. Whoever builds a server hands it over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agentkit_runtime.api.admin.sampler import Sampler
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.governing.pressure import Pressure


class Tenants(Protocol):
    """Who has keys here, and what is kept of them; `tenancy.book.TenantBook`."""

    def require(self, tenant: str) -> None:
        """Raise `ApiError` (404) for a tenant that nobody has heard of."""

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Set these weights for good, and all others to 1. Blocks.

        Raises:
            ApiError: nothing was changed; it says why.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """The parts of one server. What is None is reported as unknown, or refused."""

    sampler: Sampler | None = None
    """Where the history of `/admin/v1/state` comes from."""
    lifecycle: Lifecycle | None = None
    """What drains."""
    pressure: Callable[[], Pressure] | None = None
    """Such as `PressureGate.pressure`."""
    rotate_key: Callable[[bytes], None] | None = None
    """Replaces the namespace key, also where it is kept on disk: `LocalRuntime`'s. None replaces
    that of the service."""
    tenants: Tenants | None = None
    """None takes any name for a tenant's, and keeps weights for as long as the process lives."""
