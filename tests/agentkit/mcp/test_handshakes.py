"""Servers of before 2026 over HTTP, as others have written them, refuse the modern probe."""

from __future__ import annotations

import json
import sys
from collections.abc import MutableMapping
from typing import Any

import pytest
from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agentkit import McpServer
from agentkit.toolset import McpConnectError, ToolContext
from tests.agentkit.at_url import at_url


def old_server() -> ASGIApp:
    server = MCPServer("old")

    @server.tool(structured_output=False)
    def echo(text: str) -> str:
        """Say it again."""
        return text

    return server.streamable_http_app()


class Refusing:
    """Answers what comes before the handshake as it likes, and knows no modern protocol."""

    def __init__(self, app: ASGIApp, refusal: Response) -> None:
        self._app = app
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        is_first = "mcp-session-id" not in request.headers
        if is_first and json.loads(body)["method"] != "initialize":
            await self._refusal(scope, receive, send)
            return

        messages: list[MutableMapping[str, Any]] = [
            {"type": "http.request", "body": body, "more_body": False}
        ]

        async def again() -> MutableMapping[str, Any]:
            return messages.pop() if messages else await receive()

        await self._app(scope, again, send)


def json_rpc(code: int, message: str, status: int) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return JSONResponse(error, status)


@pytest.mark.parametrize(
    "refusal",
    [
        json_rpc(-32000, "Bad Request: Server not initialized", 400),
        json_rpc(-32600, "Bad Request: No valid session ID provided", 400),
        json_rpc(-32601, "Method not found", 404),
        PlainTextResponse("Bad Request", 400),
        PlainTextResponse("not here", 404),
    ],
    ids=["not-initialized", "no-session", "no-method", "text", "missing"],
)
async def test_the_old_handshake_follows_whatever_the_refusal_looks_like(
    refusal: Response, context: ToolContext[None]
) -> None:
    """`server-everything` over HTTP gives the code by which the SDK says that all is closed."""
    async with at_url(Refusing(old_server(), refusal)) as url:
        async with McpServer(alias="old", url=url).connect() as connection:
            (echo,) = connection.tools
            assert (await echo.call({"text": "hello"}, context)).content == "hello"


async def test_a_tool_whose_arguments_cannot_go_into_headers_is_left_out_over_http() -> None:
    """The protocol wants that, and that the other tools are kept."""
    server = MCPServer("headers")
    good = {"type": "string", "x-mcp-header": "Region"}
    bad = {"type": "string", "x-mcp-header": "no header"}

    def add(name: str, schema: dict[str, Any]) -> None:
        def act(region: str) -> str:
            """Act."""
            return region

        server.add_tool(act, name=name)
        tool = server._tool_manager.get_tool(name)
        assert tool is not None
        tool.parameters["properties"]["region"] = schema

    add("good", good)
    add("bad", bad)
    async with at_url(server.streamable_http_app()) as url:
        async with McpServer(alias="h", url=url).connect() as connection:
            assert [each.original_name for each in connection.tools] == ["good"]
            assert any("'bad' was left out: its x-mcp-header" in e for e in connection.warnings)


async def test_a_program_that_prints_and_hangs_is_quoted() -> None:
    program = "import sys, time; print('hello', flush=True); time.sleep(60)"
    server = McpServer(
        alias="a", command=[sys.executable, "-S", "-c", program], connect_timeout_s=1
    )
    with pytest.raises(McpConnectError, match=r"did not come up .* the first is 'hello'"):
        async with server.connect():
            pass
