"""Finished bytes through the official SDK: its address, key, headers and errors, our body."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agentkit.errors import MissingExtra
from agentkit.models.hosted.anthropic.errors import translate_error
from agentkit.models.hosted.rate_headers import OnHeaders
from agentkit.models.hosted.sse import event_json, sse_events
from agentkit.models.loop_clients import LoopClients

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from httpx2 import Response

_PATH = "/v1/messages"

_FROM_SDK = (TypeError, json.JSONDecodeError, UnicodeDecodeError)
"""How the SDK says that there is no key, and that an event is no JSON."""


class Sender:
    """Posts requests once. Retries are the loop's, which can tell the user about them.

    Without a client of the user's, each event loop gets its own; see `LoopClients`.
    """

    def __init__(
        self, client: AsyncAnthropic | None, *, label: str, timeout_s: float | None
    ) -> None:
        self._clients = LoopClients(
            client, lambda: _new_client(label), lambda client: client.close()
        )
        self._label = label
        self._timeout_s = timeout_s
        self.on_headers: OnHeaders | None = None
        """Hears the headers of each streamed response, also of one that refuses the request."""

    async def events(
        self, data: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[Mapping[str, object], None]:
        """Send the bytes and yield the events of the response, as parsed JSON.

        Raises:
            RequestRefused: the API can never take the request.
            ModelError: it failed.
        """
        client = await self._clients.get()
        from anthropic import AnthropicError, APIStatusError, AsyncStream
        from httpx2 import HTTPError

        stream: AsyncStream[object] | None = None
        try:
            stream = await client.post(
                _PATH,
                cast_to=object,
                content=data,
                options=self._options(headers),
                stream=True,
                stream_cls=AsyncStream[object],
            )
            self._heard(stream.response.headers)
            async with aclosing(sse_events(stream.response)) as events:
                async for name, text in events:
                    if name == "error":
                        raise _reported(text, stream.response)
                    event = event_json(text) if name not in ("", "ping") else None
                    if isinstance(event, dict):
                        yield event
        except (AnthropicError, HTTPError, *_FROM_SDK) as error:
            if isinstance(error, APIStatusError):
                self._heard(error.response.headers)
            failure = translate_error(error, self._label)
            failure.response_began = stream is not None
            raise failure from error
        finally:
            if stream is not None:
                await stream.close()

    async def response(self, data: bytes, headers: Mapping[str, str]) -> Mapping[str, object]:
        """Send the bytes and return the response, as parsed JSON.

        Raises:
            RequestRefused: the API can never take the request.
            ModelError: it failed.
        """
        client = await self._clients.get()
        from anthropic import AnthropicError

        try:
            answer = await client.post(
                _PATH, cast_to=object, content=data, options=self._options(headers)
            )
        except (AnthropicError, *_FROM_SDK) as error:
            raise translate_error(error, self._label) from error
        return answer if isinstance(answer, Mapping) else {}

    async def aclose(self) -> None:
        """Close this event loop's own client. One that was given stays open."""
        await self._clients.aclose()

    def _heard(self, headers: Mapping[str, str]) -> None:
        if self.on_headers is not None:
            self.on_headers(headers)

    def _options(self, headers: Mapping[str, str]) -> Any:
        options: dict[str, object] = {"headers": dict(headers), "max_retries": 0}
        if self._timeout_s is not None:
            options["timeout"] = self._timeout_s
        return options


def _reported(text: str, response: Response) -> Exception:
    """Return the SDK's error for one that a stream reports."""
    from anthropic import APIStatusError

    try:
        body: object = json.loads(text)
    except ValueError:
        body = text
    return APIStatusError(f"{body}", response=response, body=body)


def _new_client(label: str) -> AsyncAnthropic:
    try:
        from anthropic import AsyncAnthropic
    except ImportError as error:
        raise MissingExtra(
            f"{label} needs Anthropic's client, which is not installed ({error}); "
            'in a checkout run: pip install -c requirements.lock ".[anthropic]"'
        ) from error
    return AsyncAnthropic(max_retries=0)
