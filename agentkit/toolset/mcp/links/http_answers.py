"""Answers of HTTP that stand for answers of MCP, and bodies that are read only so far."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx2

_ERROR_BYTES = 64 * 1024
"""How much of the body of an error is read."""


class _Bounded(httpx2.AsyncByteStream):
    """The decoded body of a response, up to a limit. Its errors fail the one request it answers."""

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        self._response = response
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_bytes = 0
        try:
            async for part in self._response.aiter_bytes():
                n_bytes += len(part)
                if n_bytes > self._limit:
                    raise httpx2.StreamError(f"an answer above the limit of {self._limit} bytes")
                yield part
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise httpx2.StreamError(f"the answer broke off ({type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._response.aclose()


def bounded(request: httpx2.Request, response: httpx2.Response, limit: int) -> httpx2.Response:
    """Return a response whose decoded body fails above so many bytes."""
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(name, text) for name, text in response.headers.multi_items() if name not in dropped]
    return httpx2.Response(
        response.status_code, headers=headers, stream=_Bounded(response, limit), request=request
    )


async def start_of(response: httpx2.Response) -> bytes:
    """Return the start of a body, enough for any error; empty if it cannot be read."""
    body = b""
    try:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > _ERROR_BYTES:
                break
    except (httpx2.TransportError, httpx2.DecodingError):
        return b""
    finally:
        await response.aclose()
    return body


def rpc_error(body: bytes) -> dict[str, object] | None:
    """The JSON-RPC error that a body holds, if it holds one."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    match value:
        case {"error": {"code": int(code), "message": str(message)} as error}:
            told = {"code": code, "message": message, "data": error.get("data")}
            return {"jsonrpc": "2.0", "id": None, "error": told}
        case _:
            return None


def answer(request: httpx2.Request, status: int, code: int, problem: str) -> httpx2.Response:
    """Return a response that fails the request it answers with a code and a message."""
    error = {"code": code, "message": problem}
    return httpx2.Response(
        status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request
    )
