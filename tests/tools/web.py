"""A web of one server on this machine: names that lead to it, and pages that are bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import httpcore2

from agentkit_tools._fetching import Fetcher
from agentkit_tools._web_rules import Allowed, Rules

PUBLIC = "93.184.216.34"
"""Counts as public; `Web` connects to itself instead."""

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Wire(httpcore2.AsyncNetworkBackend):
    """Connects to the server, whatever the address, and notes which address was wanted."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.wanted: list[tuple[str, int]] = []
        self.dead: set[str] = set()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.wanted.append((host, port))
        if host in self.dead:
            raise httpcore2.ConnectError("nobody there")
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self._port, timeout)


@dataclass
class Web:
    """What there is: pages by host and path, and addresses by name, one list for each look-up."""

    port: int
    wire: Wire
    pages: dict[str, bytes | Serve] = field(default_factory=dict)
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    requests: list[bytes] = field(default_factory=list)
    n_looked_up: int = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        self.n_looked_up += 1
        answers = self.names.get(host, [[PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def fetcher(self, *allow: str, **settings: object) -> Fetcher:
        rules = Rules(
            allow=tuple(Allowed.parse(text) for text in allow),
            allow_private=bool(settings.pop("allow_private", False)),
        )
        settings = {"timeout_s": 20.0, "resolve": self.resolve, "backend": self.wire} | settings
        return Fetcher(rules=rules, **settings)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def web(ssl_context: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """Serve on a free port of this machine until the end of the block."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request = await reader.readuntil(b"\r\n\r\n")
            made.requests.append(request)
            path = request.split()[1].decode()
            page = made.pages.get(path, page_of("nothing here", status="404 Not Found"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=ssl_context)
    port = server.sockets[0].getsockname()[1]
    made = Web(port, Wire(port))
    try:
        yield made
    finally:
        server.close()


def page_of(
    body: str | bytes,
    kind: str = "text/plain; charset=utf-8",
    *,
    status: str = "200 OK",
    headers: str = "",
) -> bytes:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    )
    return head.encode() + data


def redirect_to(location: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return page_of("", status=status, headers=f"Location: {location}\r\n")
