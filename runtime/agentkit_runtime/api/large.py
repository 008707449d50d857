"""Large bodies: decoded in threads, few at a time, so that nobody's stream waits for it.

A body of 10 MB takes from 0.1 to 3 seconds to be read, checked and turned into a request. The event
loop does that only for small ones, which it is done with sooner than a thread would begin.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from agentkit_runtime.api.caller import caller_of
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.patient_json import loads
from agentkit_runtime.api.turns import Turns

T = TypeVar("T")

LARGE_BYTES = 128 * 1024
"""Of a body. Smaller ones take the event loop some milliseconds at most."""

_AT_A_TIME = 2
"""Large bodies that are decoded: more would only compete for the interpreter."""

TENANT_BYTES = 128 << 20
"""Large bodies of one tenant that are decoded or wait for it; one is always let in."""

ALL_BYTES = 512 << 20
"""The same of all tenants."""


class Decoding:
    """Turns for large bodies of one server: one for each tenant, and few in all."""

    def __init__(self) -> None:
        self._tenants = Turns(at_a_time=1)
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._held: Counter[str] = Counter()
        """Bytes of bodies that are here, by tenant."""

    @asynccontextmanager
    async def turn(self, tenant: str, n_bytes: int) -> AsyncIterator[None]:
        """A turn for a body, once there is one. Raises `ApiError` (429) when too much waits."""
        mine, all_ = self._held[tenant], self._held.total()
        if (mine and mine + n_bytes > TENANT_BYTES) or (all_ and all_ + n_bytes > ALL_BYTES):
            raise ApiError(
                "too many large bodies wait to be decoded; send fewer at a time",
                status=429,
                code="too_many_requests",
                retry_after_s=1,
            )
        self._held[tenant] += n_bytes
        try:
            async with self._tenants.of(tenant), self._slots:
                yield
        finally:
            self._held[tenant] -= n_bytes
            if not self._held[tenant]:
                del self._held[tenant]


class LargeRequest(Request):
    """A request whose large body is there. Its JSON is what `model` made of it."""

    def __init__(self, scope: Scope, receive: Receive, raw: bytes, value: object) -> None:
        super().__init__(scope, receive)
        self._raw = raw
        self._value = value

    async def body(self) -> bytes:
        """As it was sent."""
        return self._raw

    async def json(self) -> object:
        """What the endpoint takes: validating it once more costs nothing."""
        return self._value


class BodyRoute(APIRoute):
    """An endpoint whose large bodies are decoded in a thread; small ones as ever."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the framework, behind the decoding of large bodies."""
        handle, field = super().get_route_handler(), self.body_field

        async def handle_any(request: Request) -> Response:
            if field is None or not _may_be_large(request) or not _is_json(request):
                return await handle(request)
            raw = await _body(request)
            if len(raw) <= LARGE_BYTES:
                return await handle(request)

            def decoded() -> object:
                value, errors = field.validate(_json(raw), {}, loc=("body",))
                if errors:
                    raise RequestValidationError(errors)
                return value

            value = await _in_turn(request, len(raw), decoded)
            return await handle(LargeRequest(request.scope, request.receive, raw, value))

        return handle_any


async def made_of(request: Request, make: Callable[[], T]) -> T:
    """What `make` makes of the body of `request`: in a thread where the body is large."""
    if await is_large(request):
        return await _in_turn(request, len(await request.body()), make)
    return make()


async def is_large(request: Request) -> bool:
    """Whether the event loop must leave what was made of the body of `request` to threads."""
    return isinstance(request, LargeRequest) or len(await request.body()) > LARGE_BYTES


async def _in_turn(request: Request, n_bytes: int, work: Callable[[], T]) -> T:
    decoding = cast("Decoding", request.app.state.site.decoding)
    async with decoding.turn(caller_of(request).tenant, n_bytes):
        return await asyncio.to_thread(work)


def _may_be_large(request: Request) -> bool:
    length = request.headers.get("content-length", "")
    return not length.isdigit() or int(length) > LARGE_BYTES


def _is_json(request: Request) -> bool:
    return "json" in request.headers.get("content-type", "").lower()


async def _body(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect as error:  # nobody reads it, and the framework says the same
        raise HTTPException(400, "There was an error parsing the body") from error


def _json(raw: bytes) -> object:
    try:
        return loads(raw)
    except RecursionError:
        raise ApiError("the body is nested too deeply") from None
    except ValueError as error:  # also of what is no text, and of integers without an end
        raise ApiError("the body is not valid JSON", code="invalid_json") from error
