"""What messages are made of: our own types, no vendor's.

Blocks and messages are frozen values in closed unions, told apart by `kind`. Their JSON form keeps
every
character: a tool call's `arguments` is the exact text that the model wrote, and never parsed and
printed again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, cast

from agentkit.errors import ContextError

Json: TypeAlias = (
    "bool | int | float | str | list[Json] | tuple[Json, ...] | Mapping[str, Json] | None"
)
"""A JSON value."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text that a user wrote or a model answered."""

    text: str
    kind: Literal["text"] = field(default="text", init=False)

    def __post_init__(self) -> None:
        _check_text("Text.text", self.text)


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's reasoning. Replayed untouched to the model that wrote it, and to no other."""

    text: str
    signature: str | None = None
    """The provider's proof that the text is the model's own."""
    kind: Literal["thinking"] = field(default="thinking", init=False)

    def __post_init__(self) -> None:
        _check_text("Thinking.text", self.text)
        _check_text("Thinking.signature", self.signature or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A model's wish to call a tool."""

    id: str
    """Unique within its turn; the result carries it."""
    name: str
    arguments: str
    """Exact JSON text, as generated. It may be invalid: then the tool result says so."""
    kind: Literal["tool_call"] = field(default="tool_call", init=False)

    def __post_init__(self) -> None:
        for name in ("id", "name", "arguments"):
            _check_text(f"ToolCall.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer to one tool call, as the model reads it."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    kind: Literal["tool_result"] = field(default="tool_result", init=False)

    def __post_init__(self) -> None:
        for name in ("call_id", "name", "content"):
            _check_text(f"ToolResult.{name}", getattr(self, name))


AssistantBlock: TypeAlias = Text | Thinking | ToolCall
Block: TypeAlias = Text | Thinking | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a user, or the program in the user's place, says."""

    blocks: tuple[Text, ...]
    kind: Literal["user"] = field(default="user", init=False)

    @classmethod
    def of(cls, text: str) -> UserMessage:
        """A message of one text block."""
        return cls((Text(text),))

    @property
    def text(self) -> str:
        """All text of the message."""
        return "".join(block.text for block in self.blocks)


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One complete turn of a model. Without blocks the model had nothing to say."""

    blocks: tuple[AssistantBlock, ...]
    kind: Literal["assistant"] = field(default="assistant", init=False)

    @property
    def text(self) -> str:
        """All visible text; thinking is left out."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The results of all calls of one turn, in the order of the calls."""

    results: tuple[ToolResult, ...]
    kind: Literal["tool"] = field(default="tool", init=False)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def printable(text: str) -> str:
    r"""Return the text with lone surrogates spelled out (`\udc80`), so that it has a UTF-8 form.

    Tools meet such text, in file names for example; losing the whole result over it would be worse.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def message_to_json(message: Message) -> dict[str, Json]:
    """Return the JSON form. `message_from_json` gives back an equal message."""
    blocks: tuple[Block, ...]
    blocks = message.results if isinstance(message, ToolMessage) else message.blocks
    return {"kind": message.kind, "blocks": [_block_to_json(block) for block in blocks]}


def message_from_json(value: Mapping[str, Json] | str | bytes) -> Message:
    """Rebuild a message from its JSON form, given as an object or as JSON text.

    Raises:
        ContextError: the value is not the JSON form of a message.
    """
    try:
        data = json.loads(value) if isinstance(value, str | bytes) else value
        return _message(data)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ContextError(f"not a message in JSON form: {value!r} ({error})") from error


def _message(data: Mapping[str, Json]) -> Message:
    parts = cast("list[Mapping[str, Json]]", data["blocks"])
    blocks = tuple(_block_from_json(part) for part in parts)
    match data["kind"]:
        case "user" if all(isinstance(block, Text) for block in blocks):
            return UserMessage(cast("tuple[Text, ...]", blocks))
        case "assistant" if not any(isinstance(block, ToolResult) for block in blocks):
            return AssistantMessage(cast("tuple[AssistantBlock, ...]", blocks))
        case "tool" if all(isinstance(block, ToolResult) for block in blocks):
            return ToolMessage(cast("tuple[ToolResult, ...]", blocks))
    raise ContextError(f"not a message in JSON form: {data!r}")


def _block_to_json(block: Block) -> dict[str, Json]:
    return {item.name: getattr(block, item.name) for item in fields(block)}


def _block_from_json(data: Mapping[str, Json]) -> Block:
    values = dict(data)
    kind = values.pop("kind")
    if not isinstance(kind, str) or kind not in _BLOCKS:
        raise ContextError(f"unknown kind of block {kind!r}; known are {sorted(_BLOCKS)}")
    return _BLOCKS[kind](**values)  # type: ignore[arg-type]


_BLOCKS: Mapping[str, type[Block]] = {
    "text": Text,
    "thinking": Thinking,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
}


def _check_text(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise ContextError(f"{what} must be a str, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ContextError(
            f"{what} holds a lone surrogate and has no UTF-8 form: {text!r}; "
            "pass it through agentkit.blocks.printable first"
        ) from None
