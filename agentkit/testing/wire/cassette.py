"""Requests and their responses, recorded once and replayed as often as one likes."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentkit.testing.wire.compare import difference
from agentkit.testing.wire.compressed import UnreadableBody, readable
from agentkit.testing.wire.intercept import AsyncSend, Send, error_of, response_of
from agentkit.testing.wire.pieces import joined_texts
from agentkit.testing.wire.secrets import Scrubber

_VERSION = 1


class CassetteMismatch(BaseException):
    """A request is not the one that was recorded, or there is no recording.

    No `Exception`, because the vendors' clients catch all of those, wait, and try again.
    """


class SecretInStream(AssertionError):
    """A streamed answer holds a secret in pieces. It is not written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """One request and its response, without secrets."""

    method: str
    url: str
    request_headers: dict[str, str]
    body: bytes
    status: int
    response_headers: dict[str, str]
    chunks: tuple[bytes, ...]
    """The response's body, in the pieces in which it came."""
    breaks: str | None = None
    """Class of the error with which the body ended; None: it was complete, or was not read on."""

    @property
    def name(self) -> str:
        """Method and URL."""
        return f"{self.method} {self.url}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "request": {
                "method": self.method,
                "url": self.url,
                "headers": self.request_headers,
                "body": _packed(self.body),
            },
            "response": {
                "status": self.status,
                "headers": self.response_headers,
                "chunks": [_packed(chunk) for chunk in self.chunks],
                "breaks": self.breaks,
            },
        }

    @staticmethod
    def from_json(value: Any) -> Interaction:
        """Return what `to_json` has made."""
        request, response = value["request"], value["response"]
        return Interaction(
            method=request["method"],
            url=request["url"],
            request_headers=request["headers"],
            body=_unpacked(request["body"]),
            status=response["status"],
            response_headers=response["headers"],
            chunks=tuple(_unpacked(chunk) for chunk in response["chunks"]),
            breaks=response["breaks"],
        )


class Player:
    """Answers requests with what was recorded. Requests that are equal are answered in order.

    Args:
        path: the recording.
        scrubber: as when it was recorded.

    Raises:
        CassetteMismatch: there is no recording, or it has another form.
    """

    def __init__(self, path: Path, scrubber: Scrubber) -> None:
        self._path = path
        self._scrubber = scrubber
        self._lock = threading.Lock()
        self._left = list(_loaded(path))
        self.n_replayed = 0
        """How many requests were answered."""

    @property
    def left(self) -> tuple[Interaction, ...]:
        """What was recorded and not asked for yet."""
        return tuple(self._left)

    def handle(self, request: Any, body: bytes, send: Send) -> Any:
        """See `Interceptor`."""
        return self._answer(request, body)

    async def handle_async(self, request: Any, body: bytes, send: AsyncSend) -> Any:
        """See `Interceptor`."""
        return self._answer(request, body)

    def _answer(self, request: Any, body: bytes) -> Any:
        headers = list(request.headers.multi_items())
        self._scrubber.learn(headers, str(request.url))
        with contextlib.suppress(UnreadableBody):  # such a one was not recorded
            body = readable(body, headers, "the request")
        self._scrubber.learn_body(body)
        found = self._found(request.method, self._scrubber.url(str(request.url)), body)
        chunks = _Replayed(request, found)
        return response_of(request, found.status, found.response_headers.items(), chunks)

    def _found(self, method: str, url: str, data: bytes) -> Interaction:
        body = self._scrubber.data(data)
        with self._lock:
            for index, each in enumerate(self._left):
                if (each.method, each.url, each.body) == (method, url, body):
                    self.n_replayed += 1
                    return self._left.pop(index)
            near = [each for each in self._left if (each.method, each.url) == (method, url)]
        raise CassetteMismatch(self._explained(f"{method} {url}", near, body))

    def _explained(self, name: str, near: Sequence[Interaction], body: bytes) -> str:
        where = f"{name}, request {self.n_replayed + 1} of {self._path}"
        if not near:
            left = ", ".join(each.name for each in self._left) or "nothing"
            return f"{where}, was not recorded; what is left of the recording: {left}"
        return f"{where}, is not what was recorded:\n{difference(near[0].body, body)}"


class Recorder:
    """Sends requests on, and keeps what was said. Nothing is written before `save`.

    Args:
        path: where it is written to.
        scrubber: takes the secrets out.
    """

    def __init__(self, path: Path, scrubber: Scrubber) -> None:
        self._path = path
        self._scrubber = scrubber
        self._lock = threading.Lock()
        self._recorded: list[_Recorded] = []

    def handle(self, request: Any, body: bytes, send: Send) -> Any:
        """See `Interceptor`."""
        kept = self._begun(request, body)
        return kept.taped(send())

    async def handle_async(self, request: Any, body: bytes, send: AsyncSend) -> Any:
        """See `Interceptor`."""
        kept = self._begun(request, body)
        return kept.taped(await send())

    def save(self) -> None:
        """Write what was recorded. Requests that failed before a response are left out.

        Raises:
            SecretInStream, UnreadableBody: nothing is written.
        """
        for kept in self._recorded:
            kept.teach(self._scrubber)
        found = [kept.interaction(self._scrubber) for kept in self._recorded]
        value = {
            "version": _VERSION,
            "interactions": [each.to_json() for each in found if each is not None],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, indent=1, ensure_ascii=False)
        self._path.write_text(self._scrubber.text(text) + "\n", "utf-8")

    def _begun(self, request: Any, body: bytes) -> _Recorded:
        headers = list(request.headers.multi_items())
        self._scrubber.learn(headers, str(request.url))
        # What is compressed can be neither read nor searched for secrets.
        request.headers["accept-encoding"] = "identity"
        kept = _Recorded(request, headers, body)
        with self._lock:
            self._recorded.append(kept)
        return kept


class _Recorded:
    """One interaction while it happens. The body of its response is also iterated over by it."""

    def __init__(self, request: Any, headers: list[tuple[str, str]], body: bytes) -> None:
        self._request = request
        self._headers = headers
        self._body = body
        self._response: Any = None
        self._chunks: list[bytes] = []
        self._breaks: str | None = None

    def taped(self, response: Any) -> Any:
        """Return the response with a body that is kept as it is read."""
        self._response = response
        headers = response.headers.multi_items()
        return response_of(self._request, response.status_code, headers, self)

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._response.stream:
                self._chunks.append(chunk)
                yield chunk
        except Exception as error:
            self._breaks = type(error).__name__
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.stream:
                self._chunks.append(chunk)
                yield chunk
        except Exception as error:
            self._breaks = type(error).__name__
            raise

    def close(self) -> None:
        """Close the real response."""
        self._response.stream.close()

    async def aclose(self) -> None:
        """Close the real response."""
        await self._response.stream.aclose()

    def teach(self, scrubber: Scrubber) -> None:
        """Let a scrubber see the secrets that have names in the bodies."""
        scrubber.learn_body(self._request_body(scrubber))
        if self._response is not None:
            scrubber.learn_body(self._response_body(scrubber))

    def interaction(self, scrubber: Scrubber) -> Interaction | None:
        """Return it without secrets; None if there was no response."""
        if self._response is None:
            return None
        whole = self._response_body(scrubber)
        clean = scrubber.data(whole)
        # A secret may lie across a border of chunks: then those are lost, and not the secret.
        is_same = clean == b"".join(self._chunks)
        chunks = tuple(self._chunks) if is_same else tuple(clean.splitlines(keepends=True))
        if any(scrubber.text(text) != text for text in joined_texts(clean)):
            raise SecretInStream(
                f"the answer to {scrubber.url(str(self._request.url))} spells a secret over "
                "several events, so it cannot be taken out; let the model not repeat it, or make "
                "the pattern narrower"
            )
        return Interaction(
            method=self._request.method,
            url=scrubber.url(str(self._request.url)),
            request_headers=scrubber.request_headers(self._headers),
            body=scrubber.data(self._request_body(scrubber)),
            status=self._response.status_code,
            response_headers=scrubber.response_headers(self._response.headers.multi_items()),
            chunks=chunks,
            breaks=self._breaks,
        )

    def _request_body(self, scrubber: Scrubber) -> bytes:
        url = scrubber.url(str(self._request.url))
        return readable(self._body, self._headers, f"the request to {url}")

    def _response_body(self, scrubber: Scrubber) -> bytes:
        url = scrubber.url(str(self._request.url))
        headers = self._response.headers.multi_items()
        return readable(b"".join(self._chunks), headers, f"the answer to {url}")


class _Replayed:
    """The body of a response as it was recorded."""

    def __init__(self, request: Any, interaction: Interaction) -> None:
        self._request = request
        self._interaction = interaction

    def __iter__(self) -> Iterator[bytes]:
        yield from self._interaction.chunks
        self._end()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._interaction.chunks:
            yield chunk
        self._end()

    def close(self) -> None:
        """There is nothing to close."""

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _end(self) -> None:
        if self._interaction.breaks is not None:
            raise error_of(self._request, self._interaction.breaks, "it broke off when recorded")


def _loaded(path: Path) -> Iterator[Interaction]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CassetteMismatch(
            f"there is no recording {path}; make it with a real key: pytest --agentkit-record=new"
        ) from None
    if value.get("version") != _VERSION:
        raise CassetteMismatch(
            f"{path} has version {value.get('version')!r} and not {_VERSION}; record it again: "
            "pytest --agentkit-record=all"
        )
    return (Interaction.from_json(each) for each in value["interactions"])


def _packed(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _unpacked(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
