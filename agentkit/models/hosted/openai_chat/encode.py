"""Segments of a context -> pieces of a Chat Completions body.

A segment's bytes depend on the segment and the profile, never on what comes before or after it. So
each is encoded once, and what was sent stays as it was.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from agentkit.blocks import (
    AssistantMessage,
    Breakpoint,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserBlock,
    UserMessage,
    VendorItem,
)
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.request import Block, Mark, Role
from agentkit.caching.tokens import data_tokens
from agentkit.context import Document, SystemText
from agentkit.context.segment import Segment
from agentkit.models.hosted.openai_chat.attachments import attachment_part, can_show
from agentkit.models.hosted.openai_chat.ids import Renamed, wire_name
from agentkit.models.hosted.openai_chat.pieces import (
    Encoded,
    Field,
    Part,
    Piece,
    Writer,
    piece,
    text_json,
)
from agentkit.models.hosted.openai_chat.profiles import Profile, Replay
from agentkit.toolset import Toolset

_CACHE_BYTES = 64 * 2**20
"""Encoded segments that are kept; the oldest go first."""


class Encoder:
    """Encodes for one model. Remembers what it has encoded, within a bound."""

    def __init__(self, profile: Profile, label: str, *, takes_marks: bool) -> None:
        self._profile = profile
        self._label = label
        self._takes_marks = takes_marks
        self._known: OrderedDict[tuple[object, ...], Encoded] = OrderedDict()
        self._n_bytes = 0
        self.n_encoded = 0
        """How many segments were encoded, not counting what was found."""

    def tools(self, toolset: Toolset, segment: int | None) -> tuple[Piece, ...]:
        """Return one piece for each tool, in the toolset's order."""
        key = ("tools", toolset.digest, segment)
        return self._once(key, lambda: _tools(toolset, segment)).pieces

    def front(
        self, segments: Sequence[tuple[int, Segment]], *, one_message: bool
    ) -> tuple[Piece, ...]:
        """Return the system messages: rules, role, examples and documents, or all in one."""
        if not one_message:
            return tuple(
                piece
                for index, segment in segments
                for piece in self._once(
                    (segment.digest, index),
                    lambda s=segment, i=index: self._system(s, i),  # type: ignore[misc]
                ).pieces
            )
        key = ("front", *((segment.digest, index) for index, segment in segments))
        return self._once(key, lambda: self._one_system(segments)).pieces

    def history(
        self, segment: Segment, message: Message, index: int, renamed: Renamed = ()
    ) -> Encoded:
        """Return the messages of one segment of the history. `renamed`: ids of its calls."""
        key = (segment.digest, index, *renamed)
        return self._once(key, lambda: self._history(message, index, dict(renamed)))

    def volatile(self, text: str) -> Encoded:
        """Return what is true for this request only: a user message at the very end."""
        writer = Writer(None)
        self._user(writer, UserMessage.of(text))
        return writer.encoded()

    def _once(self, key: tuple[object, ...], encode: Callable[[], Encoded]) -> Encoded:
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        self.n_encoded += 1
        made = self._known[key] = encode()
        self._n_bytes += made.n_bytes
        while self._n_bytes > _CACHE_BYTES and len(self._known) > 1:
            _, dropped = self._known.popitem(last=False)
            self._n_bytes -= dropped.n_bytes
        return made

    def _system(self, segment: Segment, index: int) -> Encoded:
        writer = Writer(index)
        content = self._content([self._text(_system_text(segment))])
        writer.message(_opening(self._profile.system_role), [content], role=Role.DEVELOPER)
        return writer.encoded()

    def _one_system(self, segments: Sequence[tuple[int, Segment]]) -> Encoded:
        """One message; its pieces are substrings of it, so that agents still share the first."""
        opening = _opening(self._profile.system_role) + b'"content":'
        opening += b"[" if self._profile.mark else b'"'
        pieces: list[Piece] = []
        for place, (index, segment) in enumerate(segments):
            text = _system_text(segment)
            lead = b"" if place else opening
            is_last = place == len(segments) - 1
            if self._profile.mark:
                data, tail, glue = self._text(text).data, b"]}", b","
                mark_at = len(lead) + len(data) - 1
            else:
                data, tail, glue = text_json(text)[1:-1], b'"}', b"\\n\\n"
                mark_at = None
            whole = lead + data + (tail if is_last else b"")
            block = Block(digest=b"", n_tokens=data_tokens(data))
            pieces.append(piece(whole, block, segment=index, mark_at=mark_at, glue=glue))
        return Encoded(pieces=tuple(pieces), messages=())

    def _history(self, message: Message, index: int, ids: Mapping[str, str]) -> Encoded:
        writer = Writer(index)
        match message:
            case UserMessage():
                self._user(writer, message)
            case AssistantMessage():
                self._assistant(writer, message, ids)
            case ToolMessage():
                self._results(writer, message, ids)
            case _:
                assert_never(message)
        return writer.encoded()

    def _user(self, writer: Writer, message: UserMessage) -> None:
        said = [b for b in message.blocks if not (isinstance(b, Text) and not b.text)]
        if not self._profile.mark and all(isinstance(block, Text) for block in said):
            content = self._content([self._text(message.text)])
        else:
            parts = [self._user_part(block) for block in said]
            content = self._content(parts or [self._text("", listed=True)], listed=True)
        writer.message(_opening("user"), [content], role=Role.USER)

    def _user_part(self, block: UserBlock) -> Part:
        if isinstance(block, Text):
            return self._text(block.text, block.breakpoint, listed=True)
        return attachment_part(
            block,
            self._profile,
            label=self._label,
            mark=self._own_mark(block.breakpoint),
        )

    def _assistant(self, writer: Writer, message: AssistantMessage, ids: Mapping[str, str]) -> None:
        texts = [block.text for block in message.blocks if isinstance(block, Text) and block.text]
        calls = [_call(call, ids) for call in message.calls]
        if not texts and not calls:
            return  # nothing was said that another request could show
        fields: list[Field] = []
        opening = _opening("assistant")
        if texts:
            on_text = self._profile.mark is not None and self._profile.mark.on_assistant
            parts = (
                [self._text(text, markable=on_text) for text in texts]
                if self._profile.mark
                else [self._text("".join(texts))]
            )
            fields.append(self._content(parts))
        else:
            # Templates of self-hosted servers print null as text.
            opening += b'"content":null,' if self._profile.mark else b'"content":"",'
        fields += self._reasoning(message)
        if calls:
            fields.append(Field(before=b'"tool_calls":[', parts=calls, after=b"]"))
        writer.message(opening, fields, role=Role.ASSISTANT)

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
                part = Part(data=text_json("".join(own)), kind=BlockKind.THINKING)
                return [Field(before=b'"reasoning_content":', parts=[part])]
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
            call_id = text_json(ids.get(result.call_id, result.call_id))
            opening = _opening("tool") + b'"tool_call_id":%b,' % call_id
            text = self._text(_result_text(result), kind=BlockKind.TOOL_RESULT)
            writer.message(opening, [self._content([text])], role=Role.TOOL)
        for result in message.results:
            # What the model cannot be shown is left to the text of the result.
            shown = [each for each in result.attachments if can_show(each, self._profile)]
            if shown:
                # Tool messages hold text only, and nothing may stand between two of them.
                title = Text(f"Shown by {result.name}:")
                self._user(writer, UserMessage((title, *shown)))

    def _content(self, parts: Sequence[Part], *, listed: bool = False) -> Field:
        if self._profile.mark or listed:
            return Field(before=b'"content":[', parts=parts, after=b"]")
        return Field(before=b'"content":', parts=parts)

    def _text(
        self,
        text: str,
        breakpoint: Breakpoint | None = None,
        *,
        kind: BlockKind = BlockKind.TEXT,
        markable: bool = True,
        listed: bool = False,
    ) -> Part:
        if self._profile.mark is None and not listed:
            return Part(data=text_json(text), kind=kind)
        return Part(
            data=b'{"type":"text","text":%b}' % text_json(text),
            kind=kind,
            mark=self._own_mark(breakpoint),
            markable=markable,
        )

    def _own_mark(self, wanted: Breakpoint | None) -> Mark | None:
        """Return the user's mark with the next longer lifetime that exists here."""
        field = self._profile.mark
        if wanted is None or field is None or not self._takes_marks:
            return None
        if wanted == "default" or not field.ttls:
            return Mark()
        longer = [ttl for ttl in field.ttls if ttl.seconds >= Ttl(wanted).seconds]
        return Mark(longer[0] if longer else field.ttls[-1])


def _tools(toolset: Toolset, segment: int | None) -> Encoded:
    pieces = []
    for spec in toolset.specs:
        data = b'{"type":"function","function":' + spec.bytes + b"}"
        block = Block(kind=BlockKind.TOOL, digest=b"", n_tokens=data_tokens(data))
        pieces.append(piece(data, block, segment=segment))
    return Encoded(pieces=tuple(pieces), messages=())


def _call(call: ToolCall, ids: Mapping[str, str]) -> Part:
    data = b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}' % (
        text_json(ids.get(call.id, call.id)),
        text_json(wire_name(call.name)),
        text_json(call.arguments),
    )
    return Part(data=data, kind=BlockKind.TOOL_USE)


def _opening(role: str) -> bytes:
    return b'{"role":"%b",' % role.encode()


def _system_text(segment: Segment) -> str:
    content = segment.content
    if isinstance(content, SystemText):
        return content.text
    if isinstance(content, Document):
        uri = json.dumps(content.uri, ensure_ascii=False)
        return f"<document uri={uri}>\n{content.text}\n</document>"
    raise TypeError(f"a segment of {segment.tier.value!r} is no system text")


def _result_text(result: ToolResult) -> str:
    # The API has no error flag, so the text must say it; and some models refuse empty text.
    text = result.content or "(empty)"
    return f"Error: {text}" if result.is_error else text
