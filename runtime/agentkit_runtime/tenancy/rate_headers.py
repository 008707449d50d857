"""Tells clients with each answer what is left of their rates, in the names of their API.

OpenAI:    x-ratelimit-{limit,remaining,reset}-{requests,tokens}, reset as a duration (6m0s)
Anthropic: anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}, reset as a time (RFC 3339)
https://platform.openai.com/docs/guides/rate-limits, https://docs.claude.com/en/api/rate-limits
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.dialect import dialect_of
from agentkit_runtime.tenancy.accounts import Accounts, Level, Standing

_PREFIX = "/v1/"
"""Of the paths at which tenants are served."""


class RateHeaders:
    """ASGI middleware, around authentication. Tenants without rates get no such headers."""

    def __init__(
        self, app: ASGIApp, *, accounts: Accounts, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives Unix seconds."""
        self._app = app
        self._accounts = accounts
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its answer says what is left when it begins."""
        if scope["type"] != "http" or not scope["path"].startswith(_PREFIX):
            await self._app(scope, receive, send)
            return

        async def told(message: Message) -> None:
            caller = scope.get("state", {}).get("caller")
            if message["type"] == "http.response.start" and caller is not None:
                self._tell(message, caller, scope["path"])
            await send(message)

        await self._app(scope, receive, told)

    def _tell(self, message: Message, caller: Caller, path: str) -> None:
        if "user" not in caller.roles:
            return
        standing = self._accounts.standing(caller.tenant)
        write = _anthropic if dialect_of(path).name == "anthropic" else _openai
        headers = MutableHeaders(scope=message)
        for what, level in _levels(standing):
            for name, value in write(what, level, self._clock()):
                headers[name] = value


def _levels(standing: Standing) -> Iterator[tuple[str, Level]]:
    if standing.requests is not None:
        yield "requests", standing.requests
    if standing.tokens is not None:
        yield "tokens", standing.tokens


def _openai(what: str, level: Level, now_s: float) -> Iterator[tuple[str, str]]:
    yield f"x-ratelimit-limit-{what}", str(level.limit)
    yield f"x-ratelimit-remaining-{what}", str(level.remaining)
    yield f"x-ratelimit-reset-{what}", _duration(level.reset_s)


def _anthropic(what: str, level: Level, now_s: float) -> Iterator[tuple[str, str]]:
    reset = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(math.ceil(now_s + level.reset_s)))
    yield f"anthropic-ratelimit-{what}-limit", str(level.limit)
    yield f"anthropic-ratelimit-{what}-remaining", str(level.remaining)
    yield f"anthropic-ratelimit-{what}-reset", reset


def _duration(seconds: float) -> str:
    """As Go writes durations: `0s`, `250ms`, `6m0s`."""
    if 0 < seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
