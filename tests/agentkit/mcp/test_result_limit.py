"""No result is longer than the limit of its server, whatever is added to what the server said."""

from __future__ import annotations

import pytest
from mcp.server import MCPServer

from agentkit.toolset.mcp.server import McpServer


@pytest.mark.parametrize("limit", [20, 100, 300, 1_000])
async def test_what_is_added_to_a_result_counts_too(limit: int) -> None:
    server = MCPServer("long")

    @server.tool()
    def say(kind: str) -> dict[str, object]:
        if kind == "fail":
            raise ValueError("x" * 5_000)
        return {"text": "x" * 5_000}

    config = McpServer(alias="long", server=server, max_result_chars=limit)
    async with config.connect() as connection:
        link = await connection._live_link()
        link.promised.problem_with = lambda *_: "broken"  # type: ignore[method-assign]
        for kind in ("fail", "text"):
            output = await connection.call("say", {"kind": kind})
            assert 0 < len(output.content) <= limit
        assert not output.is_error
        nobody = await connection.call("nobody" * 100, {})
        assert 0 < len(nobody.content) <= limit
