"""A folder with agents, and the command line in it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentkit.cli import app

AGENTS = '''
import os
import sys
from dataclasses import replace

from agentkit import Agent, McpServer, MemoryJournal, tool
from agentkit.blocks import AssistantMessage, ToolMessage
from agentkit.errors import ModelError
from agentkit.testing import Call, ScriptedModel


def turns(request):
    """How often the model has spoken since the last question."""
    spoken = 0
    for message in request.context.messages:
        spoken = spoken + 1 if isinstance(message, AssistantMessage) else spoken
        if message.kind == "user":
            spoken = 0
    return spoken


def question(request):
    return [m for m in request.context.messages if m.kind == "user"][-1].text


def result(request):
    return request.context.messages[-1].results[0].content


def desk(request):
    if request.agent == "reader":
        return "It says: closed."
    if turns(request):
        return f"The tool says: {result(request)}"
    if "pay" in question(request):
        return Call("pay", {"usd": 5})
    if "read" in question(request):
        return [Call("delegate_to_reader", {"task": "read it"}), Call("add", {"a": 1, "b": 2})]
    if "fail" in question(request):
        return ModelError("the model is on fire")
    return f"You said {question(request)!r}, after {len(request.context.messages)} messages."


class Reader(Agent):
    """You read."""


class Desk(Agent):
    """You answer."""

    model = ScriptedModel(desk)
    subagents = (Reader,)

    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool(requires_approval=True)
    def pay(self, usd: int) -> str:
        """Pay."""
        return f"paid {usd} dollars"


class Keeper(Desk):
    journal = MemoryJournal()


class Clerk(Agent):
    """You refund."""


class Router(Agent):
    """You route."""

    model = ScriptedModel(
        {"router": [Call("handoff_to_clerk", {"note": "n"})], "clerk": ["refunded"]}
    )
    handoffs = (Clerk,)


class Heading(Agent[None, list[int]]):
    """You count."""

    model = ScriptedModel(lambda request: "[1, 2, 3]")


class Unsure(Agent[None, list[int]]):
    """You count."""

    model = ScriptedModel(["many", "[4]"])


class Interrupted(Agent):
    """You are interrupted."""

    @staticmethod
    def respond(request):
        raise KeyboardInterrupt

    model = ScriptedModel(respond)


class Served(Agent):
    """You have a server."""

    tools = (
        McpServer(
            alias="files",
            command=[sys.executable, "-m", "agentkit_tools.files", ".", "--read-only"],
        ),
    )


class Sought(Agent):
    """You have a server whose tools you have to find."""

    tools = (replace(Served.tools[0], defer_loading=True),)
'''

Cli = Callable[..., Result]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in a folder with the agents of above, and a journal of its own."""
    (tmp_path / "cli_app.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cli_app", raising=False)
    monkeypatch.setenv("AGENTKIT_JOURNAL", str(tmp_path / "runs.db"))

    def run(*arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(app, list(arguments), input=input)

    return run
