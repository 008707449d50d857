"""Our own agents use served agents: through a process of their own, as any MCP server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentkit import Agent, McpServer
from agentkit.blocks import ToolMessage
from agentkit.result import RunRecord
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable

APP = '''
import os
from agentkit import Agent, tool
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


def results(record: RunRecord) -> list[str]:
    return [
        result.content
        for message in record.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


async def test_an_agent_asks_an_agent_of_another_process(desk: McpServer) -> None:
    ask = Call("bank__ask_desk", {"prompt": "How much is 5 dollars?", "session": "s"})
    model = ScriptedModel([ask, ask, "It is 4.50 EUR."])
    agent = Agent(model=model, name="clerk", instructions="You ask the bank.", tools=[desk])
    result = await agent.run("How much?")
    assert results(result) == ["4.50 EUR.", "Again 4.50 EUR."]
    assert result.output == "It is 4.50 EUR."
    assert_prefix_stable(model.calls)
