"""A program's own hook that fails at what a server asks: no word of it reaches server or model."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

from agentkit import Accept, Agent, ApprovalRequired, McpServer, Question
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import ToolContext
from agentkit.toolset.caller import SamplingRequest
from tests.agentkit.tool_results import result_texts


class Size(BaseModel):
    size: str


def which_size() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def haiku() -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="A haiku."))
    return Sample([message], max_tokens=50)


class Failing(Agent[None, str]):
    """You fail."""

    async def elicit(self, question: Question, context: ToolContext[Any]) -> None:
        raise KeyError("s3cret")

    async def approve_sampling(self, request: SamplingRequest, context: ToolContext[Any]) -> bool:
        raise KeyError("s3cret")


def shop(protocol: Any) -> McpServer:
    server = MCPServer("shop")

    @server.tool()
    def buy(size: Annotated[Size, Resolve(which_size)]) -> str:
        """Buy."""
        return f"bought size {size.size}"

    @server.tool()
    def recite(verse: Annotated[CreateMessageResult, Resolve(haiku)]) -> str:
        """Recite."""
        return "recited"

    return McpServer(alias="shop", server=server, protocol=protocol, elicits=True, samples=True)


async def test_a_question_at_which_the_agent_fails_waits_for_a_person(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel([Call("shop__buy"), "Done."])
    agent = Failing(model=model, name="buyer", tools=[shop("auto")])
    with pytest.raises(ApprovalRequired) as caught:
        await agent.run("Go.")
    paused = caught.value.paused
    result = await agent.resume(paused, {paused.pending[0].id: Accept({"size": "M"})})
    assert result_texts(result) == ["bought size M"]
    assert "agent 'buyer': elicit failed at a question of MCP server 'shop'" in caplog.text
    assert "KeyError: 's3cret'" in caplog.text  # with its traceback, for who runs the program


async def test_an_old_server_hears_no_and_nothing_of_the_failure() -> None:
    model = ScriptedModel([Call("shop__buy"), "Done."])
    result = await Failing(model=model, tools=[shop("legacy")]).run("Go.")
    (told,) = result_texts(result)
    assert "There is no answer: nobody could be asked" in told
    assert "s3cret" not in told


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_leave_to_ask_the_model_at_which_the_agent_fails_is_not_given(
    protocol: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel([Call("shop__recite"), "Done."])
    result = await Failing(model=model, tools=[shop(protocol)]).run("Go.")
    (told,) = result_texts(result)
    assert "does not allow that" in told
    assert "s3cret" not in told
    assert "approve_sampling failed at a request of MCP server 'shop'" in caplog.text
    assert len(model.calls) == 2
