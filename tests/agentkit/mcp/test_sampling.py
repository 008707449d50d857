"""Servers that want words of the agent's model: with leave, at the run's expense, and beside it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent

from agentkit import Agent, Limits, McpServer, ModelError, ToolContext, Usage
from agentkit.blocks import AssistantMessage, Text, UserMessage
from agentkit.testing import Call, Reply, Say, ScriptedModel, assert_prefix_stable
from agentkit.toolset.caller import Declined, Sampled, SamplingRequest
from agentkit.toolset.mcp.calls.asking import Asking, Refused
from tests.agentkit.tool_results import result_texts

ERAS = pytest.mark.parametrize("protocol", ["auto", "legacy"])


def haiku() -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text="A haiku."))
    return Sample([message], max_tokens=50, system_prompt="You write verse.")


def poets() -> MCPServer:
    server = MCPServer("poets")

    @server.tool()
    def recite(verse: Annotated[CreateMessageResult, Resolve(haiku)]) -> str:
        """Recite."""
        assert isinstance(verse.content, TextContent)
        return f"{verse.content.text} ({verse.stop_reason}, {verse.model})"

    return server


class Patron(Agent[None, str]):
    """You listen."""

    asked: tuple[SamplingRequest, ...] = ()

    async def approve_sampling(self, request: SamplingRequest, context: ToolContext[Any]) -> bool:
        self.asked = (*self.asked, request)
        return True


def patron(model: ScriptedModel, protocol: Any = "auto", **more: Any) -> Patron:
    server = McpServer(alias="poets", server=poets(), protocol=protocol, samples=True)
    return Patron(model=model, name="patron", tools=[server], **more)


@ERAS
async def test_the_agents_model_writes_for_a_server_beside_the_conversation(protocol: Any) -> None:
    model = ScriptedModel(
        {"patron": [Call("poets__recite"), "Lovely."], "patron.poets": ["An old pond"]}
    )
    agent = patron(model, protocol)
    result = await agent.run("Go.")

    assert result_texts(result) == [f"An old pond (endTurn, {model.label})"]
    (request,) = agent.asked
    assert request == SamplingRequest(
        server="poets",
        messages=(UserMessage.of("A haiku."),),
        system="You write verse.",
        max_tokens=50,
    )
    first, aside, second = (call.request for call in model.calls)
    assert [aside.settings.max_tokens, len(aside.toolset), aside.output_schema] == [50, 0, None]
    assert (aside.reuse.again, aside.reuse.front_again) == (False, False)
    assert aside.session != first.session
    assert second.context.starts_with(first.context)
    assert b"haiku" not in second.wire
    assert_prefix_stable([model.calls[0], model.calls[2]])


@ERAS
async def test_what_a_server_has_written_is_on_the_runs_bill_and_under_its_limits(
    protocol: Any,
) -> None:
    used = Usage(input_tokens=10, output_tokens=90)
    script: Any = {
        "patron": [Call("poets__recite"), "Lovely."],
        "patron.poets": [Reply(parts=(Say("An old pond"),), usage=used)],
    }
    result = await patron(ScriptedModel(script), protocol).run("Go.")
    assert len(result.requests) == 3
    assert sum(request.usage.output_tokens or 0 for request in result.requests) >= 90
    assert [request.is_turn for request in result.requests].count(True) == 2


@ERAS
async def test_without_the_agents_leave_the_model_is_not_asked_and_the_call_is_an_error(
    protocol: Any,
) -> None:
    model = ScriptedModel([Call("poets__recite"), "Pity."])
    server = McpServer(alias="poets", server=poets(), protocol=protocol, samples=True)
    result = await Agent(model=model, name="patron", tools=[server]).run("Go.")
    (told,) = result_texts(result)
    assert "does not allow that" in told
    assert len(model.calls) == 2


@ERAS
async def test_without_the_setting_a_server_is_not_told_that_it_could(protocol: Any) -> None:
    model = ScriptedModel([Call("poets__recite"), "Pity."])
    server = McpServer(alias="poets", server=poets(), protocol=protocol)
    result = await Patron(model=model, name="patron", tools=[server]).run("Go.")
    assert "error" in result_texts(result)[0].lower()
    assert len(model.calls) == 2


async def test_a_model_that_fails_for_a_server_fails_the_call_and_not_the_run() -> None:
    script: Any = {
        "patron": [Call("poets__recite"), "Pity."],
        "patron.poets": [ModelError("overloaded")],
    }
    result = await patron(ScriptedModel(script)).run("Go.")
    assert "the model failed" in result_texts(result)[0]
    assert result.output == "Pity."


async def test_a_limit_that_is_used_up_is_said_to_the_server() -> None:
    script: Any = {"patron": [Call("poets__recite"), "Pity."]}
    agent = patron(ScriptedModel(script), limits=Limits(output_tokens=1))
    with pytest.raises(Exception, match="output_tokens"):
        await agent.run("Go.")


MESSAGES = [{"role": "user", "content": {"type": "text", "text": "hi"}}]


class Model:
    """A caller that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[SamplingRequest] = []

    async def sample(self, request: SamplingRequest) -> Sampled | Declined:
        self.asked.append(request)
        return Sampled(text="said", model="m", is_cut=True)


async def asked(params: dict[str, Any]) -> tuple[dict[str, object], SamplingRequest]:
    model: Any = Model()
    asking = Asking(McpServer(alias="poets", command=["x"], samples=True), model)
    answer = await asking.answer("sampling/createMessage", params, kept=None)
    return answer, model.asked[0]


async def test_a_request_is_read_leniently_and_bounded() -> None:
    answer, request = await asked(
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a\ud800"}]},
                {"role": "assistant", "content": {"type": "text", "text": "b"}},
                *MESSAGES,
            ],
            "maxTokens": 10**9,
            "temperature": 7,
            "stopSequences": ["", "x", 5],
            "systemPrompt": 3,
        }
    )
    assert answer["stopReason"] == "maxTokens"
    assert request.max_tokens == 4096
    assert request.stop == ("x",)
    assert request.messages == (
        UserMessage.of("a?"),
        AssistantMessage((Text("b"),)),
        UserMessage.of("hi"),
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "no messages"),
        ({"messages": "hi"}, "no messages"),
        ({"messages": [5]}, "is none"),
        ({"messages": [{"role": "user", "content": {"type": "audio"}}]}, "'audio'"),
        (
            {"messages": [{"role": "user", "content": {"type": "image", "data": "AAAA"}}]},
            "image that is none",
        ),
        ({"messages": MESSAGES, "tools": [{"name": "x"}]}, "tools"),
        (
            {"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 300_000}}]},
            "longer than",
        ),
    ],
)
async def test_a_request_that_cannot_be_put_to_a_model_is_refused(
    params: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        await asked(params)


async def test_one_call_may_ask_only_so_often() -> None:
    model: Any = Model()
    asking = Asking(McpServer(alias="poets", command=["x"], samples=True), model)
    for _ in range(20):
        await asking.answer("sampling/createMessage", {"messages": MESSAGES}, kept=None)
    with pytest.raises(Refused, match="20 times"):
        await asking.answer("sampling/createMessage", {"messages": MESSAGES}, kept=None)
