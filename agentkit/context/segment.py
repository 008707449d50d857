"""One frozen piece of context."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never, cast

from agentkit.blocks import (
    AssistantMessage,
    Json,
    Message,
    ToolMessage,
    ToolsMessage,
    UserMessage,
    message_from_json,
    message_to_json,
    printable,
)
from agentkit.context.canonical import canonical_json, digest
from agentkit.context.tier import SystemPart, Tier
from agentkit.errors import ContextError


@dataclass(frozen=True, slots=True)
class SystemText:
    """Text of one part of the SYSTEM tier."""

    part: SystemPart
    text: str


@dataclass(frozen=True, slots=True)
class ToolList:
    """The TOOLS tier: `data` is the toolset's canonical JSON array, taken over byte for byte."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of the KNOWLEDGE tier. The URI names it and decides its place."""

    uri: str
    text: str


Content: TypeAlias = SystemText | ToolList | Document | Message


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of context, serialised once.

    `data` is one line of canonical JSON that holds all of `content`; `digest` is its tagged
    SHA-256.
    """

    content: Content
    tier: Tier = field(init=False)
    part: SystemPart | None = field(init=False)
    data: bytes = field(init=False, repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        tier, part = _place(self.content)
        data = _encode(self.content)
        for name, value in (("tier", tier), ("part", part), ("data", data)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "digest", digest(data))

    @staticmethod
    def from_data(data: bytes) -> Segment:
        """Rebuild a segment from its `data`.

        Raises:
            ContextError: the bytes are not those of a segment, to the last byte.
        """
        try:
            segment = Segment(_decode(json.loads(data)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ContextError(f"not a segment: {data[:200]!r} ({error})") from error
        if segment.data != data:
            raise ContextError(f"the segment's bytes are not canonical: {data[:200]!r}")
        return segment


def tool_names(segment: Segment) -> tuple[str, ...]:
    """Return the names of the tools in a TOOLS segment, in order; no names for any other."""
    content = segment.content
    if not isinstance(content, ToolList):
        return ()
    return tuple(tool["name"] for tool in json.loads(content.data))


def _place(content: Content) -> tuple[Tier, SystemPart | None]:
    match content:
        case SystemText():
            return Tier.SYSTEM, content.part
        case ToolList():
            return Tier.TOOLS, None
        case Document():
            return Tier.KNOWLEDGE, None
        case UserMessage() | AssistantMessage() | ToolMessage() | ToolsMessage():
            return Tier.HISTORY, None
        case _:
            assert_never(content)


def _encode(content: Content) -> bytes:
    match content:
        case SystemText():
            return canonical_json(
                {"tier": "system", "part": content.part.value, "text": _checked(content.text)}
            )
        case ToolList():
            return b'{"tier":"tools","tools":' + content.data + b"}"
        case Document():
            text, uri = _checked(content.text), _checked(content.uri)
            return canonical_json({"tier": "knowledge", "uri": uri, "text": text})
        case UserMessage() | AssistantMessage() | ToolMessage() | ToolsMessage():
            return canonical_json({"tier": "history", "message": message_to_json(content)})
        case _:
            assert_never(content)


def _decode(data: Mapping[str, Json]) -> Content:
    match data["tier"]:
        case "system":
            return SystemText(SystemPart(cast(str, data["part"])), cast(str, data["text"]))
        case "tools":
            return ToolList(canonical_json(data["tools"]))
        case "knowledge":
            return Document(uri=cast(str, data["uri"]), text=cast(str, data["text"]))
        case "history":
            return message_from_json(cast("Mapping[str, Json]", data["message"]))
    raise ContextError(f"unknown tier {data['tier']!r}")


def _checked(text: str) -> str:
    if printable(text) != text:
        raise ContextError(f"text with a lone surrogate has no UTF-8 form: {text!r}")
    return text
