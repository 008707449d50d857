"""Our own agents use served agents: through a process of their own, as any MCP server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agentkit import Agent, McpServer, ToolContext
from agentkit.serving import serve_mcp
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset.caller import Accept, Question
from tests.agentkit.clerks import Log
from tests.agentkit.tool_results import result_texts

APP = '''
import os
from agentkit import Agent, tool
from agentkit.serving import serve_mcp
from agentkit.testing import Call, ScriptedModel

print("an app may print while it is imported")


class Desk(Agent):
    """You answer currency questions."""

    model = ScriptedModel([Call("shout", {}), "4.50 EUR.", "Again 4.50 EUR."])

    @tool
    def shout(self) -> str:
        """Shout."""
        print("a tool may print")
        os.write(1, b"and so may C code\\n")
        return "shouted"
'''


@pytest.fixture
def desk(tmp_path: Path) -> McpServer:
    (tmp_path / "served_app.py").write_text(APP)
    command = [sys.executable, "-m", "agentkit", "mcp", "serve", "served_app:Desk"]
    return McpServer(alias="bank", command=command, cwd=tmp_path, connect_timeout_s=60)


class Asker(Agent):
    """You ask the bank."""

    async def elicit(self, question: Question, context: ToolContext[Any]) -> Accept:
        """Agree to everything, and remember it."""
        self.deps.append(question.text)
        return Accept({"decision": "approve"})


async def test_an_agent_answers_for_its_user_what_a_served_agent_wants_to_be_approved() -> None:
    log = Log()
    bank = Agent(
        model=ScriptedModel([Call("pay", {"to": "Ada", "eur": 5}), "Paid."]),
        name="bank",
        instructions="You pay.",
        tools=log.tools,
    )
    server = McpServer(alias="b", server=serve_mcp(bank), elicits=True)
    model = ScriptedModel([Call("b__ask_bank", {"prompt": "Pay Ada."}), "Done."])
    asked: list[str] = []
    result = await Asker(model=model, tools=[server], deps=asked).run("Pay.")
    assert result_texts(result) == ["Paid."]
    assert log.done == ["pay Ada 5"]
    assert len(asked) == 1
    assert 'wants to call pay with {"to": "Ada", "eur": 5}' in asked[0]


async def test_an_agent_asks_an_agent_of_another_process(desk: McpServer) -> None:
    ask = Call("bank__ask_desk", {"prompt": "How much is 5 dollars?", "session": "s"})
    model = ScriptedModel([ask, ask, "It is 4.50 EUR."])
    agent = Agent(model=model, name="clerk", instructions="You ask the bank.", tools=[desk])
    result = await agent.run("How much?")
    assert result_texts(result) == ["4.50 EUR.", "Again 4.50 EUR."]
    assert result.output == "It is 4.50 EUR."
    assert_prefix_stable(model.calls)
