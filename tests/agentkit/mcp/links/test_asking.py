"""Questions, words of the model, progress and cancellation, over every transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

from agentkit import Accept, Agent, McpServer, Question, SamplingRequest, ToolContext
from agentkit.blocks import ToolMessage
from agentkit.events import ToolProgress
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable

Reach = Callable[..., AbstractAsyncContextManager[McpServer]]


class Size(BaseModel):
    size: int


def which() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def haiku() -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="A haiku."))
    return Sample([message], max_tokens=50)


def shop(cancelled: asyncio.Event, begun: asyncio.Event) -> MCPServer:
    server = MCPServer("shop")

    @server.tool()
    async def buy(size: Annotated[Size, Resolve(which)], context: Context[Any]) -> str:
        """Buy."""
        await context.report_progress(1, 2, "wrapping")
        return f"size {size.size}"

    @server.tool()
    def recite(verse: Annotated[CreateMessageResult, Resolve(haiku)]) -> str:
        """Recite."""
        assert isinstance(verse.content, TextContent)
        return verse.content.text

    @server.tool()
    async def hang() -> str:
        """Hang."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    return server


class Buyer(Agent[None, str]):
    """You buy."""

    async def elicit(self, question: Question, context: ToolContext[Any]) -> Accept:
        return Accept({"size": 3})

    async def approve_sampling(self, request: SamplingRequest, context: ToolContext[Any]) -> bool:
        return True


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_may_ask_and_report_over_every_transport(
    reach: Reach, protocol: Any
) -> None:
    server = shop(asyncio.Event(), asyncio.Event())
    model = ScriptedModel(
        {
            "buyer": [[Call("peer__buy"), Call("peer__recite")], "Done."],
            "buyer.peer": ["An old pond"],
        }
    )
    async with reach(server, protocol=protocol, elicits=True, samples=True) as config:
        async with Buyer(model=model, name="buyer", tools=[config]).stream("Go.") as stream:
            events = [event async for event in stream]
    (message,) = [each for each in stream.result.messages if isinstance(each, ToolMessage)]
    assert [result.content for result in message.results] == ["size 3", "An old pond"]
    assert [event.message for event in events if isinstance(event, ToolProgress)] == ["wrapping"]
    assert_prefix_stable([call for call in model.calls if call.request.agent == "buyer"])


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_hears_of_a_cancelled_call_over_every_transport(
    reach: Reach, protocol: Any
) -> None:
    cancelled, begun = asyncio.Event(), asyncio.Event()
    async with reach(shop(cancelled, begun), protocol=protocol) as config:
        async with config.connect() as connection:
            waiting = asyncio.create_task(connection.call("hang", {}))
            await asyncio.wait_for(begun.wait(), 10)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.wait_for(cancelled.wait(), 10)
