"""Segments of a context -> pieces of a Chat Completions body.

A segment's bytes depend on the segment and the profile, never on what comes before or after it. So
each is encoded once, and what was sent stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import assert_never

from agentkit.blocks import (
    AssistantMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserBlock,
    UserMessage,
    VendorItem,
)
from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block, Role
from agentkit.caching.tokens import data_tokens
from agentkit.context import Segment
from agentkit.models.hosted.call_ids import Renamed, wire_name
from agentkit.models.hosted.openai_chat.attachments import can_show
from agentkit.models.hosted.openai_chat.content import ContentForm
from agentkit.models.hosted.openai_chat.pieces import (
    Encoded,
    Field,
    Part,
    Piece,
    Writer,
    opening,
    piece,
)
from agentkit.models.hosted.openai_chat.profiles import Profile, Replay
from agentkit.models.hosted.openai_chat.system import one_system_message, system_message
from agentkit.models.hosted.piece_store import PieceStore
from agentkit.models.hosted.wire_json import compact_json
from agentkit.toolset import Toolset, ToolSpec
from agentkit.toolset.later import later_specs
from agentkit.toolset.provider_forms import form_bytes


class Encoder:
    """Encodes for one model. Remembers what it has encoded, within a bound."""

    def __init__(self, profile: Profile, label: str, *, takes_marks: bool) -> None:
        self._profile = profile
        self._label = label
        self._form = ContentForm(profile=profile, label=label, takes_marks=takes_marks)
        self._store = PieceStore[Encoded](lambda encoded: encoded.n_bytes)

    def tools(self, toolset: Toolset, segment: int | None) -> tuple[Piece, ...]:
        """Return one piece for each tool, in the toolset's order."""
        key = ("tools", toolset.digest, segment)
        return self._store.get(key, lambda: _tool_pieces(toolset.specs, segment)).pieces

    def later_tools(self, later: Mapping[int, tuple[str, ...]]) -> tuple[Piece, ...]:
        """Return one piece for each tool that came later, by segment: they are the last."""
        found: list[Piece] = []
        for index, texts in later.items():
            make = partial(_tool_pieces, later_specs(texts), index)
            found += self._store.get(("tools", texts, index), make).pieces
        return tuple(found)

    def front(
        self, segments: Sequence[tuple[int, Segment]], *, one_message: bool
    ) -> tuple[Piece, ...]:
        """Return the system messages: rules, role, examples and documents, or all in one."""
        if one_message:
            key = ("front", *((segment.digest, index) for index, segment in segments))
            return self._store.get(key, lambda: one_system_message(self._form, segments)).pieces
        found = (
            self._store.get(
                (segment.digest, index), partial(system_message, self._form, segment, index)
            )
            for index, segment in segments
        )
        return tuple(piece for encoded in found for piece in encoded.pieces)

    def history(
        self, segment: Segment, message: Message, index: int, renamed: Renamed = ()
    ) -> Encoded:
        """Return the messages of one segment of the history. `renamed`: ids of its calls."""
        key = (segment.digest, index, *renamed)
        return self._store.get(key, lambda: self._history(message, index, dict(renamed)))

    def volatile(self, text: str) -> Encoded:
        """Return what is true for this request only: a user message at the very end."""
        writer = Writer(None)
        self._user(writer, (Text(text),))
        return writer.encoded()

    def _history(self, message: Message, index: int, ids: Mapping[str, str]) -> Encoded:
        writer = Writer(index)
        match message:
            case UserMessage():
                self._user(writer, message.blocks)
            case AssistantMessage():
                self._assistant(writer, message, ids)
            case ToolMessage():
                self._results(writer, message, ids)
            case ToolsMessage():
                pass  # see `later_tools`
            case _:
                assert_never(message)
        return writer.encoded()

    def _user(self, writer: Writer, blocks: Sequence[UserBlock]) -> None:
        writer.message(opening("user"), [self._form.user(blocks)], role=Role.USER)

    def _assistant(self, writer: Writer, message: AssistantMessage, ids: Mapping[str, str]) -> None:
        texts = [block.text for block in message.blocks if isinstance(block, Text) and block.text]
        calls = [_call(call, ids) for call in message.calls]
        if not texts and not calls:
            return  # nothing was said that another request could show
        begun, fields = opening("assistant"), list[Field]()
        if texts:
            fields.append(self._said(texts))
        else:
            # Templates of self-hosted servers print null as text.
            begun += b'"content":null,' if self._form.is_listed else b'"content":"",'
        fields += self._reasoning(message)
        if calls:
            fields.append(Field(before=b'"tool_calls":[', parts=calls, after=b"]"))
        writer.message(begun, fields, role=Role.ASSISTANT)

    def _said(self, texts: Sequence[str]) -> Field:
        mark = self._profile.mark
        if mark is None:
            return self._form.content([self._form.text("".join(texts))])
        parts = [self._form.text(text, markable=mark.on_assistant) for text in texts]
        return self._form.content(parts)

    def _reasoning(self, message: AssistantMessage) -> list[Field]:
        """The model's own reasoning, where it takes it back. That of others stays behind."""
        own = [
            block.text
            for block in message.blocks
            if isinstance(block, Thinking) and block.source == self._label
        ]
        match self._profile.replay:
            case Replay.NEVER:
                return []
            case Replay.WITH_CALLS | Replay.ALWAYS_WITH_CALLS as rule:
                wanted = bool(own) or rule is Replay.ALWAYS_WITH_CALLS
                if not message.calls or not wanted:
                    return []
                return [_reasoning_field("".join(own))]
            case Replay.DETAILS:
                items = [
                    Part(data=block.data.encode(), kind=BlockKind.THINKING)
                    for block in message.blocks
                    if isinstance(block, VendorItem) and block.source == self._label
                ]
                before = b'"reasoning_details":['
                return [Field(before=before, parts=items, after=b"]")] if items else []
            case _:
                assert_never(self._profile.replay)

    def _results(self, writer: Writer, message: ToolMessage, ids: Mapping[str, str]) -> None:
        for result in message.results:
            call_id = compact_json(ids.get(result.call_id, result.call_id))
            begun = opening("tool") + b'"tool_call_id":%b,' % call_id
            text = self._form.text(_result_text(result), kind=BlockKind.TOOL_RESULT)
            writer.message(begun, [self._form.content([text])], role=Role.TOOL)
        for result in message.results:
            # What the model cannot be shown is left to the text of the result.
            shown = [each for each in result.attachments if can_show(each, self._profile)]
            if shown:
                # Tool messages hold text only, and nothing may stand between two of them.
                title = Text(f"Shown by {result.name}:")
                self._user(writer, (title, *shown))


def _tool_pieces(specs: Sequence[ToolSpec], segment: int | None) -> Encoded:
    pieces = []
    for spec in specs:
        data = b'{"type":"function","function":' + form_bytes(spec, "openai") + b"}"
        block = Block(kind=BlockKind.TOOL, digest=b"", n_tokens=data_tokens(data))
        pieces.append(piece(data, block, segment=segment))
    return Encoded(pieces=tuple(pieces), messages=())


def _call(call: ToolCall, ids: Mapping[str, str]) -> Part:
    data = b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}' % (
        compact_json(ids.get(call.id, call.id)),
        compact_json(wire_name(call.name)),
        compact_json(call.arguments),
    )
    return Part(data=data, kind=BlockKind.TOOL_USE)


def _reasoning_field(text: str) -> Field:
    before, data = b'"reasoning_content":', compact_json(text)
    n_tokens = data_tokens(b"{%b%b}" % (before, data)) if text else 0
    part = Part(data=data, kind=BlockKind.THINKING, n_tokens=n_tokens)
    return Field(before=before, parts=[part])


def _result_text(result: ToolResult) -> str:
    # The API has no error flag, so the text must say it; and some models refuse empty text.
    text = result.content or "(empty)"
    return f"Error: {text}" if result.is_error else text
