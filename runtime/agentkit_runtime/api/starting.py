"""What is served while the model is still being loaded: probes, and a clear "not yet".

A server that listens before it can answer is told apart from one that hangs: liveness says yes,
readiness no, and everybody else is told to come again.
"""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agentkit_runtime.api.dialect import dialect_of
from agentkit_runtime.api.failure import ApiError

_RETRY_S = 5.0


class Starting:
    """An ASGI application that stands in for another one until that is there.

    `became` may be set from any thread.
    """

    def __init__(self) -> None:
        self.became: ASGIApp | None = None
        """The application, once it can answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say that it is too early."""
        if self.became is not None:
            await self.became(scope, receive, send)
        elif scope["type"] == "http":
            await _too_early(scope["path"])(scope, receive, send)


def _too_early(path: str) -> JSONResponse:
    if path == "/live":
        return JSONResponse({"status": "starting"})
    if path in ("/ready", "/health"):
        return JSONResponse({"status": "starting"}, status_code=503)
    return dialect_of(path).response(
        ApiError(
            "the model is being loaded; try again in a few seconds",
            status=503,
            code="server_starting",
            retry_after_s=_RETRY_S,
        )
    )
