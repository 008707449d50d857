"""Who sends a request. Said by credentials alone, never by a body."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from agentkit_runtime.api.dialect import dialect_of
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import DEFAULT_TENANT
from agentkit_runtime.types import Priority

Role = Literal["admin", "user"]
"""An admin steers the server and sees all tenants; a user asks the model as one tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that requests of a caller get, whatever they ask for."""

    max_tokens: int | None = None
    """Longer answers end there. None is no bound."""
    priority: Priority = Priority.INTERACTIVE
    """The highest class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request, as the credentials say."""

    tenant: str = DEFAULT_TENANT
    roles: frozenset[Role] = frozenset({"user"})
    key_id: str | None = None
    """Names the key in logs and reports; None where no key is asked for. Never the key itself."""
    bounds: Bounds = Bounds()


class Authenticator(Protocol):
    """Knows callers by their credentials. Called in the event loop: must not block."""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """The caller of a request with these headers (names in lower case).

        Raises:
            ApiError: 401 for a missing or unknown key; the message never repeats it.
        """


class NoKeys:
    """Everybody may do everything: for a server that only this machine can reach."""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """The same caller for all."""
        return Caller(roles=frozenset({"user", "admin"}))


class Authentication:
    """ASGI middleware: finds out who calls, before anything of the body is read.

    `open_paths` are served to everybody: liveness probes carry no keys.
    """

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, open_paths: frozenset[str]
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its caller, or refuse it."""
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            headers = _joined(scope["headers"])
            try:
                caller = self._authenticator.authenticate(headers)
            except ApiError as error:
                await dialect_of(scope["path"]).response(error)(scope, receive, send)
                return
            state = scope.setdefault("state", {})
            state["caller"] = caller
            state["caller_now"] = functools.partial(self._authenticator.authenticate, headers)
        await self._app(scope, receive, send)


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; one that comes several times has all its values (RFC 9110, 5.3), so that
    of two keys none is let in, and not whichever is last."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def caller_of(request: Request) -> Caller:
    """Who sends `request`. For endpoints: a dependency of FastAPI, or called by hand."""
    return cast("Caller", request.state.caller)


def require_user(request: Request) -> Caller:
    """The caller, who must be allowed to ask the model."""
    return _require(request, "user")


def require_admin(request: Request) -> Caller:
    """The caller, who must be allowed to steer the server."""
    return _require(request, "admin")


def _require(request: Request, role: Role) -> Caller:
    caller = caller_of(request)
    if role not in caller.roles:
        raise ApiError(
            f"this key has no {role} role; use a key that was made with --role {role}",
            status=403,
            code="permission_denied",
        )
    return caller
