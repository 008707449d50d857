"""HTTP to a server of ours: one pool of connections for each event loop, failures in our words."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from agentkit.errors import MissingExtra, ModelError, RequestRefused
from agentkit.models.hosted.openai_common import retry_after_s
from agentkit.models.hosted.sse import sse_events, transport_errors
from agentkit.models.loop_clients import LoopClients
from agentkit.models.own.tenant_keys import KEY_VARIABLE

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

_CONNECT_S = 10.0
_ACCOUNT_STATUS = frozenset((401, 403))
_PASSING_STATUS = frozenset((408, 425, 429))


class ServerClient:
    """Sends bodies to one server. Usable from several event loops and threads.

    Args:
        url: of the server, without a path of the API.
        label: what errors call it.
        silence_s: seconds after which a server that says nothing is given up.
        given: a client of the user's, which stays theirs to close; by default own ones.
    """

    def __init__(
        self, url: str, *, label: str, silence_s: float, given: AsyncClient | None = None
    ) -> None:
        self._url = url
        self._label = label
        self._silence_s = silence_s
        self._clients = LoopClients(given, self._new, lambda client: client.aclose())

    async def events(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[str, None]:
        """Post a body and yield the data of the events that come back.

        Closing the generator closes the connection, by which the server stops its work.

        Raises:
            RequestRefused: the server can never take the request.
            ModelError: it failed, or cannot be reached.
        """
        async with self._sent("POST", path, body, headers) as response:
            events = sse_events(response)
            async with aclosing(events):
                async for _, data in events:
                    yield data

    async def document(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> dict[str, object]:
        """Send a body, if any, and return the object that comes back. Raises as `events`."""
        async with self._sent(method, path, body, headers) as response:
            found = json.loads(await response.aread())
            if not isinstance(found, dict):
                raise ValueError(f"expected an object, got {type(found).__name__}")
            return found

    async def aclose(self) -> None:
        """Close this loop's own connections. A client that was given stays open."""
        await self._clients.aclose()

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> AsyncIterator[Response]:
        client = await self._clients.get()
        timeouts, errors = transport_errors()
        try:
            async with client.stream(
                method,
                f"{self._url}{path}",
                content=body,
                headers={"Content-Type": "application/json", **headers},
            ) as response:
                if response.status_code >= 400:
                    raise _refusal(self._label, response, await response.aread())
                yield response
        except timeouts as error:
            raise ModelError(f"{self._label} timed out", retryable=True) from error
        except errors as error:
            raise ModelError(
                f"{self._label} cannot be reached, or broke off: {error!r}", retryable=True
            ) from error
        except (UnicodeDecodeError, ValueError) as error:
            raise ModelError(
                f"{self._label} sent what no server of ours sends ({error}); is another server "
                "at this address?"
            ) from error

    def _new(self) -> AsyncClient:
        try:
            from httpx2 import AsyncClient, Limits, Timeout
        except ImportError as error:
            raise MissingExtra(
                f"{self._label} needs httpx2, which is not installed ({error}); "
                'in a checkout run: pip install -c requirements.lock ".[tools]"'
            ) from error
        # As many connections as there are runs: who waits is the server's to say, and it says when
        # to come again.
        return AsyncClient(
            timeout=Timeout(self._silence_s, connect=_CONNECT_S, pool=None),
            limits=Limits(max_connections=None, max_keepalive_connections=64),
        )


def _refusal(label: str, response: Response, body: bytes) -> ModelError:
    """Our error for an answer of status 400 and more."""
    status = response.status_code
    message = f"{label} answered {status}: {_told(body)}"
    if status in _ACCOUNT_STATUS:
        return ModelError(f"{message}; check the key in {KEY_VARIABLE} and its roles")
    if status in _PASSING_STATUS or status >= 500:
        wait_s = retry_after_s(response.headers)
        return ModelError(message, retryable=True, retry_after_s=wait_s)
    if status == 409:  # too much is pinned: nothing is wrong with the request itself
        return ModelError(message)
    if status == 404 and b'"code"' not in body:
        return RequestRefused(f"{message}; at this address is no agentkit-runtime, or an older one")
    return RequestRefused(message)


def _told(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
