"""One segment of a context in the API's form. The same segment always has the same bytes.

A tool's output is always a content list, with and without a breakpoint: bytes that depended on
where the marks are would be other bytes at the next request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from agentkit.blocks import (
    AssistantMessage,
    Breakpoint,
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
    VendorItem,
)
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.request import Mark, Role
from agentkit.caching.tokens import attachment_tokens, data_tokens
from agentkit.context import Document, Segment, SystemText
from agentkit.context.segment import ToolList
from agentkit.models.documents import document_text
from agentkit.models.hosted.call_ids import Renamed, wire_name
from agentkit.models.hosted.openai_common import LostMarkWarning
from agentkit.models.hosted.openai_responses.pieces import (
    LAST_PART,
    NEXT_PART,
    Entry,
    Piece,
    piece,
)
from agentkit.models.hosted.openai_responses.strict import strict_form
from agentkit.models.hosted.wire_json import object_of
from agentkit.toolset import ToolSpec
from agentkit.toolset.later import later_specs
from agentkit.toolset.provider_forms import form_bytes, schema_form
from agentkit.warn import warn_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """Encodes for one model of one vendor."""

    label: str
    image_detail: str = "auto"
    strict_tools: bool = False
    adds_tools: bool = False
    """Whether the model takes tools in mid-conversation."""

    def tool(self, spec: ToolSpec) -> Piece:
        """Return a tool's definition: in the API's form, and what it wants beside that."""
        # Only where the schema is strict as it stands: its bytes are pinned.
        sent = schema_form(spec, "openai").parameters
        strict = self.strict_tools and strict_form(sent) == sent
        data = (
            form_bytes(spec, "openai")[:-1]
            + f',"strict":{_json(strict)},"type":"function"}}'.encode()
        )
        return piece(data, kind=BlockKind.TOOL, n_tokens=data_tokens(data))

    def segment(self, segment: Segment, renamed: Renamed = ()) -> tuple[Entry, ...]:
        """Return the messages that a segment becomes; none where it says nothing here.

        Args:
            segment: from the context.
            renamed: calls whose ids are others on the wire.

        Raises:
            RequestRefused: a vendor item is no JSON object.
        """
        match content := segment.content:
            case ToolList():
                return ()
            case SystemText():
                return self._developer(content.text)
            case Document():
                return self._developer(document_text(content))
            case UserMessage():
                return (self._parts(Role.USER, _message_head("user"), content.blocks),)
            case AssistantMessage():
                items = tuple(self._assistant(content, dict(renamed)))
                return (Entry(Role.ASSISTANT, items),) if items else ()
            case ToolMessage():
                return tuple(self._result(result, dict(renamed)) for result in content.results)
            case ToolsMessage():
                return self._added(content) if self.adds_tools else ()
            case _:
                assert_never(content)

    def volatile(self, text: str) -> Entry:
        """Return the message that only this request has."""
        return self._parts(Role.USER, _message_head("user"), (Text(text),))

    def _added(self, message: ToolsMessage) -> tuple[Entry, ...]:
        tools = b",".join(self.tool(spec).data for spec in later_specs(message.added))
        item = b'{"type":"additional_tools","role":"developer","tools":[' + tools + b"]}"
        return (Entry(Role.DEVELOPER, (_whole(item, BlockKind.ADDITIONAL_TOOLS),)),)

    def _developer(self, text: str) -> tuple[Entry, ...]:
        if not text:
            return ()
        return (self._parts(Role.DEVELOPER, _message_head("developer"), (Text(text),)),)

    def _result(self, result: ToolResult, renamed: Mapping[str, str]) -> Entry:
        call_id = renamed.get(result.call_id, result.call_id)
        head = f'{{"type":"function_call_output","call_id":{_json(call_id)},"output":['
        # The API has no error flag, so the text must say it.
        text = f"Error: {result.content}" if result.is_error else result.content
        return self._parts(Role.TOOL, head, (Text(text), *result.attachments))

    def _parts(self, role: Role, head: str, blocks: Sequence[Text | Image | File]) -> Entry:
        pieces: list[Piece] = []
        for place, block in enumerate(blocks or (Text(""),)):
            data = self._part(block).encode()
            pieces.append(
                piece(
                    data if place else head.encode() + data,
                    kind=_kind(block, role),
                    n_tokens=_tokens(block, data),
                    after=NEXT_PART if place + 1 < len(blocks) else LAST_PART,
                    mark=user_mark(block.breakpoint),
                )
            )
        return Entry(role, tuple(pieces))

    def _part(self, block: Text | Image | File) -> str:
        match block:
            case Text():
                return _json({"type": "input_text", "text": block.text})
            case Image():
                url = block.url or f"data:{block.media_type};base64,{block.data}"
                return _json({"type": "input_image", "detail": self.image_detail, "image_url": url})
            case File():
                source = (
                    {"file_url": block.url}
                    if block.data is None
                    else {"file_data": f"data:{block.media_type};base64,{block.data}"}
                )
                return _json({"type": "input_file", "filename": block.name} | source)
            case _:
                assert_never(block)

    def _assistant(self, message: AssistantMessage, renamed: Mapping[str, str]) -> Iterator[Piece]:
        phase: object = None
        for block in message.blocks:
            match block:
                case Text():
                    if block.breakpoint is not None:
                        warn_user(_LOST_MARK, LostMarkWarning)
                    said = {"type": "message", "role": "assistant", "content": block.text}
                    yield _item(said if phase is None else said | {"phase": phase}, BlockKind.TEXT)
                    phase = None
                case ToolCall():
                    call = {
                        "type": "function_call",
                        "call_id": renamed.get(block.id, block.id),
                        "name": wire_name(block.name),
                        "arguments": block.arguments,
                    }
                    yield _item(call, BlockKind.TOOL_USE)
                case VendorItem():
                    if _vendor(block.source) != _vendor(self.label):
                        continue
                    item = object_of(block)
                    if set(item) == {"phase"}:
                        phase = item["phase"]
                    else:
                        yield _whole(block.data.encode(), _item_kind(item))
                case Thinking():
                    # A summary for readers; the model's own reasoning is a vendor item beside it.
                    continue
                case _:
                    assert_never(block)


def user_mark(wanted: Breakpoint | None) -> Mark | None:
    """Return the mark that a user set, with the next longer lifetime that OpenAI has."""
    return None if wanted is None else Mark(_LIFETIMES[wanted])


def _message_head(role: str) -> str:
    return f'{{"type":"message","role":"{role}","content":['


def _kind(block: Text | Image | File, role: Role) -> BlockKind:
    match block:
        case Text():
            return BlockKind.TOOL_RESULT if role is Role.TOOL else BlockKind.TEXT
        case Image():
            return BlockKind.IMAGE
        case File():
            return BlockKind.DOCUMENT
        case _:
            assert_never(block)


def _tokens(block: Text | Image | File, data: bytes) -> int:
    return data_tokens(data) if isinstance(block, Text) else attachment_tokens(block)


def _item_kind(item: Mapping[str, object]) -> BlockKind:
    return _ITEM_KINDS.get(str(item.get("type")), BlockKind.SERVER_TOOL_RESULT)


def _item(value: Mapping[str, object], kind: BlockKind) -> Piece:
    return _whole(_json(value).encode(), kind)


def _whole(data: bytes, kind: BlockKind) -> Piece:
    return piece(data, kind=kind, n_tokens=data_tokens(data))


def _vendor(label: str) -> str:
    return label.partition(":")[0]


def _json(value: object) -> str:
    return _ENCODER.encode(value)


_LOST_MARK = (
    "OpenAI takes no breakpoint on an assistant's text, so it is left out; set it on the message "
    "before or behind it"
)

_LIFETIMES: Mapping[Breakpoint, Ttl | None] = {
    "default": None,
    "5m": Ttl.THIRTY_MINUTES,
    "30m": Ttl.THIRTY_MINUTES,
    "1h": Ttl.TWELVE_HOURS,
    "12h": Ttl.TWELVE_HOURS,
}

_ITEM_KINDS: Mapping[str, BlockKind] = {
    "reasoning": BlockKind.THINKING,
    "compaction": BlockKind.COMPACTION,
    "message": BlockKind.TEXT,
}


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""`json.dumps` would make one for each value."""
