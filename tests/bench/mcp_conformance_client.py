"""Our client, as the official conformance suite runs it: an agent with one MCP server at a URL.

    python tests/bench/mcp_conformance_client.py URL

The suite says in its environment what it wants. The agent's model is scripted: it calls the tools
that the scenario names, or each tool that there is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from mcp_conformance_auth import auth_for

from agentkit import Agent, McpServer, ToolContext
from agentkit.fake.sample import sample
from agentkit.models.base import ModelRequest
from agentkit.testing import Call, ScriptedModel, Step
from agentkit.toolset.caller import Accept, Question

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
MODERN = "2026-07-28"
PREFIX = "c__"
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
MOST_CALLS = 50


class Tester(Agent):
    """You do what the conformance suite asks for."""

    async def elicit(self, question: Question, context: ToolContext[Any]) -> Accept:
        """Fill in a form with its own defaults."""
        fields = question.fields
        return Accept({name: each["default"] for name, each in fields.items() if "default" in each})


async def main(url: str) -> None:
    """Connect, list, and call what is there to be called."""
    server = McpServer(
        alias="c",
        url=url,
        auth=auth_for(SCENARIO, url, CONTEXT),
        elicits=True,
        protocol="legacy" if VERSION and VERSION < MODERN else "auto",
        call_timeout_s=15,
    )
    left: list[Call] | None = None

    def respond(request: ModelRequest) -> Step:
        nonlocal left
        left = list(_calls(request)) if left is None else left
        return left.pop(0) if left else "done"

    agent = Tester(model=ScriptedModel(respond), tools=[server], max_turns=MOST_CALLS)
    result = await agent.run("Go.")
    sys.stderr.write("\n".join(str(message) for message in result.messages))


def _calls(request: ModelRequest) -> Iterator[Call]:
    """Yield what the agent calls: what the scenario says, or each tool once."""
    specs = {spec.name: json.loads(spec.bytes)["parameters"] for spec in request.toolset.specs}
    if "toolCalls" in CONTEXT:
        yield from (Call(PREFIX + each["name"], each["arguments"]) for each in CONTEXT["toolCalls"])
    elif SCENARIO == "json-schema-2020-12-preservation":
        echo = f"{PREFIX}json_schema_echo"
        (shown,) = (schema for name, schema in specs.items() if name != echo)
        yield Call(echo, {"schema": shown})
    else:
        for name, schema in specs.items():
            given = ARGUMENTS.get(name.removeprefix(PREFIX)) or sample(schema)
            yield Call(name, given if isinstance(given, dict) else {})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
