"""Attachments of tools in a conversation: what fits, what is left out, and that it stays valid."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Image as McpImage

from agentkit import Agent, McpServer, PausedRun, ToolOutput, attaching, subagent, tool
from agentkit.blocks import File, Image, UserMessage
from agentkit.fake import Ask, Reply
from agentkit.fake import Call as FakeCall
from agentkit.models.fallback import FallbackModel
from agentkit.models.showing import shows
from agentkit.result import RunRecord
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld
from tests.agentkit.pictures import pdf, png
from tests.agentkit.tool_results import tool_results

IMAGE = Image.of_bytes(png(10, 10), "image/png")
SIZED = Image(media_type="image/png", data=IMAGE.data, width=10, height=10)


@tool
def draw(side: int = 10) -> Image:
    """Draw."""
    return Image.of_bytes(png(side, side), "image/png")


class Blind(ScriptedModel):
    """A model that reads text only."""

    def shows(self, block: Image | File) -> bool:
        return False


async def test_an_image_becomes_part_of_the_conversation_and_of_its_saved_form() -> None:
    model = ScriptedModel([Call("draw"), "Seen."])
    result = await Agent(model=model, tools=[draw]).run("Go.")
    (told,) = tool_results(result)
    assert told.content == "[image: image/png, attached]"
    assert told.attachments == (
        Image(media_type="image/png", data=IMAGE.data, width=10, height=10),
    )
    assert_prefix_stable(model.calls)
    again = type(result).from_json(result.to_json(), str)
    assert again.context.digest == result.context.digest


async def test_a_model_that_reads_text_only_gets_a_note() -> None:
    model = Blind([Call("draw"), "Pity."])
    (told,) = tool_results(await Agent(model=model, tools=[draw]).run("Go."))
    assert told.attachments == ()
    assert told.content.endswith("[image: image/png, not shown: the model cannot be shown it]")


@pytest.mark.parametrize("how", ["handoffs", "subagents"])
async def test_whoever_may_go_on_with_the_conversation_must_be_able_to_see(how: str) -> None:
    """An image in it would fail all requests of the other one."""
    blind = Agent(name="other", instructions="You read.", model=Blind(["never"], label="blind"))
    others: Any = [subagent(blind, context="fork")] if how == "subagents" else [blind]
    model = ScriptedModel([Call("draw"), "Pity."])
    agent = Agent(name="one", instructions="You draw.", model=model, tools=[draw], **{how: others})
    (told,) = tool_results(await agent.run("Go."))
    assert told.attachments == ()
    assert "cannot be shown" in told.content

    model = ScriptedModel([Call("draw"), "Seen."])
    boss = Agent(name="boss", model=model, tools=[draw], subagents=[blind])
    assert len(tool_results(await boss.run("Go."))[0].attachments) == 1


def test_all_that_may_answer_must_be_able_to_see() -> None:
    sees, blind = ScriptedModel(["a"]), Blind(["b"], label="b")
    assert shows(sees, IMAGE)
    assert not shows(FallbackModel([sees, blind]), IMAGE)
    assert shows(FallbackModel([sees, ScriptedModel(["c"], label="c")]), IMAGE)


@pytest.mark.parametrize(
    ("label", "image", "pdf_too", "gif_too"),
    [
        ("anthropic:claude-sonnet-5-5", True, True, True),
        ("openai:gpt-6.1-sol", True, True, True),
        ("gemini:gemini-3.8-flash", True, True, False),
        ("deepseek:deepseek-flash", False, False, False),
    ],
)
def test_hosted_models_say_what_they_can_be_shown(
    label: str, image: bool, pdf_too: bool, gif_too: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentkit.models import resolve_model

    for key in ("ANTHROPIC", "OPENAI", "GEMINI", "DEEPSEEK"):
        monkeypatch.setenv(f"{key}_API_KEY", "any")
    model = resolve_model(label)
    assert shows(model, IMAGE) is image
    assert shows(model, File.of_bytes(pdf(), "application/pdf", name="a.pdf")) is pdf_too
    assert shows(model, Image(media_type="image/gif", data="R0lG")) is gif_too


async def test_an_image_that_lies_about_itself_is_left_out_of_the_conversation() -> None:
    """A provider would refuse it, and with it every later request."""

    @tool
    def lie() -> ToolOutput:
        """Lie."""
        wrong = Image.of_bytes(b"\x89PNG not really", "image/png")
        return ToolOutput(content="See:", attachments=(wrong, IMAGE))

    model = ScriptedModel([Call("lie"), "Hm."])
    (told,) = tool_results(await Agent(model=model, tools=[lie]).run("Go."))
    assert told.attachments == (SIZED,)
    assert (
        told.content
        == "See:\n[image: image/png, not shown: its bytes are no PNG, JPEG, GIF or WebP]"
    )


async def test_a_conversation_takes_only_so_many_and_so_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of calls at the same time those that end first are shown; in threads it could be any.
    @tool(name="draw")
    async def draw_in_turn() -> Image:
        """Draw."""
        return draw()

    monkeypatch.setattr(attaching, "MOST", 3)
    calls = [Call("draw") for _ in range(5)]
    model = ScriptedModel([calls[:2], calls[:3], "Done."])
    told = tool_results(await Agent(model=model, tools=[draw_in_turn]).run("Go."))
    assert [len(each.attachments) for each in told] == [1, 1, 1, 0, 0]
    assert "has 3 attachments already" in told[3].content

    monkeypatch.setattr(attaching, "MOST_CHARS", len(IMAGE.data or "") * 2)
    model = ScriptedModel([calls[:1], "Done."])
    prompt = UserMessage.of("Go.", IMAGE, IMAGE)
    (one,) = tool_results(await Agent(model=model, tools=[draw_in_turn]).run(prompt))
    assert "too large already" in one.content


async def test_beside_a_large_image_there_is_room_for_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attaching, "MOST_WITH_LARGE", 2)
    calls: list[Any] = [Call("draw"), Call("draw", {"side": 2001}), Call("draw")]
    model = ScriptedModel([*calls, "Done."])
    told = tool_results(await Agent(model=model, tools=[draw]).run("Go."))
    assert [len(each.attachments) for each in told] == [1, 1, 0]


async def test_an_open_turn_with_an_image_comes_back_from_json() -> None:
    @tool(requires_approval=True)
    def wait() -> str:
        """Wait."""
        return "waited"

    from agentkit import ApprovalRequired, Approve

    model = ScriptedModel([[Call("draw"), Call("wait")], "Done."])
    agent = Agent(model=model, name="a", tools=[draw, wait])
    with pytest.raises(ApprovalRequired) as caught:
        await agent.run("Go.")
    paused = PausedRun.from_json(caught.value.paused.to_json())
    assert paused == caught.value.paused
    result = await agent.resume(paused, {paused.pending[0].id: Approve()})
    assert [len(each.attachments) for each in tool_results(result)] == [1, 0]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_image_of_a_servers_tool_goes_on_every_providers_wire_and_stays_there(
    provider: str,
) -> None:
    """MCP images end as each API's own blocks; what cannot be shown is a note instead."""
    server = MCPServer("pad")

    @server.tool()
    def sketch() -> list[str | McpImage]:
        """Sketch."""
        return ["A dot.", McpImage(data=png(10, 10), format="png")]

    def respond(ask: Ask) -> Reply:
        if ask.n_turns == 0:
            return Reply(calls=(FakeCall("pad__sketch", "{}"),))
        return Reply(text="Seen.")

    world = HostedWorld(respond, provider)
    pad = McpServer(alias="pad", server=server)
    agent = Agent(name="a", model=world.model, instructions="You look.", tools=[pad])

    async def talk() -> RunRecord:
        first = await agent.run("Look.")
        return await agent.run("And now?", context=first.context)

    world.run(talk)
    assert len(world.served) == 3
    data = (IMAGE.data or "").encode()
    shown = 0 if provider == "deepseek" else 1
    assert [body.count(data) for body in world.fake.requests] == [0, shown, shown]
    for shorter, longer in itertools.pairwise(world.sent):
        assert longer[: len(shorter)] == shorter
