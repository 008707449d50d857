"""A served agent whose own MCP server asks: the question goes on to the client's user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from mcp_types import ElicitResult
from pydantic import BaseModel

from agentkit import Agent, McpServer
from agentkit.testing import Call, ScriptedModel


class Size(BaseModel):
    size: int


def which() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def buyer() -> Agent[Any, Any]:
    server = MCPServer("shop")

    @server.tool()
    def buy(size: Annotated[Size, Resolve(which)]) -> str:
        """Buy."""
        return f"size {size.size}"

    shop = McpServer(alias="shop", server=server, elicits=True)
    model = ScriptedModel(
        lambda request: (
            Call("shop__buy")
            if len(request.context.messages) == 1
            else request.context.messages[-1].results[0].content
        )
    )
    return Agent(model=model, name="buyer", tools=[shop])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"action": "accept", "content": {"size": 3}}, "size 3"),
        (
            {"action": "accept", "content": {"size": 3.5}},
            "values that are asked for were not given",
        ),
        ({"action": "decline"}, "the user was asked, and has not agreed"),
    ],
)
async def test_the_clients_user_fills_in_the_servers_own_form(
    client: Callable[..., Client], said: dict[str, Any], told: str
) -> None:
    asked: list[Any] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult.model_validate(said)

    async with client(buyer(), elicitation_callback=person) as one:
        result = await one.call_tool("ask_buyer", {"prompt": "Buy."})
    (block,) = result.content
    assert told in block.text
    assert asked[0].message == "buyer: shop asks: Which size?"
    assert asked[0].requested_schema["properties"]["size"]["type"] == "integer"
