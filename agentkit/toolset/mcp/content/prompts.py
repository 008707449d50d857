"""The prompts of a server: texts that it has ready for its users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agentkit.toolset.errors import McpRequestError
from agentkit.toolset.mcp.calls.results import to_tool_output
from agentkit.toolset.mcp.content.resources import text_of
from agentkit.toolset.mcp.lists.paging import Ask, all_pages

_MAX_CHARS = 1_000_000
"""A longer message is cut to its head and tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """What a prompt is filled in with."""

    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class McpPrompt:
    """A prompt that a server lists. All of it is the server's word."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message of a prompt that was filled in. What is no text has left a note."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptText:
    """A prompt that was filled in. It is text by somebody else: look at it before you run it."""

    description: str
    messages: tuple[PromptMessage, ...]

    @property
    def text(self) -> str:
        """All of it as one message to an agent: `agent.run(prompt.text)`.

        Where the server speaks for both sides, each message has its role in front.
        """
        if all(message.role == "user" for message in self.messages):
            return "\n\n".join(message.text for message in self.messages)
        return "\n\n".join(f"{message.role}: {message.text}" for message in self.messages)


async def list_prompts(ask: Ask, warnings: list[str]) -> tuple[McpPrompt, ...]:
    """Return all prompts by their names, in code-point order."""
    found: dict[str, McpPrompt] = {}
    members, _ = await all_pages(ask, "prompts/list", "prompts", warnings)
    for member in members:
        name = text_of(member, "name") if isinstance(member, Mapping) else ""
        if not isinstance(member, Mapping) or not name or name in found:
            warnings.append(f"a prompt was left out: its name {name!r} is empty or listed twice")
            continue
        given = member.get("arguments")
        arguments = [_argument(each) for each in given] if isinstance(given, list) else []
        found[name] = McpPrompt(
            name=name,
            description=text_of(member, "description"),
            arguments=tuple(argument for argument in arguments if argument is not None),
        )
    return tuple(found[name] for name in sorted(found))


async def get_prompt(ask: Ask, name: str, arguments: Mapping[str, str]) -> PromptText:
    """Have the server fill in a prompt.

    Raises:
        McpRequestError: an argument that it requires is missing, the server refused, or its answer
            cannot be read.
    """
    await _check_arguments(ask, name, arguments)
    result = await ask("prompts/get", {"name": name, "arguments": dict(arguments)})
    given = result.get("messages")
    if not isinstance(given, list):
        raise McpRequestError(f"the server filled in {name!r} as something that is no list")
    messages = tuple(_message(each) for each in given if isinstance(each, Mapping))
    return PromptText(description=text_of(result, "description"), messages=messages)


async def _check_arguments(ask: Ask, name: str, arguments: Mapping[str, str]) -> None:
    """Check them by what is listed: what servers say of a missing one is often no use."""
    try:
        listed = await list_prompts(ask, [])
    except McpRequestError:
        return  # it may know the prompt all the same
    for prompt in listed:
        missing = [
            each.name
            for each in prompt.arguments
            if prompt.name == name and each.is_required and each.name not in arguments
        ]
        if missing:
            names = ", ".join(map(repr, missing))
            raise McpRequestError(
                f"the prompt {name!r} requires the argument{'s' * (len(missing) > 1)} {names}; "
                "nothing was asked of the server"
            )


def _argument(given: object) -> PromptArgument | None:
    if not isinstance(given, Mapping) or not text_of(given, "name"):
        return None
    return PromptArgument(
        name=text_of(given, "name"),
        description=text_of(given, "description"),
        is_required=given.get("required") is True,
    )


def _message(given: Mapping[str, object]) -> PromptMessage:
    # The same blocks as in a tool's result, and the same words for what is no text.
    output = to_tool_output({"content": [given.get("content")]}, _MAX_CHARS)
    role: Literal["user", "assistant"] = "assistant" if given.get("role") == "assistant" else "user"
    return PromptMessage(role=role, text=output.content)
