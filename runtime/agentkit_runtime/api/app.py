"""The FastAPI application around one `ChatService`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from agentkit_runtime.api.answering import Answering
from agentkit_runtime.api.anthropic.routes import AnthropicRoutes
from agentkit_runtime.api.asked import Gate, OpenGate, Watcher
from agentkit_runtime.api.body_limit import (
    DEFAULT_BODY_TIMEOUT_S,
    DEFAULT_MAX_BODY_BYTES,
    BodyLimit,
)
from agentkit_runtime.api.caller import Authentication, Authenticator, NoKeys
from agentkit_runtime.api.dialect import dialect_of
from agentkit_runtime.api.failure import ApiError, from_fault, from_nowhere, from_validation
from agentkit_runtime.api.health import PATHS as OPEN_PATHS
from agentkit_runtime.api.health import health_routes
from agentkit_runtime.api.native import NativeRoutes
from agentkit_runtime.api.openai.routes import OpenAiRoutes
from agentkit_runtime.api.site import Site
from agentkit_runtime.api.tokens import TokenRoutes
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.governing.lifecycle import Lifecycle

if TYPE_CHECKING:
    from agentkit_runtime.service import ChatService


def create_app(
    service: ChatService,
    *,
    model_ids: Sequence[str] = (),
    clock: Callable[[], float] = time.time,
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    body_timeout_s: float = DEFAULT_BODY_TIMEOUT_S,
    authenticator: Authenticator | None = None,
    gate: Gate | None = None,
    lifecycle: Lifecycle | None = None,
    watchers: Sequence[Watcher] = (),
    more: Sequence[Callable[[Site], APIRouter]] = (),
    open_paths: frozenset[str] = frozenset(),
) -> FastAPI:
    """Build the application. It does not own `service`: closing the engine is the caller's.

    `app.state.site` is the `Site` that its endpoints share.

    Args:
        service: answers the requests.
        model_ids: names that requests may use; the first is the one in answers. By default the
            model's label.
        clock: Unix seconds, for dates in answers.
        max_body_bytes: larger request bodies are answered with 413.
        body_timeout_s: bodies that take longer to come are answered with 408.
        authenticator: knows callers; by default everybody may do everything.
        gate: decides which requests may run now; by default all.
        lifecycle: what probes are told; by default the server is ready.
        watchers: follow all requests.
        more: further groups of endpoints, each made from what the server's endpoints share.
        open_paths: what is served without a key, besides the probes.
    """
    site = Site(
        service=service,
        answering=Answering(service=service, gate=gate or OpenGate(), watchers=tuple(watchers)),
        model_ids=tuple(model_ids) or (service.model_label,),
        clock=clock,
        started_s=clock(),
    )
    app = FastAPI(title="agentkit runtime", docs_url=None, redoc_url=None)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes, timeout_s=body_timeout_s)
    app.add_middleware(
        Authentication, authenticator=authenticator or NoKeys(), open_paths=OPEN_PATHS | open_paths
    )
    app.state.site = site
    _install_error_handlers(app)
    app.include_router(AnthropicRoutes(site).router)  # first: its /v1/models has a header to tell
    openai = OpenAiRoutes(site)
    app.include_router(openai.router)
    app.state.responses = openai.responses.store
    app.include_router(TokenRoutes(site).router)
    app.include_router(NativeRoutes(site).router)
    for group in more:
        app.include_router(group(site))
    app.include_router(health_routes(site, lifecycle or Lifecycle("ready")))
    return app


def _install_error_handlers(app: FastAPI) -> None:
    """Every failure leaves in its endpoint's shape, also those that the framework raises itself."""

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return _response(request, error)

    @app.exception_handler(RuntimeFault)
    async def runtime_fault(request: Request, error: RuntimeFault) -> Response:
        wire_field = dialect_of(request.url.path).wire_field
        return _response(request, from_fault(error, wire_field))

    @app.exception_handler(RequestValidationError)
    async def invalid_body(request: Request, error: RequestValidationError) -> Response:
        return _response(request, from_validation(error.errors()))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        answer = _response(request, _frameworks(request, error))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        # The server logs the traceback; the client learns only that it was not its fault.
        return _response(request, ApiError("internal error", status=500, code="internal_error"))


def _frameworks(request: Request, error: HTTPException) -> ApiError:
    """What the framework refuses by itself: a path, a method, a body's size."""
    method, path = request.method, request.url.path
    match error.status_code:
        case 404:
            return from_nowhere(method, path)
        case 405:
            return ApiError(f"{path} does not take {method}", status=405)
        case 413:
            return ApiError(str(error.detail), status=413, code="request_too_large")
        case status:
            return ApiError(str(error.detail), status=status)


def _response(request: Request, error: ApiError) -> Response:
    return dialect_of(request.url.path).response(error)
