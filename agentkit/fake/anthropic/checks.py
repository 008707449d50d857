"""What the Claude API refuses of a conversation, marks aside (those are the cache's to judge)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentkit.fake.fields import JsonObject, Problem

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_USER_ROLES = ("user", "assistant", "system")


def check_tools(tools: Sequence[JsonObject]) -> None:
    """Check the names of tools.

    Raises:
        Problem: a name is not allowed, or is there twice.
    """
    names = [tool["name"] for tool in tools if "name" in tool]
    for index, name in enumerate(names):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Problem(f"tools.{index}.name: String should match pattern '^{_NAME.pattern}$'")
    if len(set(names)) < len(names):
        raise Problem("tools: Tool names must be unique.", param="tools")


def check_messages(
    messages: Sequence[JsonObject], contents: Sequence[tuple[JsonObject, ...]]
) -> None:
    """Check roles, contents and the pairing of calls and results.

    Raises:
        Problem: the conversation is none that the API takes.
    """
    if not messages:
        raise Problem("messages: at least one message is required", param="messages")
    for index, message in enumerate(messages):
        if message.get("role") not in _USER_ROLES:
            raise Problem(
                f"messages.{index}.role: Input should be 'user', 'assistant' or 'system'",
                param="messages",
            )
        is_last = index + 1 == len(messages)
        may_be_empty = message["role"] == "system" or (is_last and message["role"] == "assistant")
        if not contents[index] and not may_be_empty:
            raise Problem(f"messages.{index}: all messages must have non-empty content")
    if messages[0]["role"] != "user":
        raise Problem("messages: first message must use the 'user' role", param="messages")
    _check_system(messages, contents)
    _check_pairs(messages, contents)


def _check_system(
    messages: Sequence[JsonObject], contents: Sequence[tuple[JsonObject, ...]]
) -> None:
    """A system message follows a user turn, and ends the array or precedes an assistant turn."""
    for index, message in enumerate(messages):
        if message["role"] != "system":
            continue
        before = messages[index - 1]["role"]
        server = before == "assistant" and str(
            contents[index - 1][-1].get("type", "") if contents[index - 1] else ""
        ).endswith("_tool_result")
        after = messages[index + 1]["role"] if index + 1 < len(messages) else "assistant"
        if not (before in ("user", "system") or server) or after not in ("assistant", "system"):
            raise Problem(
                f"messages.{index}: a system message must follow a user turn, and end the array or "
                "precede an assistant turn",
                param="messages",
            )


def _check_pairs(
    messages: Sequence[JsonObject], contents: Sequence[tuple[JsonObject, ...]]
) -> None:
    """Each call has its result in the user turn behind it, each result its call before it."""
    for index, parts in enumerate(contents):
        if messages[index]["role"] == "user":
            _check_results(index, messages, contents)
        calls = _ids(parts, "tool_use", "id")
        if not calls or messages[index]["role"] != "assistant":
            continue
        if len(set(calls)) < len(calls):
            raise Problem(f"messages.{index}: `tool_use` ids must be unique")
        given = _ids(_turn(index + 1, "user", messages, contents), "tool_result", "tool_use_id")
        missing = [call for call in calls if call not in given]
        if missing and index + 1 < len(messages):
            raise Problem(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )


def _check_results(
    index: int,
    messages: Sequence[JsonObject],
    contents: Sequence[tuple[JsonObject, ...]],
) -> None:
    results = _ids(contents[index], "tool_result", "tool_use_id")
    if not results:
        return
    first = index
    while first and messages[first - 1]["role"] in ("user", "system"):
        first -= 1
    calls = _ids(contents[first - 1], "tool_use", "id") if first else []
    for result in results:
        if result not in calls:
            raise Problem(
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{result}. Each `tool_result` block must have a corresponding `tool_use` block in "
                "the previous message."
            )
    kinds = [part.get("type") for part in contents[index]]
    if first == index and kinds[0] != "tool_result":
        raise Problem(
            f"messages.{index}: `tool_result` blocks must come first in the content of the message "
            "behind a `tool_use`"
        )


def _turn(
    index: int,
    role: str,
    messages: Sequence[JsonObject],
    contents: Sequence[tuple[JsonObject, ...]],
) -> list[JsonObject]:
    """All parts of the turn that begins with message `index`, which may be several messages."""
    found: list[JsonObject] = []
    while index < len(messages) and messages[index]["role"] == role:
        found += contents[index]
        index += 1
    return found


def _ids(parts: Sequence[JsonObject], kind: str, field: str) -> list[str]:
    return [str(part.get(field)) for part in parts if part.get("type") == kind]
