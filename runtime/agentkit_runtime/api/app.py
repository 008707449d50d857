"""The FastAPI application around one `ChatService`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from agentkit_runtime.api.body_limit import DEFAULT_MAX_BODY_BYTES, BodyLimit
from agentkit_runtime.api.openai.errors import ApiError, from_fault, from_validation
from agentkit_runtime.api.openai.routes import OpenAiRoutes
from agentkit_runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from agentkit_runtime.service import ChatService


def create_app(
    service: ChatService,
    *,
    model_ids: Sequence[str] = (),
    clock: Callable[[], float] = time.time,
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
) -> FastAPI:
    """Build the application. It does not own `service`: closing the engine is the caller's.

    Args:
        service: answers the requests.
        model_ids: names that requests may use; the first is the one in answers. By default the
            model's label.
        clock: Unix seconds, for the `created` fields.
        max_body_bytes: larger request bodies are answered with 413.
    """
    app = FastAPI(title="agentkit runtime", docs_url=None, redoc_url=None)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    _install_error_handlers(app)
    ids = tuple(model_ids) or (service.model_label,)
    app.include_router(OpenAiRoutes(service, ids, clock).router)

    @app.get("/health")
    async def health() -> Response:
        """200 while the engine can take requests, else 503."""
        if service.healthy:
            return JSONResponse({"status": "ok", "model": ids[0]})
        return JSONResponse({"status": "stopped", "model": ids[0]}, status_code=503)

    return app


def _install_error_handlers(app: FastAPI) -> None:
    """Every failure leaves in one shape, also those that the framework raises by itself."""

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return error.response()

    @app.exception_handler(RuntimeFault)
    async def runtime_fault(request: Request, error: RuntimeFault) -> Response:
        return from_fault(error).response()

    @app.exception_handler(RequestValidationError)
    async def invalid_body(request: Request, error: RequestValidationError) -> Response:
        return from_validation(error.errors()).response()

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        code = "request_too_large" if error.status_code == 413 else None
        answer = ApiError(str(error.detail), status=error.status_code, code=code).response()
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        # The server logs the traceback; the client learns only that it was not its fault.
        return ApiError("internal error", status=500, code="internal_error").response()
