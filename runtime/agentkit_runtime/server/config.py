"""All that can be set of a server, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentkit_runtime.api.body_limit import DEFAULT_MAX_BODY_BYTES
from agentkit_runtime.api.connections import Patience
from agentkit_runtime.checks import require_number, require_whole
from agentkit_runtime.governing.gate import GateLimits
from agentkit_runtime.routing.options import RoutingOptions
from agentkit_runtime.server.access import Access
from agentkit_runtime.watching.options import WatchOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """One server. Raises ValueError for values that cannot work."""

    model: str
    model_names: tuple[str, ...] = ()
    """Further names that requests may use; the first is the one in answers."""
    host: str = "127.0.0.1"
    port: int = 8321
    """0 takes a free one."""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `LocalRuntime.load`."""
    access: Access = field(default_factory=Access)
    namespace_key: Path | None = None
    """File of the secret that names tenants' roots, made when it is not there. None: it is kept
    beside the disk cache, or drawn anew by each server."""
    limits: GateLimits = field(default_factory=GateLimits)
    patience: Patience = field(default_factory=Patience)
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    drain_s: float = 30.0
    """How long answers may go on after the first signal to stop."""
    watch: WatchOptions = field(default_factory=WatchOptions)
    routing: RoutingOptions = field(default_factory=RoutingOptions)

    def __post_init__(self) -> None:
        require_whole("port", self.port, least=0, most=65_535)
        require_whole("max_body_bytes", self.max_body_bytes, least=1)
        require_number("drain_s", self.drain_s, least=0)
        self.access.require_fit_for(self.host)
