"""A transport over a pair of streams that the MCP SDK makes: watched, so that its end is known."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.unanswered import Unanswered
from agentkit.toolset.mcp.links.wire import is_bearable

if TYPE_CHECKING:
    import contextvars

    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

    from agentkit.toolset.mcp.links.transport import Streams


class StreamTransport(ABC):
    """Base of the transports without a process of their own."""

    def __init__(self, secrets: ServerSecrets) -> None:
        self.secrets = secrets
        self.closed = asyncio.Event()
        self.hurry = asyncio.Event()
        self.n_junk_lines = 0
        self.first_junk: str | None = None
        self.fault: str | None = None
        self.unanswered = Unanswered()
        self._context: AbstractAsyncContextManager[Streams] | None = None

    @property
    def pid(self) -> int | None:
        """None: the server is no process of ours."""
        return None

    @property
    def last_words(self) -> str:
        """Empty: its log is not ours to read."""
        return ""

    @abstractmethod
    def _streams(self) -> AbstractAsyncContextManager[Streams]:
        """The SDK's streams; leaving them ends the connection."""

    async def __aenter__(self) -> Streams:
        self._context = self._streams()
        receive, send = await self._context.__aenter__()
        watched = WatchedStream(receive, self._note_junk, self.closed.set, self.unanswered)
        return watched, WatchedSending(send, self.unanswered)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self.closed.set()
        if kind is not None:
            self.hurry.set()
        assert self._context is not None
        return await self._context.__aexit__(kind, error, trace)

    def is_stuck(self, limit_s: float) -> bool:
        """Never: each message travels by itself."""
        return False

    def give_up(self) -> None:
        """End the connection."""
        self.end("stopped reading its input and was given up")

    def end(self, fault: str) -> None:
        """End the connection from this side. `fault` is said of the server; the first one stays."""
        self.fault = self.fault or self.secrets.hidden(fault)
        self.hurry.set()
        self.closed.set()

    async def problem(self) -> str:
        """Why no more messages come, said of the server."""
        return self.fault or "closed the connection"

    def _note_junk(self, error: Exception) -> None:
        self.n_junk_lines += 1
        if self.first_junk is None:
            self.first_junk = self.secrets.hidden(f"{type(error).__name__}: {error}")[:200]


class _Stream(Protocol):
    async def aclose(self) -> None: ...


class _Closes:
    """Closes the stream below when it is left."""

    _inner: _Stream

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class WatchedStream(_Closes):
    """A receiving stream that tells when it has ended, and of what was no message."""

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        on_junk: Callable[[Exception], None],
        on_end: Callable[[], None],
        unanswered: Unanswered,
    ) -> None:
        self._inner: ReadStream[SessionMessage | Exception] = inner
        self._on_junk = on_junk
        self._on_end = on_end
        self._unanswered = unanswered

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context in which the last message was sent, where the stream below knows it."""
        found: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return found

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        import anyio

        try:
            item = await self._inner.receive()
            while not isinstance(item, Exception) and not self._is_taken(item.message):
                item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise
        if isinstance(item, Exception):
            self._on_junk(item)
        return item

    def _is_taken(self, message: JSONRPCMessage) -> bool:
        return is_bearable(message) and self._unanswered.takes(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class WatchedSending(_Closes):
    """A sending stream that notes which requests of the server have been answered."""

    def __init__(self, inner: WriteStream[SessionMessage], unanswered: Unanswered) -> None:
        self._inner: WriteStream[SessionMessage] = inner
        self._unanswered = unanswered

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message; returns when the stream below has taken it."""
        await self._inner.send(item)
        self._unanswered.note_sent(item.message)
