"""Separates tool calls from a reply's text while it arrives."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import Literal, assert_never

from agentkit_runtime.chat import ChatEvent, ContentDelta, ToolCallArguments, ToolCallStart
from agentkit_runtime.text.call_shapes import shape_of
from agentkit_runtime.text.partial_match import PartialMatch
from agentkit_runtime.text.reasoning import partial_end
from agentkit_runtime.text.tool_formats import (
    DEEPSEEK,
    DEEPSEEK31,
    HERMES,
    LLAMA3,
    MISTRAL,
    MISTRAL_ARGS,
    PYTHONIC,
    TAGS,
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
    "PYTHONIC",
    "TAGS",
    "TOOL_FORMATS",
    "FormatName",
    "ToolCallParser",
    "ToolFormat",
    "tool_format_for",
]


class ToolCallParser:
    """Turns pieces of generated text into content and tool-call events. One per generation.

    How the text is split makes no difference to what the events add up to. A call is announced as
    soon as its name is known, then its arguments follow as they come: JSON exactly as generated,
    other notations as JSON (see `notation`). Text
    that begins like a call and turns out not to be one comes out as content. A call that the end of
    the text cuts off inside its arguments stays announced, and `is_unfinished` says so. One whose
    arguments turn into something else stays announced, too; that is content.
    """

    def __init__(
        self,
        tool_format: ToolFormat,
        *,
        callable_names: Set[str] | None = None,
        parameters: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
        new_id: Callable[[], str] | None = None,
    ) -> None:
        """A parser at the start of a reply.

        Args:
            tool_format: how calls are written.
            callable_names: tools that may be called; a call of another one is content. The grammar
                cannot see to that alone: white space before or inside a call keeps it asleep. None
                takes any name.
            parameters: the tools' schemas by name; some formats do not tell texts from numbers.
            new_id: makes the calls' ids; by default they are random.
        """
        self._callable_names = callable_names
        self._parameters = parameters
        self._shape = shape_of(tool_format.name)
        self._form = self._shape.forms[0]
        self._new_id = new_id or _random_id
        self._state: _State = "content" if self._shape.markers else "head"
        self._marker = ""
        """What has begun the call in the making."""
        self._held = ""
        self._opening = ""
        """What led into the call in the making; given back as content if it is none."""
        self._arguments = self._form.notation.reader({})
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
            case "arguments":
                text = self._arguments.cut(held)
                return [ToolCallArguments(index=self._index, text=text)] if text else []
            case "tail":
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
                return self._read_first_head(events)
            case "arguments":
                return self._read_arguments(events)
            case "tail":
                return self._read_tail()
            case "between":
                return self._read_between(events)
            case _:
                assert_never(self._state)

    def _read_content(self, events: list[ChatEvent]) -> bool:
        markers, gap = self._shape.markers, self._shape.gap
        found = [(at, marker) for marker in markers if (at := self._held.find(marker)) >= 0]
        if not found:
            wanted = [*markers, *(gap + marker for marker in markers)]
            end = len(self._held) - (partial_end(self._held, wanted) if wanted else 0)
            events += _content(self._held[:end])
            self._held = self._held[end:]
            return False
        at, marker = min(found)
        content = self._held[:at].removesuffix(gap)
        events += _content(content)
        end = at + len(marker)
        self._begin_call(marker, self._held[len(content) : end], end)
        return True

    def _begin_call(self, marker: str, opening: str, end: int) -> None:
        self._marker = marker
        self._opening, self._held, self._state = opening, self._held[end:], "head"

    def _read_first_head(self, events: list[ChatEvent]) -> bool:
        forms = [form for form in self._shape.forms if form.marker == self._marker]
        found = [form.first_head.match(self._held) for form in forms]
        for form, match in zip(forms, found, strict=True):
            if not isinstance(match, str):
                self._form = form
                return self._read_head(events, match)
        return self._read_head(events, "more" if "more" in found else "never")

    def _read_head(self, events: list[ChatEvent], found: PartialMatch) -> bool:
        if found == "more":
            return False
        name = None if isinstance(found, str) else self._called_name(found)
        if isinstance(found, str) or name is None:
            events += _content(self._opening)
            if not self._shape.markers:
                # Only a whole message can be a call in this format.
                events += _content(self._held)
                self._held = ""
            self._opening, self._state = "", "content"
            return True
        events.append(ToolCallStart(index=self._index, id=self._new_id(), name=name))
        self._held = self._held[found.end() :]
        self._arguments = self._form.notation.reader(self._parameters.get(name, {}))
        self._state = "arguments"
        return True

    def _called_name(self, head: re.Match[str]) -> str | None:
        """The name in a call's head; None if it names nothing that may be called."""
        written = head["name"]
        name: str = json.loads(f'"{written}"') if self._form.has_json_names else written
        return name if self._callable_names is None or name in self._callable_names else None

    def _read_arguments(self, events: list[ChatEvent]) -> bool:
        read = self._arguments.read(self._held)
        if read.json:
            events.append(ToolCallArguments(index=self._index, text=read.json))
        self._held = self._held[read.n_chars :]
        if read.state == "more":
            return False
        self._index += 1
        self._state = "tail" if read.state == "end" else "content"
        return True

    def _read_tail(self) -> bool:
        found = _first([pattern.match(self._held) for pattern in self._form.tails])
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
        form = self._form
        if form.next_head is None or form.list_end is None:
            return self._read_between_marked()
        closed, another = form.list_end.match(self._held), form.next_head.match(self._held)
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
        markers = self._shape.markers
        rest = self._held.lstrip(" \t\r\n")
        n_space = len(self._held) - len(rest)
        for marker in markers:
            if rest.startswith(marker):
                end = n_space + len(marker)
                self._begin_call(marker, self._held[:end], end)
                return True
        if n_space <= _MAX_SPACE and (not rest or any(m.startswith(rest) for m in markers)):
            return False
        self._state = "content"
        return True


_State = Literal["content", "head", "arguments", "tail", "between"]
_MAX_SPACE = 64


def _first(results: list[PartialMatch]) -> PartialMatch:
    """The first that is possible."""
    return next((result for result in results if result != "never"), "never")


def _content(text: str) -> list[ChatEvent]:
    return [ContentDelta(text)] if text else []


def _random_id() -> str:
    return f"call_{secrets.token_hex(12)}"
