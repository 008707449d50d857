"""A served agent over HTTP: who may ask it."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agentkit.errors import ConfigurationError

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_LEAST_TOKEN_CHARS = 16


def http_app(
    server: Server[Any], *, token: str | None = None, hosts: Iterable[str] = ()
) -> ASGIApp:
    """Return a server as an ASGI application, at the path `/mcp`.

    Requests must name this machine, or one of `hosts`, in their `Host` header, and pages of other
    origins are refused: a page in a browser cannot reach the agent by a name of its own that it
    points to this machine. Run it with an ASGI server such as uvicorn, in one process: sessions
    are in memory.

    Args:
        server: of `serve_mcp`.
        token: requests must bring it (`Authorization: Bearer ...`). Without one, listen on the
            loopback interface only: everybody who reaches the address may ask the agent.
        hosts: names by which others reach the server, e.g. `agents.example.org` or `[fd00::1]`.

    Raises:
        ConfigurationError: the token is too short to be one, hosts are given and no token, or what
            is to be reached is no server.
    """
    if not callable(getattr(server, "streamable_http_app", None)) or isinstance(server, type):
        raise ConfigurationError(
            f"http_app takes a server, not a {type(server).__name__}; for an agent: "
            "http_app(serve_mcp(agent))"
        )
    from mcp.server.transport_security import TransportSecuritySettings

    others = tuple(hosts)
    if token is not None and len(token) < _LEAST_TOKEN_CHARS:
        raise ConfigurationError(
            f"the token has {len(token)} characters; use at least {_LEAST_TOKEN_CHARS}, made for "
            "example by: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if others and token is None:
        raise ConfigurationError(
            f"others are to reach the server as {others[0]!r}, and could all ask the agent; give "
            "a token"
        )
    names = (*_LOCAL, *others)
    security = TransportSecuritySettings(
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[
            f"{scheme}://{name}{port}"
            for name in names
            for scheme in ("http", "https")
            for port in ("", ":*")
        ],
    )
    app = server.streamable_http_app(transport_security=security)
    return app if token is None else _BearerToken(app, token)


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class _BearerToken:
    """Refuses requests that do not bring the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_allowed(scope):
            from starlette.responses import PlainTextResponse

            refusal = PlainTextResponse(
                "the token is missing or wrong", 401, {"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_allowed(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)
