"""Tools that a conversation gets or loses in its middle, as the Claude API takes them.

Source: documentation of 2026-09-28, mid-conversation system messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentkit.fake.anthropic.checks import check_tools
from agentkit.fake.fields import JsonObject, Problem, object_of, text_of

_BY_REFERENCE = "mid-conversation-tool-changes-2026-07-01"
_INLINE = "inline-tools-2026-09-15"
_CHANGES = ("tool_addition", "tool_removal")


def offered_tools(
    headers: Mapping[str, str],
    tools: Sequence[JsonObject],
    messages: Sequence[JsonObject],
    contents: Sequence[tuple[JsonObject, ...]],
) -> tuple[JsonObject, ...]:
    """Return the tools that the model can call at the end of the conversation.

    Raises:
        Problem: a change that the API does not take: without its beta header, outside of a system
            message, of a tool that is not there, or a definition that is none.
    """
    betas = {name.strip() for name in headers.get("anthropic-beta", "").split(",")}
    known = {str(tool["name"]): tool for tool in tools if "name" in tool}
    offered = {name: tool for name, tool in known.items() if not tool.get("defer_loading")}
    nameless = tuple(tool for tool in tools if "name" not in tool)
    for index, parts in enumerate(contents):
        for place, part in enumerate(parts):
            if part.get("type") in _CHANGES:
                path = f"messages.{index}.content.{place}"
                _check_place(messages[index], part, betas, path)
                _change(part, known, offered, path)
    return (*nameless, *offered.values())


def _check_place(message: JsonObject, part: JsonObject, betas: set[str], path: str) -> None:
    kind = part["type"]
    if message["role"] != "system":
        raise Problem(f"{path}: {kind!r} blocks are only permitted in 'system' messages")
    if message.get("clear_at") == "next_user_message":
        raise Problem(f"{path}: a turn-scoped system message supports text blocks only")
    tool = object_of(part.get("tool"), f"{path}.tool")
    by_value = tool.get("type") == "tool_definition"
    if _INLINE not in betas and (by_value or _BY_REFERENCE not in betas):
        raise Problem(f"{path}: Input tag {kind!r} needs the beta header {_INLINE!r}")


def _change(
    part: JsonObject, known: dict[str, JsonObject], offered: dict[str, JsonObject], path: str
) -> None:
    tool = part["tool"]
    if tool.get("type") == "tool_definition" and part["type"] == "tool_addition":
        definition = object_of(tool.get("definition"), f"{path}.tool.definition")
        name = text_of(definition, "name", f"{path}.tool.definition")
        check_tools([definition])
        if "input_schema" not in definition and "type" not in definition:
            raise Problem(f"{path}.tool.definition.input_schema: Field required")
        known[name] = offered[name] = definition
        return
    name = text_of(tool, "name", f"{path}.tool")
    if tool.get("type") != "tool_reference" or name not in known:
        raise Problem(f"{path}.tool: {name!r} is not the name of a tool in 'tools'")
    if part["type"] == "tool_addition":
        offered[name] = known[name]
    else:
        offered.pop(name, None)
