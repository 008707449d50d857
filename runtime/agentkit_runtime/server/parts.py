"""The parts of a server, put together around one loaded model.

request -- watching -- CORS -- only local -- rate headers -- authentication -- body -- endpoint
                                                                                         |
                          pressure gate -- tenant gate -- ChatService -- engine ---------+
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit_runtime.api.admin import AdminParts, Sampler, admin_routes, own_routes
from agentkit_runtime.api.answering import Answering
from agentkit_runtime.api.app import create_app
from agentkit_runtime.api.asked import Gate
from agentkit_runtime.api.gates import Gates
from agentkit_runtime.api.origins import OnlyLocal, is_loopback, open_to
from agentkit_runtime.api.ui import UI_PATHS, ui_routes
from agentkit_runtime.governing.gate import PressureGate
from agentkit_runtime.governing.lifecycle import Lifecycle
from agentkit_runtime.routing.worker import worker_routes
from agentkit_runtime.server.access import Access
from agentkit_runtime.server.config import ServerConfig
from agentkit_runtime.tenancy.rate_headers import RateHeaders
from agentkit_runtime.tenancy.tenants import Tenants, tenants_of
from agentkit_runtime.watching import Watching

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from agentkit_runtime.service import ChatService


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A server that can answer."""

    app: FastAPI
    """The endpoints, for looking at."""
    served: ASGIApp
    """`app` and all that is around it."""
    answering: Answering
    """What is to be drained."""


@contextmanager
def assembled(
    service: ChatService,
    config: ServerConfig,
    lifecycle: Lifecycle,
    *,
    model_ids: Sequence[str] = (),
    rotate_key: Callable[[bytes], None] | None = None,
) -> Iterator[Parts]:
    """Put a server together; what it keeps is saved and closed when the block ends.

    Args:
        service: answers requests; it is not closed.
        config: the server's settings; those of the engine and of sockets are not looked at.
        lifecycle: what probes are told, and what drains.
        model_ids: names that requests may use, as for `create_app`.
        rotate_key: replaces the namespace key, also where it is kept.

    Raises:
        KeyStoreFault: the key store cannot be used.
    """
    with ExitStack() as running:
        keys = config.access.keys
        tenants = None if keys is None else running.enter_context(tenants_of(keys, service))
        pressure = PressureGate(service, lifecycle, config.limits, clock=time.monotonic)
        watching = Watching(
            service,
            config.watch,
            model=model_ids[0] if model_ids else None,
            pressure=lambda: pressure.pressure().index,
        )
        admin = AdminParts(
            sampler=running.enter_context(Sampler(service.stats)),
            lifecycle=lifecycle,
            pressure=pressure.pressure,
            rotate_key=rotate_key,
            tenants=None if tenants is None else tenants.book,
        )
        gates: list[Gate] = [pressure] if tenants is None else [pressure, tenants.gate]
        app = create_app(
            service,
            model_ids=model_ids,
            max_body_bytes=config.max_body_bytes,
            authenticator=None if tenants is None else tenants.authenticator,
            gate=Gates(gates),
            lifecycle=lifecycle,
            watchers=watching.watchers,
            more=(own_routes, admin_routes(admin), worker_routes, watching.routes, ui_routes),
            open_paths=watching.open_paths | UI_PATHS,
        )
        _protect(app, tenants, config.access, config.host)
        yield Parts(app=app, served=watching.around(app), answering=app.state.site.answering)


def _protect(app: FastAPI, tenants: Tenants | None, access: Access, host: str) -> None:
    """Put what guards the endpoints around them; the last one is the outermost."""
    if tenants is None:
        app.add_middleware(OnlyLocal, origins=access.cors_origins, any_host=not is_loopback(host))
    else:
        app.add_middleware(RateHeaders, accounts=tenants.accounts)
    if access.cors_origins:
        open_to(app, access.cors_origins)
