"""ASGI: gives every HTTP request its id, and tells metrics, trace and log how it ended.

It goes around the whole application, so that what its middleware refuses is seen, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentkit_runtime.watching.exchange import (
    REQUEST_ID_HEADER,
    Exchange,
    current_exchange,
    request_id_of,
)
from agentkit_runtime.watching.last import rounded
from agentkit_runtime.watching.logs import FIELDS, REQUESTS_LOGGER
from agentkit_runtime.watching.metrics import HttpMetrics
from agentkit_runtime.watching.watch import GONE_STATUS

if TYPE_CHECKING:
    from agentkit_runtime.watching.tracing import Tracing

_LOG = logging.getLogger(REQUESTS_LOGGER)
_LOOKS = ("state", "requests", "tree", "sessions", "pins", "published")
_QUIET = frozenset(
    {"/metrics", "/health", "/live", "/ready", *(f"/admin/v1/{look}" for look in _LOOKS)}
)
"""What probes and dashboards look at all the time: logged only where it fails."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NAME = REQUEST_ID_HEADER.encode()


class Around:
    """Wraps an application; see `Watching.around`."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: HttpMetrics,
        tracing: Tracing | None,
        clock: Callable[[], float],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._tracing = tracing
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and look at its end."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(
            request_id=request_id_of(scope["headers"]),
            method=scope["method"] if scope["method"] in _METHODS else "OTHER",
            began_s=self._clock(),
        )
        # FastAPI would trace by itself as soon as the process has a tracer provider, with whole
        # URLs, and log exceptions with their texts; this is its own mark of a request to leave be.
        scope["fastapi.telemetry"] = None
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != _NAME]
        scope["headers"].append((_NAME, exchange.request_id.encode()))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message = {**message, "headers": _with_id(message.get("headers", ()), exchange)}
            await send(message)

        self._metrics.began()
        token = current_exchange.set(exchange)
        try:
            with self._traced(exchange, scope):
                await self._app(scope, receive, sending)
        finally:
            current_exchange.reset(token)
            self._ended(exchange, scope)

    def _traced(self, exchange: Exchange, scope: Scope) -> AbstractContextManager[None]:
        if self._tracing is None:
            return nullcontext()
        return self._tracing.request(exchange, scope)

    def _ended(self, exchange: Exchange, scope: Scope) -> None:
        route, status = route_of(scope), exchange.status or GONE_STATUS
        self._metrics.ended(route=route, method=exchange.method, status=status)
        quiet = route in _QUIET and exchange.method == "GET" and status < 400
        if quiet or not _LOG.isEnabledFor(logging.INFO):
            return
        fields = _fields(exchange, scope, status, self._clock() - exchange.began_s)
        _LOG.info("%s %s %d", exchange.method, route, status, extra={FIELDS: fields})


def route_of(scope: Scope) -> str:
    """The pattern of the endpoint that answered: of a bounded set, and without anybody's data."""
    return str(getattr(scope.get("route"), "path", "none"))


def _with_id(
    headers: Iterable[tuple[bytes, bytes]], exchange: Exchange
) -> list[tuple[bytes, bytes]]:
    kept = [pair for pair in headers if pair[0].lower() != _NAME]
    return [*kept, (_NAME, exchange.request_id.encode())]


def _fields(exchange: Exchange, scope: Scope, status: int, seconds: float) -> dict[str, Any]:
    caller = scope.get("state", {}).get("caller")
    fields: dict[str, Any] = {
        "request_id": exchange.request_id,
        "trace_id": exchange.trace_id,
        "status": status,
        "seconds": rounded(seconds),
        "tenant": getattr(caller, "tenant", None),
        "key_id": getattr(caller, "key_id", None),
    }
    for record in exchange.records:
        fields |= {
            "id": record.id,
            "session": record.session,
            "priority": record.priority,
            "outcome": record.outcome,
            "code": record.code,
            "finish": ",".join(record.finish) or None,
            "prompt_tokens": record.prompt_tokens,
            "cached_tokens": record.cached_tokens,
            "completion_tokens": record.completion_tokens,
            "queue_s": rounded(record.queue_s),
            "ttft_s": rounded(record.ttft_s),
            "missed": record.missed,
            "lost_tokens": record.lost_tokens,
        }
    return {name: value for name, value in fields.items() if value is not None}
