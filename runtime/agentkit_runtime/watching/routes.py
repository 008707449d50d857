"""The endpoints of `Watching`. The only module here that knows FastAPI.

/metrics                admins  Prometheus metrics; for everybody with `open_metrics`
/admin/v1/requests      admins  the last requests of all tenants
/v1/agentkit/requests   users   the last requests of the caller's own tenant
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from agentkit_runtime.api.caller import require_admin, require_user
from agentkit_runtime.watching.last import RequestPage

if TYPE_CHECKING:
    from agentkit_runtime.watching.watching import Watching

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format, whatever a scraper would rather have."""

After = Annotated[int, Query(ge=0, description="Only requests with greater numbers.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]


def watch_routes(watching: Watching) -> APIRouter:
    """The endpoints of one server."""
    router = APIRouter()

    @router.get("/metrics", response_class=Response)
    async def metrics(request: Request) -> Response:
        """All metrics, for Prometheus."""
        if not watching.options.open_metrics:
            require_admin(request)
        return Response(watching.metrics(), headers={"Content-Type": METRICS_TYPE})

    @router.get("/admin/v1/requests", response_model=None)
    async def requests(request: Request, after: After = 0, limit: Limit = 100) -> RequestPage:
        """The last requests of all tenants, newest first."""
        require_admin(request)
        return watching.last.page(after=after, limit=limit)

    @router.get("/v1/agentkit/requests", response_model=None)
    async def own_requests(request: Request, after: After = 0, limit: Limit = 100) -> RequestPage:
        """The last requests of the caller's tenant, newest first."""
        tenant = require_user(request).tenant
        return watching.last.page(tenant=tenant, after=after, limit=limit)

    return router
