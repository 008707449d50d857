"""What clients read of a served agent: the same bytes for each client, at each start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentkit.answer_form import is_object
from agentkit.errors import ConfigurationError
from agentkit.output import output_spec
from agentkit.team.delegate import summary_of
from agentkit.toolset import canonical_json

if TYPE_CHECKING:
    from mcp_types import Tool

    from agentkit.agent import Agent

MAX_NAME_CHARS = 200
"""Longest name of a session, and longest id of a run."""
WRAPPED = "result"
"""The one member of a structured answer that is no object by itself, as MCP SDKs name it."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The tools of a served agent."""

    ask: str
    """Name of the tool that asks the agent."""
    decide: str | None
    """Name of the tool that answers calls which wait for approval; None: there is none."""
    description: str
    title: str
    read_only: bool
    output_schema: Mapping[str, object] | None
    """Of the structured answer, an object; None: answers are text alone."""
    is_wrapped: bool
    """Whether the structured answer has the output as its member `result`."""

    def tools(self) -> list[Tool]:
        """Return the tools as the SDK's values."""
        from mcp_types import Tool, ToolAnnotations

        ask = Tool(
            name=self.ask,
            title=self.title,
            description=self.description,
            input_schema=ASK,
            output_schema=None if self.output_schema is None else dict(self.output_schema),
            annotations=ToolAnnotations(
                title=self.title, read_only_hint=self.read_only, open_world_hint=True
            ),
        )
        if self.decide is None:
            return [ask]
        decide = Tool(
            name=self.decide,
            title=f"{self.title}: decide",
            description=f"Answer calls of a run of {self.ask} that wait for a person's approval, "
            "and get the run's answer. Only a person may decide: ask the user first.",
            input_schema=DECIDE,
            output_schema=None if self.output_schema is None else dict(self.output_schema),
            annotations=ToolAnnotations(
                title=f"{self.title}: decide",
                read_only_hint=False,
                destructive_hint=True,
                open_world_hint=True,
            ),
        )
        return [decide, ask] if self.decide < self.ask else [ask, decide]


def served(
    agent: Agent[Any, Any],
    *,
    tool: str | None,
    description: str | None,
    read_only: bool,
    decides: bool,
) -> Served:
    """Return the tools that an agent is served as.

    Raises:
        ConfigurationError: a name is not legal everywhere.
    """
    ask = f"ask_{agent.name}" if tool is None else tool
    decide = f"{ask}_decide" if decides else None
    for name in (ask, decide or ask):
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"the tool's name {name!r} is not legal at every provider; use 1 to 64 of the "
                "characters a-z, A-Z, 0-9, '_' and '-'"
            )
    schema = _answer_schema(agent)
    is_wrapped = schema is not None and not is_object(schema)
    return Served(
        ask=ask,
        decide=decide,
        description=_description(agent) if description is None else description,
        title=agent.name,
        read_only=read_only,
        output_schema=_wrapped(schema) if schema is not None and is_wrapped else schema,
        is_wrapped=is_wrapped,
    )


def _description(agent: Agent[Any, Any]) -> str:
    return f"Give a task to the agent {agent.name!r}, and get its answer.{summary_of(agent.role)}"


def _answer_schema(agent: Agent[Any, Any]) -> Mapping[str, object] | None:
    """Return the schema of whoever may answer; None if they differ, or answer in words."""
    schemas = [output_spec(each.output_type).schema for each in agent.desk.agents]
    first = schemas[0]
    if first is None or any(
        each is None or canonical_json(each) != canonical_json(first) for each in schemas[1:]
    ):
        return None
    return first


def _wrapped(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a schema of an object whose one member fits the given one: MCP wants objects."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    shared = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        **shared,
    }


ASK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "What to do, with everything the agent must know for it.",
        },
        "session": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_NAME_CHARS,
            "description": "Name of a conversation, of your choice: calls that give the same name "
            "go on with the same conversation. Without it each call is a new one.",
        },
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
DECIDE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_NAME_CHARS,
            "description": "The run that waits, as the answer that said so names it.",
        },
        "decision": {"type": "string", "enum": ["approve", "deny"]},
        "call": {
            "type": "string",
            "description": "Id of the call that is meant. Without it all that wait are.",
        },
        "reason": {"type": "string", "description": "Why not, for the agent to read."},
    },
    "required": ["run", "decision"],
    "additionalProperties": False,
}
