"""From an agent to its servers' prompts and resources, and the words of mistakes on the way."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from mcp.server import MCPServer

import agentkit
from agentkit import Agent, ConfigurationError, McpConnectError, McpRequestError, McpServer
from agentkit.testing import ScriptedModel


def shop() -> McpServer:
    server = MCPServer("shop")

    @server.prompt()
    def order(item: str, pieces: str = "1") -> str:
        """Order an item."""
        return f"Order {pieces} {item}."

    return McpServer(alias="shop", server=server)


async def test_an_open_agent_has_the_connections_of_its_team() -> None:
    below = Agent(model=ScriptedModel([]), name="below", tools=[shop()], instructions="You order.")
    agent = Agent(model=ScriptedModel(["Ordered."]), name="clerk", subagents=[below])
    with pytest.raises(ConfigurationError, match="async with agent"):
        agent.mcp_connection("shop")
    async with agent:
        prompt = await agent.mcp_connection("shop").prompt("order", {"item": "tea"})
        with pytest.raises(ConfigurationError, match=r"'shp'; there are: 'shop'"):
            agent.mcp_connection("shp")
        with pytest.raises(ConfigurationError, match=r"PromptText: agent\.run\(prompt\.text\)"):
            await agent.run(prompt)  # type: ignore[arg-type]
        assert (await agent.run(prompt.text)).output == "Ordered."


async def test_a_missing_argument_of_a_prompt_is_said_by_its_name() -> None:
    async with shop().connect() as connection:
        with pytest.raises(McpRequestError, match=r"'order' requires the argument 'item'; nothing"):
            await connection.prompt("order", {"pieces": "2"})
        with pytest.raises(McpRequestError, match="shop"):
            await connection.prompt("unknown")


def test_an_agent_without_servers_names_none_and_others_words_have_a_hint() -> None:
    with pytest.raises(ConfigurationError, match="did you mean tools="):
        Agent(mcp_servers=[shop()])  # type: ignore[call-arg]


def test_the_errors_of_servers_can_be_caught_by_their_names() -> None:
    assert {"McpConnectError", "McpRequestError"} <= set(agentkit.__all__)
    assert issubclass(agentkit.McpConnectError, agentkit.AgentkitError)


async def test_a_tool_is_called_by_either_of_its_names_the_servers_own_first() -> None:
    server = MCPServer("s")

    @server.tool(name="find")
    def find() -> str:
        """Find it."""
        return "found"

    @server.tool(name="s__find")
    def other() -> str:
        """Find something else."""
        return "something else"

    async with McpServer(alias="s", server=server).connect() as connection:
        names = ("find", "s__find", "s__s__find")
        said = [(await connection.call(name, {})).content for name in names]
        assert said == ["found", "something else", "something else"]
        tool = connection.tools[0]
        assert (tool.name, tool.description) == ("s__find", "Find it.")


async def test_a_connection_that_was_never_entered_says_how_to() -> None:
    connection = shop().connect()
    with pytest.raises(McpConnectError, match="async with server"):
        _ = connection.tools
    with pytest.raises(McpConnectError, match="async with server"):
        await connection.prompts()
    assert "async with" in (await connection.call("price", {})).content


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"name": "a", "command": ["x"]}, "no setting 'name'; write alias="),
        ({"alias": "a", "command": ["x"], "args": ["y"]}, "'args'; write command=."),
        ({"alias": "a", "command": ["x"], "enf": {}}, "'enf'; write env="),
        ({"alias": "a", "command": ["x"], "foo": 1}, "'foo'; docs/mcp.md"),
        ({"alias": "a", "url": "localhost:80/mcp"}, "this one has no scheme"),
        ({"alias": "a", "url": "https://a/mcp", "transport": "http"}, "what others call http"),
    ],
)
def test_a_setting_by_others_words_says_what_to_write(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        McpServer(**given)


def test_a_server_is_described_by_keywords_and_can_be_copied() -> None:
    with pytest.raises(ValueError, match="keywords only"):
        McpServer(["python", "server.py"])  # type: ignore[misc]
    server = McpServer(alias="a", command=["x"])
    assert copy.copy(server) == server
    assert replace(server, required=False).required is False
