"""Questions of MCP servers at the terminal and as options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
import typer
from mcp.server import MCPServer
from mcp.server.mcpserver import Elicit, Resolve
from pydantic import BaseModel

from agentkit import Agent, Answered, ApprovalRequired, Approve, Deny, McpServer, PausedRun, tool
from agentkit.cli import answers
from agentkit.cli.answers import given_answers, pending_text
from agentkit.cli.running import _options_for
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset.caller import Accept, Question


class Size(BaseModel):
    size: int


def which() -> Elicit[Size]:
    return Elicit("Which size?", Size)


def buy(size: Annotated[Size, Resolve(which)]) -> str:
    """Buy."""
    return f"size {size.size}"


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@pytest.fixture
async def paused() -> PausedRun:
    server = MCPServer("shop")
    server.add_tool(buy)
    shop = McpServer(alias="shop", server=server, elicits=True)
    model = ScriptedModel([[Call("shop__buy"), Call("pay")], "Done."])
    with pytest.raises(ApprovalRequired) as caught:
        await Agent(name="buyer", model=model, tools=[shop, pay]).run("Go.")
    return caught.value.paused


async def test_options_answer_questions_with_json_and_calls_with_text(paused: PausedRun) -> None:
    asks, waits = paused.pending
    assert given_answers(paused, ["all"], [], []) == {waits.id: Approve()}
    assert given_answers(paused, [], ["all"], []) == {asks.id: Deny(), waits.id: Deny()}
    for key in (asks.id, asks.call.id):
        assert given_answers(paused, [], [], [f'{key}={{"size": 3}}']) == {key: Accept({"size": 3})}
    assert given_answers(paused, [], [], [f"{waits.id}=done"]) == {waits.id: Answered("done")}
    with pytest.raises(typer.Exit):
        given_answers(paused, [], [], [f"{asks.id}=three"])
    assert _options_for(paused) == " --approve ID, --answer ID=JSON, or --deny ID=REASON"


async def test_a_question_is_shown_with_its_fields_as_the_servers_words(paused: PausedRun) -> None:
    text = pending_text(paused.pending[0])
    assert text.startswith("buyer: server shop asks (call of shop__buy): Which size?\n")
    assert "\n  size (required): " in text
    assert "integer" in text


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[str]:
    rest: Iterator[str] = iter(lines)
    said: list[str] = []
    monkeypatch.setattr(answers, "ask_line", lambda prompt: next(rest, None))
    monkeypatch.setattr(answers, "say", said.append)
    return said


async def test_at_a_terminal_values_are_asked_for_until_they_fit(
    paused: PausedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks, waits = paused.pending
    said = typed(monkeypatch, "big", '{"size": "big"}', '{"size": 3}', "yes")
    assert answers._asked(paused) == {asks.id: Accept({"size": 3}), waits.id: Approve()}
    assert "that is no JSON object" in said
    assert any("type: 'integer'" in line for line in said)

    typed(monkeypatch, "no", "")
    assert answers._asked(paused) == {asks.id: Deny()}
    typed(monkeypatch)
    assert answers._asked(paused) == {}


@pytest.mark.parametrize(
    ("word", "answer"), [("yes", Accept()), ("not now", Deny("not now")), ("", None)]
)
def test_a_page_to_visit_is_agreed_to_or_not(
    word: str, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, word)
    question = Question(server="bank", text="Sign in", url="https://bank.test")
    assert answers._asked_values(question) == answer
