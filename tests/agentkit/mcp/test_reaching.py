"""From an agent to its servers' prompts and resources, and the words of mistakes on the way."""

from __future__ import annotations

import pytest
from mcp.server import MCPServer

import agentkit
from agentkit import Agent, ConfigurationError, McpRequestError, McpServer
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
