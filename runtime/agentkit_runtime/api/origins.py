"""Which web pages may use a server, and under which names it may be asked.

A browser lets any page send requests to any address; it only keeps answers from pages of other
origins. So a server without keys, which takes everybody who can reach it, would work for every page
that its user has open: directly (a request that needs no preflight is sent anyway), or by a name
that an attacker lets point to 127.0.0.1 (DNS rebinding), and then the answers could be read, too.
Keys make both harmless: a page does not have them.
"""

from __future__ import annotations

import ipaddress
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
_EXPOSED = ("retry-after", "x-agentkit-unserved", "x-request-id")
_PREFLIGHT_MAX_AGE_S = 600


def require_origin(text: str) -> str:
    """`text`, if it is one origin, such as https://app.example.com:8443; else ValueError."""
    if not _is_origin(text):
        raise ValueError(
            f"an origin is a scheme, a host and perhaps a port, such as https://app.example.com, "
            f"got {text!r}"
        )
    return text.lower()


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for what is no port
    except ValueError:
        return False
    alone = f"{parts.scheme}://{parts.netloc}" == text and not {"@", "*", " "} & set(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and alone


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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
        if not self._any_host and not _is_local(_name(host)):
            return ApiError(
                "a server without keys answers under localhost, 127.0.0.1 and [::1] only; "
                "start it with --keys to serve others",
                status=421,
                code="misdirected_request",
            )
        origin = headers.get("origin", "").lower()
        if origin and _netloc(origin) != host and origin not in self._origins:
            return ApiError(
                "a server without keys takes no requests of other sites' pages; "
                "start it with --cors-origin for the ones that may",
                status=403,
                code="origin_not_allowed",
            )
        return None


def _is_local(name: str) -> bool:
    """Whether it can mean this machine only: an address of the loopback cannot be rebound."""
    return name in LOCAL_NAMES or is_loopback(name)


def _netloc(origin: str) -> str | None:
    """An origin's host and port; None where it has none, as `null`, or is no origin at all."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _name(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
