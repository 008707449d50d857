"""One page of the web, fetched within bounds, from nowhere but where the rules allow.

A name is looked up once for each hop, all its addresses are checked, and the connection goes to a
checked address; TLS and `Host` still carry the name. So a name that leads elsewhere the second time
it is asked gains nothing. Redirects are followed here, one by one, each checked like the first.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import anyio
import httpcore2
import httpx2

from agentkit_tools._errors import Refused
from agentkit_tools._web_rules import Rules, Target, addresses_of

MAX_TIMEOUT_S = 600
_MAX_REDIRECTS = 5
_MAX_URL_CHARS = 4000
_MAX_TRIED_ADDRESSES = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = (
    ("User-Agent", "agentkit-http/1 (fetches single pages for a user)"),
    ("Accept", "text/html, text/markdown, text/plain, application/json, */*;q=0.5"),
    ("Accept-Encoding", "gzip"),
    ("Connection", "close"),
)

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Addresses of a host, given with a port."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a server answered.

    Attributes:
        url: where it came from in the end.
        headers: (name in lower case, value), in the order they came.
        is_cut: the body was longer than it may be.
    """

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    is_cut: bool

    def header(self, name: str) -> str:
        """The first value of a header, or an empty text."""
        return next((value for key, value in self.headers if key == name), "")


async def resolve(host: str, port: int) -> list[str]:
    """All addresses of a host, by the system's resolver."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """Fetches pages under some rules.

    Attributes:
        rules: what may be fetched.
        timeout_s: for everything together, from the first look-up to the last byte.
        max_body_bytes: more is cut; it counts before and after decompression.
        resolve: looks up a name; called once for each hop.
        backend: connects to an address, never to a name.
        ssl_context: None: the usual authorities.
    """

    rules: Rules
    timeout_s: float = 30.0
    max_body_bytes: int = 5 * 1024 * 1024
    resolve: Resolve = field(default=resolve)
    backend: httpcore2.AsyncNetworkBackend = field(default_factory=httpcore2.AnyIOBackend)
    ssl_context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise ValueError(
                f"the timeout must be more than 0 and at most {MAX_TIMEOUT_S} seconds, "
                f"not {self.timeout_s:g}"
            )

    async def fetch(self, url: str, method: Literal["GET", "HEAD"] = "GET") -> Page:
        """Fetch a page, following redirects.

        Raises:
            Refused: not allowed, out of time, or no answer that can be read.
        """
        try:
            with anyio.fail_after(self.timeout_s):
                return await self._followed(url, method)
        except TimeoutError:
            raise Refused(f"no complete answer within {self.timeout_s:g} seconds") from None

    async def _followed(self, url: str, method: str) -> Page:
        target = _short(self.rules.target(url))
        for _ in range(_MAX_REDIRECTS + 1):
            page = await self._fetched(target, method)
            location = page.header("location")
            if page.status not in _REDIRECTS or not location:
                return page
            try:
                target = _short(self.rules.target(target.url.join(location)))
            except (httpx2.InvalidURL, ValueError):
                raise Refused(f"{target.url} redirects to an address that is not valid") from None
            except Refused as refused:
                raise Refused(f"{target.url} redirects elsewhere, where {refused}") from None
        raise Refused(f"{url[:200]} redirects more than {_MAX_REDIRECTS} times")

    async def _fetched(self, target: Target, method: str) -> Page:
        addresses = addresses_of(target.host) or await self._looked_up(target)
        self.rules.check_addresses(target.host, addresses)
        backend = _Pinned(addresses[:_MAX_TRIED_ADDRESSES], self.backend)
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self.ssl_context, max_connections=1, network_backend=backend
        )
        headers = [("Host", target.url.netloc.decode("ascii")), *_HEADERS]
        # Put together from the parts that were checked, so that nothing parses the text again.
        url = httpcore2.URL(
            scheme=target.scheme,
            host=target.url.raw_host,
            port=target.port,
            target=target.url.raw_path,
        )
        try:
            async with pool, pool.stream(method, url, headers=headers) as response:
                return await self._read(target, response)
        except (httpcore2.TimeoutException, httpcore2.NetworkError, ssl.SSLError) as error:
            raise Refused(f"cannot reach {target.host}:{target.port}: {_said(error)}") from None
        except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
            raise Refused(
                f"{target.host} does not answer as the web does: {_said(error)}"
            ) from None

    async def _looked_up(self, target: Target) -> list[str]:
        try:
            return await self.resolve(target.host, target.port)
        except (OSError, UnicodeError):
            raise Refused(f"the name {target.host!r} is not known") from None

    async def _read(self, target: Target, response: httpcore2.Response) -> Page:
        headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in response.headers
        )
        encoding = next((value for name, value in headers if name == "content-encoding"), "")
        body = Body(encoding, self.max_body_bytes)
        async for part in response.aiter_stream():
            if not body.take(part):
                break
        return Page(
            url=str(target.url),
            status=response.status,
            headers=headers,
            body=bytes(body.data),
            is_cut=body.is_cut,
        )


class Body:
    """A body that grows to a bound and no further, whatever it would decompress to.

    Raises:
        Refused: it is compressed in a way that was not asked for.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self.data = bytearray()
        self.is_cut = False
        self._max_bytes = max_bytes
        self._n_received = 0
        match encoding.strip().lower():
            case "" | "identity":
                self._inflater = None
            case "gzip" | "x-gzip" | "deflate":
                self._inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            case other:
                raise Refused(f"the page is compressed as {other[:40]!r}, which was not asked for")

    def take(self, part: bytes) -> bool:
        """Add what came. False: the bound is reached, or the compressed body has ended.

        Raises:
            Refused: it cannot be decompressed.
        """
        self._n_received += len(part)
        room = self._max_bytes - len(self.data)
        if self._inflater is not None:
            try:
                # One byte more than fits tells a body that ends here from one that is cut.
                part = self._inflater.decompress(part, room + 1)
            except zlib.error:
                raise Refused("the page is compressed, and damaged") from None
        self.data += part[:room]
        self.is_cut = len(part) > room or self._n_received > self._max_bytes
        # What follows the end would be gathered, and copied with each part that comes.
        has_ended = self._inflater is not None and self._inflater.eof
        return not (self.is_cut or has_ended)


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that were checked, whatever host it is asked for."""

    def __init__(self, addresses: list[str], backend: httpcore2.AsyncNetworkBackend) -> None:
        self._addresses = addresses
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        for address in self._addresses[:-1]:
            try:
                return await self._backend.connect_tcp(address, port, timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(self._addresses[-1], port, timeout)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


def _short(target: Target) -> Target:
    n_chars = len(str(target.url))
    if n_chars > _MAX_URL_CHARS:
        raise Refused(f"the address has {n_chars} characters; at most {_MAX_URL_CHARS} are taken")
    return target


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
