"""Separates tool calls from a reply's text while it arrives."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import cache
from typing import Literal, assert_never

from agentkit_runtime.chat import ChatEvent, ContentDelta, ToolCallArguments, ToolCallStart
from agentkit_runtime.text.json_extent import JsonExtent
from agentkit_runtime.text.partial_match import SPACE, Part, PartialMatch, Pattern, literal, quoted
from agentkit_runtime.text.reasoning import partial_end
from agentkit_runtime.text.tool_formats import (
    DEEPSEEK,
    DEEPSEEK31,
    HERMES,
    LLAMA3,
    MISTRAL,
    MISTRAL_ARGS,
    TOOL_FORMATS,
    FormatName,
    ToolFormat,
    tool_format_for,
)

__all__ = [
    "DEEPSEEK",
    "DEEPSEEK31",
    "HERMES",
    "LLAMA3",
    "MISTRAL",
    "MISTRAL_ARGS",
    "TOOL_FORMATS",
    "FormatName",
    "ToolCallParser",
    "ToolFormat",
    "tool_format_for",
]


class ToolCallParser:
    """Turns pieces of generated text into content and tool-call events. One per generation.

    How the text is split makes no difference to what the events add up to. A call is announced as
    soon as its name is known, then its arguments follow as they come, exactly as generated. Text
    that begins like a call and turns out not to be one comes out as content. A call that the end of
    the text cuts off inside its arguments stays announced, and `is_unfinished` says so.
    """

    def __init__(
        self,
        tool_format: ToolFormat,
        *,
        callable_names: Set[str] | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        """A parser at the start of a reply.

        Args:
            tool_format: how calls are written.
            callable_names: tools that may be called; a call of another one is content. The grammar
                cannot see to that alone: white space before or inside a call keeps it asleep. None
                takes any name.
            new_id: makes the calls' ids; by default they are random.
        """
        self._callable_names = callable_names
        self._shape = _shape(tool_format.name)
        self._new_id = new_id or _random_id
        self._state: _State = "content" if self._shape.marker else "head"
        self._held = ""
        self._opening = ""
        """What led into the call in the making; given back as content if it is none."""
        self._arguments = JsonExtent()
        self._index = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether the text so far ends inside the arguments of a call."""
        return self._state == "arguments"

    def push(self, text: str) -> list[ChatEvent]:
        """The events that this piece completes."""
        self._held += text
        events: list[ChatEvent] = []
        while self._advance(events):
            pass
        return events

    def finish(self) -> list[ChatEvent]:
        """The events of what was held back. An unfinished beginning of a call is content."""
        held, self._held = self._held, ""
        match self._state:
            case "content":
                return _content(held)
            case "head":
                return _content(self._opening + held)
            case "between":
                return _content(held) if held.strip() else []
            case "tail" | "arguments":
                # Closing brackets of a call whose arguments are whole are not text.
                return []
            case _:
                assert_never(self._state)

    def _advance(self, events: list[ChatEvent]) -> bool:
        """Take one step; False if more text is needed for the next."""
        if not self._held:
            return False
        match self._state:
            case "content":
                return self._read_content(events)
            case "head":
                return self._read_head(events, self._shape.first_head.match(self._held))
            case "arguments":
                return self._read_arguments(events)
            case "tail":
                return self._read_tail()
            case "between":
                return self._read_between(events)
            case _:
                assert_never(self._state)

    def _read_content(self, events: list[ChatEvent]) -> bool:
        marker, gap = self._shape.marker, self._shape.gap
        at = self._held.find(marker) if marker else -1
        if at < 0:
            keep = partial_end(self._held, (gap + marker, marker)) if marker else 0
            end = len(self._held) - keep
            events += _content(self._held[:end])
            self._held = self._held[end:]
            return False
        content = self._held[:at].removesuffix(gap)
        events += _content(content)
        end = at + len(marker)
        self._begin_call(self._held[len(content) : end], end)
        return True

    def _begin_call(self, opening: str, end: int) -> None:
        self._opening, self._held, self._state = opening, self._held[end:], "head"

    def _read_head(self, events: list[ChatEvent], found: PartialMatch) -> bool:
        if found == "more":
            return False
        name = None if isinstance(found, str) else self._called_name(found)
        if isinstance(found, str) or name is None:
            events += _content(self._opening)
            if not self._shape.marker:
                # Only a whole message can be a call in this format.
                events += _content(self._held)
                self._held = ""
            self._opening, self._state = "", "content"
            return True
        events.append(ToolCallStart(index=self._index, id=self._new_id(), name=name))
        self._held = self._held[found.end() :]
        self._arguments, self._state = JsonExtent(), "arguments"
        return True

    def _called_name(self, head: re.Match[str]) -> str | None:
        """The name in a call's head; None if it names nothing that may be called."""
        written = head["name"]
        name: str = json.loads(f'"{written}"') if self._shape.has_json_names else written
        return name if self._callable_names is None or name in self._callable_names else None

    def _read_arguments(self, events: list[ChatEvent]) -> bool:
        end = self._arguments.feed(self._held)
        text = self._held if end is None else self._held[:end]
        events.append(ToolCallArguments(index=self._index, text=text))
        self._held = self._held[len(text) :]
        if end is None:
            return False
        self._index += 1
        self._state = "tail"
        return True

    def _read_tail(self) -> bool:
        found = _first([pattern.match(self._held) for pattern in self._shape.tails])
        if found == "more":
            return False
        if found == "never":
            self._state = "content"
            return True
        self._held = self._held[found.end() :]
        self._state = "between"
        return True

    def _read_between(self, events: list[ChatEvent]) -> bool:
        """After a call: another one, the end of the list, or content."""
        shape = self._shape
        if shape.next_head is None or shape.list_end is None:
            return self._read_between_marked()
        closed, another = shape.list_end.match(self._held), shape.next_head.match(self._held)
        if not isinstance(closed, str):
            self._held, self._state = self._held[closed.end() :], "content"
            return True
        if not isinstance(another, str):
            self._opening = ""
            return self._read_head(events, another)
        if "more" in (closed, another):
            return False
        self._state = "content"
        return True

    def _read_between_marked(self) -> bool:
        marker = self._shape.marker
        rest = self._held.lstrip(" \t\r\n")
        n_space = len(self._held) - len(rest)
        if marker and rest.startswith(marker):
            end = n_space + len(marker)
            self._begin_call(self._held[:end], end)
            return True
        if n_space <= _MAX_SPACE and (not rest or (marker and marker.startswith(rest))):
            return False
        self._state = "content"
        return True


_State = Literal["content", "head", "arguments", "tail", "between"]
_MAX_SPACE = 64
_MAX_NAME_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What a format's calls look like to the parser: white space is free, where JSON's is."""

    marker: str
    """Text that begins a call; empty if only a whole message can be one."""
    gap: str = ""
    """Belongs to the marker if it stands before it."""
    first_head: Pattern
    """From behind the marker up to the arguments."""
    tails: tuple[Pattern, ...]
    """From behind the arguments to the end of the call."""
    next_head: Pattern | None = None
    list_end: Pattern | None = None
    has_json_names: bool = True


@cache
def _shape(name: FormatName) -> _Shape:
    head = _head_parts()
    close = [SPACE, *literal("}")]
    match name:
        case "hermes":
            return _Shape(
                marker="<tool_call>",
                gap="\n",
                first_head=Pattern(head),
                tails=(Pattern([*close, SPACE, *literal("</tool_call>")]),),
            )
        case "llama3":
            return _Shape(marker="", first_head=Pattern(head), tails=(Pattern(close),))
        case "mistral":
            identified = [
                *[SPACE, *literal(","), SPACE, *literal('"id"'), SPACE, *literal(":"), SPACE],
                *quoted("id", _MAX_NAME_CHARS),
            ]
            return _Shape(
                marker="[TOOL_CALLS]",
                first_head=Pattern([SPACE, *literal("["), *head]),
                tails=(Pattern(close), Pattern([*identified, *close])),
                next_head=Pattern([SPACE, *literal(","), *head]),
                list_end=Pattern([SPACE, *literal("]")]),
            )
        case "mistral_args":
            return _Shape(
                marker="[TOOL_CALLS]",
                first_head=Pattern(_tagged_head_parts()),
                tails=(Pattern([]),),
                has_json_names=False,
            )
        case "deepseek":
            tag = [SPACE, *literal("```json"), SPACE, _OBJECT]
            block_end = [SPACE, *literal("```"), SPACE]
            kind = Part("[a-z_]{1,32}", "[a-z_]{0,32}")
            return _deepseek_shape([kind, *literal(_SEP), _line(), *tag], block_end)
        case "deepseek31":
            return _deepseek_shape([_line(), *literal(_SEP), SPACE, _OBJECT], [SPACE])
        case _:
            assert_never(name)


_SEP = "<｜tool▁sep｜>"
_OBJECT = Part(r"(?=\{)", "")
"""Right in front of the arguments."""


def _line() -> Part:
    """A tool's name, up to a line's end or a mark."""
    letters = r"[^<\x00-\x1f]"
    return Part(
        rf"(?P<name>{letters}{{1,{_MAX_NAME_CHARS}}})", rf"{letters}{{0,{_MAX_NAME_CHARS}}}"
    )


def _deepseek_shape(head: list[Part], block_end: list[Part]) -> _Shape:
    begin = [SPACE, *literal("<｜tool▁call▁begin｜>"), *head]
    return _Shape(
        marker="<｜tool▁calls▁begin｜>",
        first_head=Pattern(begin),
        tails=(Pattern([*block_end, *literal("<｜tool▁call▁end｜>")]),),
        next_head=Pattern(begin),
        list_end=Pattern([SPACE, *literal("<｜tool▁calls▁end｜>")]),
        has_json_names=False,
    )


def _head_parts() -> list[Part]:
    """`{"name": "...", "arguments": ` up to the brace that opens the arguments."""
    keys = (*literal('"'), Part("(?:arguments|parameters)", _beginnings()), *literal('"'))
    return [
        *[SPACE, *literal("{"), SPACE, *literal('"name"'), SPACE, *literal(":"), SPACE],
        *[*quoted("name", _MAX_NAME_CHARS), SPACE, *literal(","), SPACE],
        *[*keys, SPACE, *literal(":"), SPACE, _OBJECT],
    ]


def _tagged_head_parts() -> list[Part]:
    """`name[ARGS]`, in some versions with an id: `name[CALL_ID]abcdefghi[ARGS]`."""
    tag, inside = "[CALL_ID]", "[a-zA-Z0-9]"
    begun = "|".join(re.escape(tag[:k]) for k in range(len(tag)))
    identified = Part(
        rf"(?:{re.escape(tag)}{inside}{{9}})?", rf"(?:{begun}|{re.escape(tag)}{inside}{{0,9}})"
    )
    letters = r"[^\[\]\x00-\x1f]"
    name = Part(
        rf"(?P<name>{letters}{{1,{_MAX_NAME_CHARS}}})", rf"{letters}{{0,{_MAX_NAME_CHARS}}}"
    )
    return [SPACE, name, identified, *literal("[ARGS]"), SPACE, _OBJECT]


def _beginnings() -> str:
    words = ("arguments", "parameters")
    return f"(?:{'|'.join(word[:k] for word in words for k in range(len(word) + 1))})"


def _first(results: list[PartialMatch]) -> PartialMatch:
    for result in results:
        if not isinstance(result, str):
            return result
    return "more" if "more" in results else "never"


def _content(text: str) -> list[ChatEvent]:
    return [ContentDelta(text)] if text else []


def _random_id() -> str:
    return f"call_{secrets.token_hex(12)}"
