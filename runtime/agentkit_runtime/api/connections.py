"""Connections that cannot be held open for nothing.

uvicorn waits for ever for the headers of a connection's first request, and for a client that does
not read. Either costs a client nothing and the server a file handle, or an answer's memory.

    headers that do not come     the connection is closed after `header_s`
    a client that does not read  it is cut off after `stall_s`, and its answer aborted
    no next request              the connection is closed after `idle_s`: later than clients and
                                 proxies let go of one, or they would send into its end
    a peer that is gone          found by the kernel's own probes within about `stall_s`

Bodies that do not come are `body_limit`'s.

A request that says its length twice, as a number and as chunks, is the last of its connection: a
proxy in front may have seen another end of it, and what follows may be no request of its own
(RFC 9112, 6.1).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from uvicorn.protocols.http.h11_impl import H11Protocol

from agentkit_runtime.checks import require_number

_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
_CLOSE = b"connection", b"close"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a connection is waited for, in seconds."""

    header_s: float = 20.0
    stall_s: float = 60.0
    idle_s: float = 75.0
    """Between an answer and the next request. Pools of clients keep a connection for 5 to 15 s,
    proxies mostly for 60."""

    def __post_init__(self) -> None:
        require_number("header_s", self.header_s, least=0.001)
        require_number("stall_s", self.stall_s, least=0.001)
        require_number("idle_s", self.idle_s, least=0.001)


def patient_protocol(patience: Patience) -> type[asyncio.Protocol]:
    """The class for `uvicorn.Config(http=...)`."""

    class PatientProtocol(_PatientProtocol):
        limits = patience

    return PatientProtocol


class _PatientProtocol(H11Protocol):
    limits: Patience
    _waiting: asyncio.TimerHandle | None = None
    """Runs while a request's headers are to come."""
    _stalled: asyncio.TimerHandle | None = None
    """Runs while the client does not read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive = self.limits.idle_s  # type: ignore[assignment]
        # Without a buffer of its own, what is not read is known at once. Not 0: transports of TLS
        # pause at the limit and not above it, and so would pause with nothing in the buffer.
        transport.set_write_buffer_limits(high=1)
        _probe(transport.get_extra_info("socket"), self.limits.stall_s)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_waiting()
        self._cancel_stalled()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._between_requests:
            self._wait_for_headers()
        else:
            self._cancel_waiting()

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None and _says_two_lengths(self.scope["headers"]):
            # uvicorn closes after the answer, as if the client had asked for it.
            self.scope["headers"] = [*self.scope["headers"], _CLOSE]

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.limits.stall_s, self._cut_off)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_stalled()

    @property
    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_headers(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.limits.header_s, self._give_up)

    def _give_up(self) -> None:
        self._waiting = None
        if self._between_requests:
            self.transport.close()

    def _cut_off(self) -> None:
        self._stalled = None
        _LOG.warning("a client has read nothing for %g s; it is cut off", self.limits.stall_s)
        # close() would wait for the client to read what is left.
        self.transport.abort()

    def _cancel_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _cancel_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def _says_two_lengths(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether it is so, and the connection is not to be closed anyway."""
    found = tuple(headers)
    return {name for name, _ in found} >= _LENGTHS and _CLOSE not in found


def _probe(sock: socket.socket | None, within_s: float) -> None:
    """Let the kernel find out that a silent peer is gone, where it can."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = max(1, round(within_s / 4))
    for name, value in (
        ("TCP_KEEPIDLE", seconds),
        ("TCP_KEEPINTVL", seconds),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", round(1000 * within_s)),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
