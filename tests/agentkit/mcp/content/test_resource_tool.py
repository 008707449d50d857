"""A tool of ours that reads a server's resources."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import MCPServer

from agentkit import Agent, McpServer
from agentkit.blocks import ToolMessage
from agentkit.errors import ApprovalRequired
from agentkit.result import RunRecord
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import ToolPolicy
from agentkit.toolset.mcp import McpConnection
from tests.agentkit.mcp.content.shelf import Shelf


def results(record: RunRecord) -> list[tuple[bool, str]]:
    messages = [each for each in record.messages if isinstance(each, ToolMessage)]
    return [(result.is_error, result.content) for each in messages for result in each.results]


def reading(shelf: Shelf, *uris: object, **options: Any) -> tuple[Agent, ScriptedModel]:
    calls = [Call("docs__read_resource", {"uri": uri}) for uri in uris]
    model = ScriptedModel([*calls, "done"])
    server = McpServer(alias="docs", server=shelf.server, resource_tool=True, **options)
    return Agent(model=model, tools=[server]), model


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_model_reads_a_resource_by_its_uri(shelf: Shelf, protocol: str) -> None:
    shelf.texts = {"a://1": "one"}
    agent, model = reading(shelf, "a://1", "b://2", "", 3, protocol=protocol)
    read, refused, empty, number = results(await agent.run("x"))
    assert model.calls[0].request.toolset.names == ("docs__read_resource",)
    assert not read[0]
    assert read[1].endswith("one")
    assert all(is_error for is_error, _ in (refused, empty, number))
    assert "not found" in refused[1]
    assert "'uri'" in empty[1]


async def test_it_has_a_policy_and_limits_like_any_other(shelf: Shelf) -> None:
    shelf.texts = {"a://1": "x" * 5_000}
    policies = {"read_resource": ToolPolicy(requires_approval=True)}
    agent, _ = reading(shelf, "a://1", policies=policies)
    with pytest.raises(ApprovalRequired):
        await agent.run("x")
    agent, _ = reading(shelf, "a://1", max_result_chars=300)
    ((_, text),) = results(await agent.run("x"))
    assert len(text) <= 300


async def test_it_is_not_there_unless_it_is_wanted(connection: McpConnection) -> None:
    assert connection.tools == ()


async def test_a_servers_own_tool_of_that_name_stays() -> None:
    server = MCPServer("own")

    @server.tool()
    def read_resource(name: str) -> str:
        return f"own {name}"

    wanted = McpServer(alias="docs", server=server, resource_tool=True)
    async with wanted.connect() as connection:
        (tool,) = connection.tools
        assert set(tool.spec.parameters["properties"]) == {"name"}  # type: ignore[call-overload]
        assert "of its own" in connection.warnings[0]
        assert (await connection.call("read_resource", {"name": "x"})).content == "own x"
