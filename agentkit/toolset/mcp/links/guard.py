"""An HTTP client that lets nothing of the network through but answers.

The SDK's transport ends with all its requests when one of them meets an error of the network,
tells nothing of an HTTP status, and reads bodies of any size for any time. Through this client
each failure is an answer to its own request, in words, and the rest goes on. It passes on only the
bodies of answers, bounded in size (`http_bodies.py`); how long they may take is the caller's limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx2

from agentkit.toolset.mcp.links.http_answers import answer, message_of, rpc_error, start_of
from agentkit.toolset.mcp.links.http_bodies import emptied, is_notice, no_answer, readable
from agentkit.toolset.mcp.links.http_hints import of_an_old_server, what_to_set
from agentkit.toolset.mcp.links.secrets import ServerSecrets
from agentkit.toolset.mcp.links.transport import LOST, NOT_SENT, REFUSED
from agentkit.toolset.mcp.server import McpServer
from agentkit.toolset.mcp.server_checks import is_same_origin, shown_url, without_queries

if TYPE_CHECKING:
    import ssl

_SESSION_HEADER = "mcp-session-id"

_FAREWELL_S = 1.0
"""How long telling the server that its session has ended may take."""

_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)


class GuardedClient(httpx2.AsyncClient):
    """Sends through the server's own `http_client`, or one of its own.

    Args:
        server: says headers, auth, client, limits.
        secrets: learns what `auth` adds, and the addresses that the server names.
        on_end: called with what is to be said of the server, when no request can get through any
            more: it cannot be reached, or has ended the session.
        hurry: once it is set, the server is not told that its session has ended.
        ends_at_failure: any failure calls `on_end`.
    """

    def __init__(
        self,
        server: McpServer,
        secrets: ServerSecrets,
        on_end: Callable[[str], None],
        hurry: asyncio.Event,
        *,
        ends_at_failure: bool = False,
    ) -> None:
        super().__init__(transport=_Unused())
        self._server = server
        self._secrets = secrets
        self._on_end = on_end
        self._hurry = hurry
        self._ends_at_failure = ends_at_failure
        self._opened = AsyncExitStack()
        self._inner: httpx2.AsyncClient | None = server.http_client

    async def __aenter__(self) -> Self:
        if self._inner is None:
            client = httpx2.AsyncClient(verify=_tls_context())
            self._inner = await self._opened.enter_async_context(client)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._opened.aclose()
        await super().aclose()

    def build_request(self, method: str, url: httpx2.URL | str, **given: Any) -> httpx2.Request:
        """The SDK's request, with the server's headers, and no time limit but ours."""
        assert self._inner is not None
        headers = httpx2.Headers({"accept-encoding": "identity", **self._server.headers})
        headers.update(given.pop("headers", None))
        # How long an answer may take is the caller's to say, and only he knows of progress.
        timeout = httpx2.Timeout(None, connect=self._server.connect_timeout_s)
        return self._inner.build_request(
            method, url, **{**given, "headers": headers, "timeout": timeout}
        )

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Send a request. Whatever goes wrong is a response, except being cancelled."""
        if request.method == "DELETE":
            return await self._say_farewell(request, how)
        # The SDK sends nothing else before a notice is through, so that one may not take for ever.
        limit_s = self._server.connect_timeout_s if is_notice(request) else None
        try:
            async with asyncio.timeout(limit_s):
                response = await self._pass_on(request, how)
                return await self._judge(request, response)
        except Exception as error:
            return self._unsent_or_lost(request, error)

    async def _pass_on(self, request: httpx2.Request, how: dict[str, Any]) -> httpx2.Response:
        assert self._inner is not None
        if self._server.auth is not None:
            how = {**how, "auth": self._server.auth}
        if request.url.query:
            self._secrets.learn_url(str(request.url))
        try:
            return await self._inner.send(request, **how)
        finally:
            self._secrets.learn_headers(request.headers, only_credentials=True)

    async def _say_farewell(self, request: httpx2.Request, how: dict[str, Any]) -> httpx2.Response:
        async def tell() -> None:
            response = await self._pass_on(request, how)
            # Its body is of no interest, and may never end.
            await response.aclose()

        telling = asyncio.ensure_future(tell())
        hurried = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait(
                [telling, hurried], timeout=_FAREWELL_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            hurried.cancel()
            telling.cancel()
            # Whether it heard that we go is the server's business.
            await asyncio.gather(telling, hurried, return_exceptions=True)
        return httpx2.Response(204, request=request)

    async def _judge(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        status = response.status_code
        if response.next_request is not None:
            return await emptied(response)
        if request.method == "GET" and status >= 400 and not self._ends_at_failure:
            # Hearing what the server says by itself is an extra that many lack, and say in any way.
            return await emptied(response)
        if status == 404 and _SESSION_HEADER in request.headers:
            await response.aclose()
            problem = "ended the session (HTTP 404)"
            self._on_end(problem)
            return answer(request, 404, NOT_SENT, problem)
        if status >= 400:
            return await self._explain(request, response)
        if request.method == "POST" and self._ends_at_failure:
            # In the old transport the answer comes through the stream.
            return await emptied(response)
        old = None if self._ends_at_failure else of_an_old_server(self._server)
        if (said := no_answer(request, response)) is not None:
            await response.aclose()
            return said
        limit = self._server.max_message_bytes
        check = self._check_endpoint if self._ends_at_failure else None
        return readable(request, response, limit, old, check)

    def _check_endpoint(self, address: str) -> None:
        """Say why a server of the old transport cannot be used: the SDK only waits on."""
        url = self._server.url or ""
        if not is_same_origin(url, address):
            self._on_end(f"wants its messages at another host; check url {shown_url(url)!r}")

    async def _explain(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Turn an error status into an answer that says what to do, unless the server does."""
        status = response.status_code
        error = rpc_error(await start_of(response))
        problem = f"answered with HTTP {status}"
        if status not in (401, 403) and error is not None:
            if not self._ends_at_failure:
                return httpx2.Response(status, json=error, request=request)
            problem += f": {message_of(error)}"
        hint = what_to_set(self._server, request.method, status)
        problem += f"; {hint}" if hint else f" ({_reason(response)})"
        return self._failed(request, status, _code_of(status), problem)

    def _unsent_or_lost(self, request: httpx2.Request, error: Exception) -> httpx2.Response:
        what = _described(error)
        if isinstance(error, _UNSENT):
            problem = f"cannot be reached at {shown_url(str(request.url))} ({what})"
            self._on_end(problem)
            return self._failed(request, 503, NOT_SENT, problem)
        if isinstance(error, TimeoutError):
            limit_s = self._server.connect_timeout_s
            problem, code = f"did not take a message within {limit_s:g} s", LOST
        elif isinstance(error, httpx2.TransportError):
            problem, code = f"broke off the connection ({what})", LOST
        else:
            # Not the network: what `auth` or `http_client` did instead of sending.
            problem, code = f"could not be asked ({what})", REFUSED
        return self._failed(request, 503, code, problem)

    def _failed(
        self, request: httpx2.Request, status: int, code: int, problem: str
    ) -> httpx2.Response:
        if not self._ends_at_failure:
            return answer(request, status, code, problem)
        self._on_end(problem)
        # A post of the old transport has no answer; the SDK would log the failure, address and all.
        return httpx2.Response(202 if request.method == "POST" else status, request=request)


@cache
def _tls_context() -> ssl.SSLContext:
    """The usual trust in certificates. Loading them takes 25 ms: once, and not for each link."""
    return httpx2.create_ssl_context()


class _Unused(httpx2.AsyncBaseTransport):
    """The guarded client has another client to send; its own transport would cost a TLS context."""


def _code_of(status: int) -> int:
    """Whether a request with this answer was carried out: not if the fault is ours."""
    if status in (401, 403, 407):
        return REFUSED
    return NOT_SENT if status < 500 else LOST


def _described(error: Exception) -> str:
    """An error in a line, without what may be secret: addresses, and what cannot be in a header."""
    kind = type(error).__name__
    if isinstance(error, httpx2.LocalProtocolError) or not str(error):
        return kind
    return f"{kind}: {without_queries(str(error))}"[:300]


def _reason(response: httpx2.Response) -> str:
    return response.reason_phrase or "no reason given"
