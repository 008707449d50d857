"""What messages are made of: our own types, no vendor's.

Blocks and messages are frozen values in closed unions, told apart by `kind`. Their JSON form keeps
every
character: a tool call's `arguments` is the exact text that the model wrote, and never parsed and
printed again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, cast, get_args

from agentkit.errors import ContextError

Json: TypeAlias = (
    "bool | int | float | str | list[Json] | tuple[Json, ...] | Mapping[str, Json] | None"
)
"""A JSON value."""


Breakpoint: TypeAlias = Literal["default", "5m", "30m", "1h", "12h"]
"""A cache mark that the user sets by hand: the lifetime it asks for. Marks are never moved.

Where a provider does not have the lifetime, the next longer one of its own is taken.
"""


@dataclass(frozen=True, slots=True)
class Text:
    """Text that a user wrote or a model answered."""

    text: str
    breakpoint: Breakpoint | None = None
    """Cache the prompt up to and with this block, beside what the planner marks by itself."""
    kind: Literal["text"] = field(default="text", init=False)

    def __post_init__(self) -> None:
        _check_text("Text.text", self.text)
        _check_breakpoint(self.breakpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image, by its bytes or by a URL. What is given here is what every later request sends.

    A signed URL that is signed anew would break the prefix; so it is stored as it came.
    """

    media_type: str
    """E.g. `image/png`."""
    data: str | None = None
    """The bytes in base64. Exactly one of `data` and `url` is given."""
    url: str | None = None
    width: int | None = None
    height: int | None = None
    """Pixels, if known: some providers count an image's tokens by them."""
    breakpoint: Breakpoint | None = None
    kind: Literal["image"] = field(default="image", init=False)

    def __post_init__(self) -> None:
        _check_source("Image", self.data, self.url)
        _check_breakpoint(self.breakpoint)

    @classmethod
    def of_bytes(cls, data: bytes, media_type: str) -> Image:
        """An image by its bytes."""
        return cls(media_type=media_type, data=base64.b64encode(data).decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A document beside the text, such as a PDF, by its bytes or by a URL."""

    name: str
    media_type: str
    """E.g. `application/pdf` or `text/plain`."""
    data: str | None = None
    """The bytes in base64. Exactly one of `data` and `url` is given."""
    url: str | None = None
    breakpoint: Breakpoint | None = None
    kind: Literal["file"] = field(default="file", init=False)

    def __post_init__(self) -> None:
        _check_text("File.name", self.name)
        _check_source("File", self.data, self.url)
        _check_breakpoint(self.breakpoint)

    @classmethod
    def of_bytes(cls, data: bytes, media_type: str, *, name: str) -> File:
        """A file by its bytes."""
        return cls(name=name, media_type=media_type, data=base64.b64encode(data).decode())


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's reasoning. Replayed untouched to the model that wrote it, and to no other."""

    text: str
    signature: str | None = None
    """The provider's proof that the text is the model's own."""
    source: str | None = None
    """Label of the model that wrote it, e.g. `anthropic:claude-sonnet-5-5`."""
    kind: Literal["thinking"] = field(default="thinking", init=False)

    def __post_init__(self) -> None:
        _check_text("Thinking.text", self.text)
        _check_text("Thinking.signature", self.signature or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorItem:
    """A vendor's own item of a turn (redacted thinking, a reasoning item, a thought signature).

    Replayed as it came, at its place, to models of the same vendor; left out for all others.
    """

    source: str
    """Label of the model that wrote it."""
    data: str
    """Exact JSON text."""
    kind: Literal["vendor_item"] = field(default="vendor_item", init=False)

    def __post_init__(self) -> None:
        _check_text("VendorItem.data", self.data)


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
    attachments: tuple[Image | File, ...] = ()
    """What text cannot carry; shown behind the text to models that can see it."""
    kind: Literal["tool_result"] = field(default="tool_result", init=False)

    def __post_init__(self) -> None:
        for name in ("call_id", "name", "content"):
            _check_text(f"ToolResult.{name}", getattr(self, name))


UserBlock: TypeAlias = Text | Image | File
AssistantBlock: TypeAlias = Text | Thinking | ToolCall | VendorItem
Block: TypeAlias = UserBlock | AssistantBlock | ToolResult


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a user, or the program in the user's place, says."""

    blocks: tuple[UserBlock, ...]
    kind: Literal["user"] = field(default="user", init=False)

    @classmethod
    def of(cls, *parts: str | UserBlock) -> UserMessage:
        """A message of these parts; a string is a text block."""
        return cls(tuple(Text(part) if isinstance(part, str) else part for part in parts))

    @property
    def text(self) -> str:
        """All text of the message."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))


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


@dataclass(frozen=True, slots=True)
class ToolsMessage:
    """Tools that a conversation got after it had begun, behind what was sent already.

    A provider that can take tools in the middle of a conversation is sent them here, in its own
    way; at any other they are the last of the request's tools.
    It comes last before the model is asked. Where the model then fails, a user may speak behind it.
    """

    added: tuple[str, ...]
    """The canonical JSON text of each (`ToolSpec.bytes`), in the order in which they came."""
    kind: Literal["tools"] = field(default="tools", init=False)

    def __post_init__(self) -> None:
        if not self.added:
            raise ContextError("ToolsMessage.added is empty; a message must add a tool")
        for text in self.added:
            _check_text("ToolsMessage.added", text)
            _check_spec(text)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, in order."""
        return tuple(json.loads(text)["name"] for text in self.added)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage | ToolsMessage


def printable(text: str) -> str:
    r"""Return the text with lone surrogates spelled out (`\udc80`), so that it has a UTF-8 form.

    Tools meet such text, in file names for example; losing the whole result over it would be worse.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def message_to_json(message: Message) -> dict[str, Json]:
    """Return the JSON form. `message_from_json` gives back an equal message."""
    if isinstance(message, ToolsMessage):
        return {"kind": message.kind, "added": list(message.added)}
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
    if data["kind"] == "tools":
        return ToolsMessage(tuple(cast("list[str]", data["added"])))
    parts = cast("list[Mapping[str, Json]]", data["blocks"])
    blocks = tuple(_block_from_json(part) for part in parts)
    match data["kind"]:
        case "user" if all(isinstance(block, Text | Image | File) for block in blocks):
            return UserMessage(cast("tuple[UserBlock, ...]", blocks))
        case "assistant" if not any(
            isinstance(block, ToolResult | Image | File) for block in blocks
        ):
            return AssistantMessage(cast("tuple[AssistantBlock, ...]", blocks))
        case "tool" if all(isinstance(block, ToolResult) for block in blocks):
            return ToolMessage(cast("tuple[ToolResult, ...]", blocks))
    raise ContextError(f"not a message in JSON form: {data!r}")


def _block_to_json(block: Block) -> dict[str, Json]:
    values = {name: getattr(block, name) for name in _NAMES[type(block)]}
    if isinstance(block, ToolResult):
        values["attachments"] = [_block_to_json(each) for each in block.attachments]
    return {name: value for name, value in values.items() if name not in _RARE or value}


def _block_from_json(data: Mapping[str, Json]) -> Block:
    values = dict(data)
    kind = values.pop("kind")
    if not isinstance(kind, str) or kind not in _BLOCKS:
        raise ContextError(f"unknown kind of block {kind!r}; known are {sorted(_BLOCKS)}")
    if kind == "tool_result" and "attachments" in values:
        nested = cast("list[Mapping[str, Json]]", values.pop("attachments"))
        attachments = cast("tuple[Image | File, ...]", tuple(map(_block_from_json, nested)))
        return ToolResult(**values, attachments=attachments)  # type: ignore[arg-type]
    return _BLOCKS[kind](**values)  # type: ignore[arg-type]


_RARE = frozenset(("attachments", "breakpoint", "height", "source", "width"))
"""Left out of the JSON form where they say nothing."""


_BLOCKS: Mapping[str, type[Block]] = {
    "text": Text,
    "image": Image,
    "file": File,
    "thinking": Thinking,
    "vendor_item": VendorItem,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
}
_NAMES = {kind: tuple(item.name for item in fields(kind)) for kind in _BLOCKS.values()}


def _check_source(what: str, data: str | None, url: str | None) -> None:
    if (data is None) == (url is None):
        raise ContextError(f"{what} needs either data (base64) or url, got both or neither")
    if isinstance(data, bytes | bytearray):
        name = ", name=..." if what == "File" else ""
        raise ContextError(
            f"{what}.data is the text of base64, got bytes; use "
            f"{what}.of_bytes(data, media_type{name})"
        )
    if isinstance(data, str) and data.startswith("data:"):
        raise ContextError(
            f"{what}.data is base64 alone, got the data URL {data!r:.40}; give what follows its "
            "comma"
        )
    for name, text in (("data", data), ("url", url)):
        _check_text(f"{what}.{name}", text or "")


def _check_spec(text: str) -> None:
    try:
        spec = json.loads(text)
    except ValueError:
        spec = None
    if not isinstance(spec, dict) or not {"name", "description", "parameters"} <= spec.keys():
        raise ContextError(
            f"ToolsMessage.added takes the JSON text of tool specs, as ToolSpec.bytes has it; "
            f"got {text!r:.200}"
        )


def _check_breakpoint(value: str | None) -> None:
    if value is not None and value not in get_args(Breakpoint):
        raise ContextError(
            f"breakpoint must be one of {list(get_args(Breakpoint))} or None, got {value!r}"
        )


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
