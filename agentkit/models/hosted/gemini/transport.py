"""Finished bytes through the official SDK.

The SDK's public methods take objects and print them their own way. Its API client sends bytes as
they are if it is given bytes, with everything else that it does (keys, tokens, URL, headers, error
types). That client is not public; a test compares what it sends with what it was given.
Source: google-genai 3.6.1, `_api_client.BaseApiClient`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentkit.caching.policy import Platform
from agentkit.errors import ConfigurationError, MissingExtra, ModelError
from agentkit.models.hosted.gemini.errors import sdk_error
from agentkit.models.hosted.gemini.front import Created, Front
from agentkit.models.hosted.gemini.options import GeminiOptions

if TYPE_CHECKING:
    from google.genai import Client


class Transport:
    """Sends the requests of one adapter. Opens its client at the first one, if it was given none.

    Raises:
        ConfigurationError: the client would send through aiohttp.
    """

    def __init__(
        self, model: str, label: str, client: Client | None, options: GeminiOptions
    ) -> None:
        self._model = model
        self._label = label
        self._options = options
        self._client = client if client is None else _checked(client, label)

    async def stream(self, data: bytes) -> AsyncGenerator[str, None]:
        """Post a request and yield the JSON text of each event of the answer.

        Raises:
            ObjectGone: the object that it names is not there.
            RequestRefused: it is refused for good.
            ModelError: it failed.
        """
        api = self._api()
        from google.genai._transformers import t_model

        path = f"{t_model(api, self._model)}:streamGenerateContent?alt=sse"
        has_begun = False
        try:
            async with self._errors():
                response = await self._send("post", path, data, stream=True)
                has_begun = True
                answer = response.response_stream
                try:
                    async for text in _events(answer.aiter_bytes()):
                        yield text
                finally:
                    await answer.aclose()
        except ModelError as error:
            error.response_began = has_begun
            raise

    async def create(self, front: Front) -> Created:
        """Make an object; see `ObjectApi`."""
        api = self._api()
        from google.genai._transformers import t_caches_model

        named = {
            "model": t_caches_model(api, self._model),
            "displayName": f"agentkit {front.key.digest[:12]}",
            "ttl": f"{front.ttl_s}s",
        }
        head = json.dumps(named, separators=(",", ":")).encode()
        data = head if front.data == b"{}" else head[:-1] + b"," + front.data[1:]
        async with self._errors(ValueError):
            response = await self._send("post", "cachedContents", data)
            return _created(json.loads(response.response_stream[0] or "{}"))

    async def renew(self, name: str, ttl_s: int) -> None:
        """Let an object live on; see `ObjectApi`."""
        async with self._errors(ValueError):
            await self._open().aio.caches.update(name=name, config={"ttl": f"{ttl_s}s"})

    async def delete(self, name: str) -> None:
        """End an object; see `ObjectApi`."""
        async with self._errors(ValueError):
            await self._open().aio.caches.delete(name=name)

    async def _send(self, method: str, path: str, data: bytes, *, stream: bool = False) -> Any:
        api = self._api()
        request = api._build_request(method, path, {}, None)
        request.data = data
        # Once: the loop decides about retries, for it knows whether a turn had begun.
        return await api._async_request_once(request, stream, implicit_retry=False)

    @asynccontextmanager
    async def _errors(self, *more: type[Exception]) -> AsyncIterator[None]:
        from google.auth.exceptions import GoogleAuthError
        from google.genai.errors import APIError

        known: tuple[type[Exception], ...] = (APIError, GoogleAuthError, *_http_errors(), *more)
        try:
            yield
        except known as error:
            raise sdk_error(self._label, error) from error

    def _api(self) -> Any:
        return self._open()._api_client

    def _open(self) -> Client:
        if self._client is None:
            self._client = _new_client(self._label, self._options)
        return self._client


def _new_client(label: str, options: GeminiOptions) -> Client:
    try:
        from google.genai import Client
        from google.genai._api_client import AsyncHttpx2Client
        from google.genai.types import HttpOptions
    except ImportError as error:
        raise MissingExtra(
            f"{label} needs Google's client, which is not installed ({error}); "
            'in a checkout run: pip install -c requirements.lock ".[gemini]"'
        ) from error
    try:
        return Client(
            vertexai=options.platform is Platform.GOOGLE_CLOUD,
            http_options=HttpOptions(
                timeout=options.timeout_s * 1_000,
                # Named, or the SDK would take aiohttp wherever that is installed.
                httpx_async_client=AsyncHttpx2Client(),
            ),
        )
    except ValueError as error:
        raise ConfigurationError(
            f"{label} has no key ({error}): set GOOGLE_API_KEY or GEMINI_API_KEY, or pass "
            "client=genai.Client(api_key=...)"
        ) from error


def _checked(client: Client, label: str) -> Client:
    api: Any = client._api_client
    if api._use_aiohttp():
        raise ConfigurationError(
            f"{label}: this client sends through aiohttp; give it http_options="
            "HttpOptions(httpx_async_client=httpx2.AsyncClient())"
        )
    return client


def _http_errors() -> tuple[type[Exception], ...]:
    """Return the base errors of the HTTP clients that the SDK may have been given."""
    modules = (sys.modules.get("httpx2"), sys.modules.get("httpx"))
    return tuple(
        error
        for module in modules
        if module is not None
        for error in (module.HTTPError, module.StreamError)
    )


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the data of each server-sent event; text that is no event as one, at the end."""
    data: list[bytes] = []
    other: list[bytes] = []
    async for line in _lines(chunks):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data).decode()
            data.clear()
        elif line and not line.startswith((b":", b"event:", b"id:", b"retry:")):
            other.append(line)
    for rest in (data, other):
        if rest:
            yield b"\n".join(rest).decode()


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    # Only at line feeds: text may hold U+2028 and the like, which `str.splitlines` cuts at.
    kept = b""
    async for chunk in chunks:
        *lines, kept = (kept + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
    if kept:
        yield kept.removesuffix(b"\r")


def _created(answer: Any) -> Created:
    name = answer.get("name") if isinstance(answer, dict) else None
    if not name:
        raise ValueError(f"cached content without a name: {answer!r}")
    usage = answer.get("usageMetadata") or {}
    return Created(name=str(name), n_tokens=usage.get("totalTokenCount"))
