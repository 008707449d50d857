"""What the admin API steers besides the engine. Whoever builds a server hands it over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentkit_runtime.api.admin.sampler import Sampler
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.governing.pressure import Pressure


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
