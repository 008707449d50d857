"""A shelf, and a connection to it in each protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agentkit.toolset.mcp import McpConnection, McpServer
from tests.agentkit.mcp.content.shelf import Shelf


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture(params=["auto", "legacy"])
async def connection(shelf: Shelf, request: pytest.FixtureRequest) -> AsyncIterator[McpConnection]:
    server = McpServer(alias="docs", server=shelf.server, protocol=request.param)
    async with server.connect() as connected:
        yield connected
