"""Well-behaved servers of the SDK over every transport, for the tests of links."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from agentkit.toolset import McpServer

Serve = Callable[..., AbstractAsyncContextManager[str]]
"""`async with serve(app, port=0) as address`: an ASGI app on a loopback port."""

Reach = Callable[..., AbstractAsyncContextManager[McpServer]]
"""`async with reach(server_object, **options) as server`: how to reach it over a transport."""


def honest() -> MCPServer:
    """A server whose tools do what is asked of them."""
    server = MCPServer("honest", version="1")

    @server.tool()
    async def echo(text: str) -> str:
        return text

    @server.tool()
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    async def work(n_steps: int, pause_s: float, ctx: Context[Any, Any]) -> str:
        for step in range(n_steps):
            await asyncio.sleep(pause_s)
            await ctx.report_progress(step + 1, n_steps, f"step {step + 1}")
        return "done"

    @server.tool()
    async def large(n_chars: int) -> str:
        return "x" * n_chars

    @server.tool()
    async def change(ctx: Context[Any, Any]) -> str:
        server.add_tool(echo, name="one_more")
        if ctx.protocol_version == "2026-07-28":
            await ctx.notify_tools_changed()
        else:
            await ctx.session.send_tool_list_changed()
        return "changed"

    @server.tool()
    async def log(ctx: Context[Any, Any]) -> str:
        await ctx.info("a line of the log")
        return "logged"

    return server


class _Uvicorn(uvicorn.Server):
    """A server that says when it is up, and leaves the signals of the test run alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@asynccontextmanager
async def _serve(app: Any, port: int = 0) -> AsyncIterator[str]:
    listening = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0)
    server = _Uvicorn(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with asyncio.timeout(20):
            await server.is_up.wait()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await serving
        # What streams is not waited for when a server is made to go; nor may it linger.
        tasks = list(server.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        listening.close()


@pytest.fixture
def serve() -> Serve:
    return _serve


@pytest.fixture
def honest_server() -> Callable[[], MCPServer]:
    return honest


@asynccontextmanager
async def _reach_http(server: MCPServer, **options: Any) -> AsyncIterator[McpServer]:
    app_options = {
        name: options.pop(name) for name in ("json_response", "stateless_http") if name in options
    }
    async with _serve(server.streamable_http_app(**app_options)) as address:
        yield McpServer(alias="peer", url=f"{address}/mcp", **options)


@asynccontextmanager
async def _reach_sse(server: MCPServer, **options: Any) -> AsyncIterator[McpServer]:
    async with _serve(server.sse_app()) as address:
        yield McpServer(alias="peer", url=f"{address}/sse", transport="sse", **options)


@asynccontextmanager
async def _reach_memory(server: MCPServer, **options: Any) -> AsyncIterator[McpServer]:
    yield McpServer(alias="peer", server=server, **options)


_WAYS: dict[str, Reach] = {
    "memory": _reach_memory,
    "http": _reach_http,
    "sse": _reach_sse,
}


@pytest.fixture(params=["memory", "http", "sse"])
def reach(request: pytest.FixtureRequest) -> Reach:
    """Every transport in turn, but stdio: starting the SDK anew takes seconds."""
    return _WAYS[request.param]


@pytest.fixture
def reach_over() -> Callable[[str], Reach]:
    return lambda way: _WAYS[way]
