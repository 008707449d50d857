"""Answers of HTTP that stand for answers of MCP, and what an error status says."""

from __future__ import annotations

import asyncio
import json

import httpx2

from agentkit.toolset.mcp.links.transport import code_of_theirs

_ERROR_BYTES = 64 * 1024
"""How much of the body of an error is read."""

_ERROR_S = 1.0
"""How long the body of an error is read."""


async def start_of(response: httpx2.Response) -> bytes:
    """Return the start of a body, enough for any error; empty if it cannot be read. What has not
    come in a second is not waited for."""
    body = b""
    try:
        async with asyncio.timeout(_ERROR_S):
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _ERROR_BYTES:
                    break
    except TimeoutError:
        return body
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
            told = {"code": code_of_theirs(code), "message": message, "data": error.get("data")}
            return {"jsonrpc": "2.0", "id": None, "error": told}
        case _:
            return None


def message_of(error: dict[str, object]) -> str:
    """The server's own words in such an error."""
    told = error["error"]
    return str(told["message"])[:500] if isinstance(told, dict) else ""


def answer(request: httpx2.Request, status: int, code: int, problem: str) -> httpx2.Response:
    """Return a response that fails the request it answers with a code and a message."""
    error = {"code": code, "message": problem}
    return httpx2.Response(
        status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request
    )
