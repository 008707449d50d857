"""Probes. They are served without a key and say nothing about anybody's requests.

/live    the process works: else restart it
/ready   it takes requests: else send them elsewhere
/health  the same as /ready; what routers of vLLM and SGLang ask
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from agentkit_runtime.api.site import Site
from agentkit_runtime.governing.lifecycle import Lifecycle

PATHS = frozenset({"/live", "/ready", "/health"})


def health_routes(site: Site, lifecycle: Lifecycle) -> APIRouter:
    """The probes of one server."""
    router = APIRouter()

    async def live() -> Response:
        """200 while the engine works, else 503."""
        healthy = site.service.healthy
        return _answer("ok" if healthy else "stopped", healthy)

    async def ready() -> Response:
        """200 while requests are taken, else 503."""
        if not site.service.healthy:
            return _answer("stopped", False)
        if not lifecycle.accepts:
            return _answer(lifecycle.phase, False)
        return _answer("ok", True)

    def _answer(status: str, good: bool) -> Response:
        document = {"status": status, "model": site.model}
        return JSONResponse(document, status_code=200 if good else 503)

    router.add_api_route("/live", live, methods=["GET"], response_model=None, responses=_RESPONSES)
    for path in ("/ready", "/health"):
        router.add_api_route(
            path, ready, methods=["GET"], response_model=None, responses=_RESPONSES
        )
    return router


_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {"description": "Yes."},
    503: {"description": "No; `status` says why."},
}
