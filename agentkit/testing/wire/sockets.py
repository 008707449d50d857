"""Stands between Python's sockets and the network, whatever client uses them.

Code in C that opens sockets of its own (libpq, gRPC) does not come by here.
"""

from __future__ import annotations

import functools
import inspect
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from agentkit.testing.wire.forbidden import Forbidding

Replaced: TypeAlias = Callable[[Any], Any]
"""Makes of a function the one that stands in its place."""

_INTERNET = (socket.AF_INET, socket.AF_INET6)


@contextmanager
def forbidding_sockets(forbidding: Forbidding) -> Iterator[None]:
    """Let names be looked up and connections be made to this machine, and to allowed hosts.

    Raises:
        RealCallForbidden: from within, at the first one that goes elsewhere.
    """
    addresses: set[str] = set()
    """Of hosts that are allowed by name."""

    def looking_up(before: Any) -> Any:
        @functools.wraps(before)
        def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
            name = host.decode() if isinstance(host, bytes) else host
            if name:
                forbidding.check(name, f"a look-up of {name}")
            found = before(host, *args, **options)
            addresses.update(str(each[4][0]) for each in found)
            return found

        return getaddrinfo

    def connecting(before: Any) -> Any:
        @functools.wraps(before)
        def connect(self: socket.socket, address: Any) -> Any:
            if self.family in _INTERNET and address[0] not in addresses:
                forbidding.check(address[0], f"a connection to {address[0]}:{address[1]}")
            return before(self, address)

        return connect

    with _replaced(looking_up, connecting):
        yield


@contextmanager
def open_sockets() -> Iterator[None]:
    """Let everything pass again, inside `forbidding_sockets`: what is recorded is called."""
    with _replaced(inspect.unwrap, inspect.unwrap):
        yield


@contextmanager
def _replaced(looking_up: Replaced, connecting: Replaced) -> Iterator[None]:
    before = (socket.getaddrinfo, socket.socket.connect, socket.socket.connect_ex)
    socket.getaddrinfo = looking_up(socket.getaddrinfo)
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, connecting(getattr(socket.socket, name)))
    try:
        yield
    finally:
        socket.getaddrinfo = before[0]
        setattr(socket.socket, "connect", before[1])  # noqa: B010
        setattr(socket.socket, "connect_ex", before[2])  # noqa: B010
