"""Which web pages may use a server, and under which names it may be asked.

A browser lets any page send requests to any address; it only keeps answers from pages of other
origins. So a server without keys, which takes everybody who can reach it, would work for every page
that its user has open: directly (a request that needs no preflight is sent anyway), or by a name
that an attacker lets point to 127.0.0.1 (DNS rebinding), and then the answers could be read, too.
Keys make both harmless: a page does not have them.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from agentkit_runtime.api.dialect import dialect_of
from agentkit_runtime.api.failure import ApiError

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""What a server on the loopback is called."""

_METHODS = ("GET", "POST", "DELETE")
_EXPOSED = ("retry-after", "x-request-id")
_PREFLIGHT_MAX_AGE_S = 600


def require_origin(text: str) -> str:
    """`text`, if it is one origin, such as https://app.example.com:8443; else ValueError."""
    parts = urlsplit(text)
    alone = f"{parts.scheme}://{parts.netloc}" == text and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.hostname or not alone or "*" in text:
        raise ValueError(
            f"an origin is a scheme, a host and perhaps a port, such as https://app.example.com, "
            f"got {text!r}"
        )
    return text.lower()


def open_to(app: FastAPI, origins: tuple[str, ...]) -> None:
    """Let pages of these origins use the server and read its answers; browsers ask before."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=_METHODS,
        allow_headers=["*"],
        expose_headers=_EXPOSED,
        max_age=_PREFLIGHT_MAX_AGE_S,
    )


class OnlyLocal:
    """ASGI middleware for servers without keys: no rebound names, no requests of foreign pages.

    `any_host` lets the server be asked under every name, where it is to be reached from outside.
    """

    def __init__(
        self, app: ASGIApp, *, origins: tuple[str, ...] = (), any_host: bool = False
    ) -> None:
        self._app = app
        self._origins = origins
        self._any_host = any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and (error := self._refusal(Headers(scope=scope))):
            await dialect_of(scope["path"]).response(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> ApiError | None:
        host = headers.get("host", "").lower()
        if not self._any_host and _name(host) not in LOCAL_NAMES:
            return ApiError(
                "a server without keys answers under localhost, 127.0.0.1 and [::1] only; "
                "start it with --keys to serve others",
                status=421,
                code="misdirected_request",
            )
        origin = headers.get("origin", "").lower()
        if origin and urlsplit(origin).netloc != host and origin not in self._origins:
            return ApiError(
                "a server without keys takes no requests of other sites' pages; "
                "start it with --cors-origin for the ones that may",
                status=403,
                code="origin_not_allowed",
            )
        return None


def _name(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
