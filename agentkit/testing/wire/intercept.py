"""Stands between the HTTP clients of a process and the network.

Clients with another transport, such as `FakeProvider.transport()`, have nothing to do with it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Protocol, TypeAlias

Send: TypeAlias = Callable[[], Any]
"""Sends the request over the network, and returns the response."""
AsyncSend: TypeAlias = Callable[[], Awaitable[Any]]

_CLIENTS = ("httpx2", "httpx")
_PATCHED = (("AsyncHTTPTransport", "handle_async_request"), ("HTTPTransport", "handle_request"))


class Interceptor(Protocol):
    """Decides what becomes of a request. Requests and responses are httpx's."""

    def handle(self, request: Any, body: bytes, send: Send) -> Any:
        """Return the response to a request of a synchronous client."""
        ...

    async def handle_async(self, request: Any, body: bytes, send: AsyncSend) -> Any:
        """Return the response to a request of an asynchronous client."""
        ...


@contextmanager
def intercepting(interceptor: Interceptor) -> Iterator[None]:
    """Give all requests of httpx's clients to an interceptor. The innermost one has them."""
    undo: list[tuple[type, str, object]] = []
    try:
        for module in _installed():
            for class_name, method in _PATCHED:
                owner = getattr(module, class_name)
                before = getattr(owner, method)
                undo.append((owner, method, before))
                setattr(owner, method, _patched(before, interceptor))
        yield
    finally:
        for owner, method, before in reversed(undo):
            setattr(owner, method, before)


def response_of(request: Any, status: int, headers: Iterable[tuple[str, str]], body: Any) -> Any:
    """Return a response of the same library as a request.

    Args:
        request: the request.
        status: the HTTP status.
        headers: its headers.
        body: yields the parts of the body when it is iterated over; also asynchronously.
    """
    module = _module_of(request)
    return module.Response(status, headers=list(headers), stream=stream_of(request, body))


def stream_of(request: Any, body: Any) -> Any:
    """Return a body as the stream of a response, see `response_of`."""
    module = _module_of(request)

    class Stream(module.AsyncByteStream, module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            return iter(body)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return aiter(body)

        def close(self) -> None:
            body.close()

        async def aclose(self) -> None:
            await body.aclose()

    return Stream()


def error_of(request: Any, name: str, message: str) -> Exception:
    """Return an error of the same library as a request, by its class's name."""
    module = _module_of(request)
    kind = getattr(module, name, module.RemoteProtocolError)
    error: Exception = kind(message, request=request)
    return error


def _installed() -> Iterator[ModuleType]:
    for name in _CLIENTS:
        if importlib.util.find_spec(name) is not None:
            yield importlib.import_module(name)


def _module_of(request: Any) -> Any:
    return importlib.import_module(type(request).__module__.partition(".")[0])


def _patched(before: Any, interceptor: Interceptor) -> Any:
    original = inspect.unwrap(before)
    if inspect.iscoroutinefunction(original):

        @functools.wraps(before)
        async def handle_async(transport: Any, request: Any) -> Any:
            body = await request.aread()
            send = functools.partial(original, transport, request)
            return await interceptor.handle_async(request, body, send)

        return handle_async

    @functools.wraps(before)
    def handle(transport: Any, request: Any) -> Any:
        body = request.read()
        return interceptor.handle(request, body, functools.partial(original, transport, request))

    return handle
