"""Messages and tools, checked and marked: what a longer conversation need not do again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentkit_runtime.chat import ChatMessage, ChatTool
from agentkit_runtime.text.request_text import (
    check_messages,
    check_tools,
    check_unicode,
    message_texts,
    tool_texts,
    with_message_changed,
    with_tool_changed,
)
from agentkit_runtime.text.trust import NONCHARACTERS, Marker

_NONCHARACTER = re.compile(f"[{NONCHARACTERS[0]}-{NONCHARACTERS[-1]}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Messages as a renderer has seen them. Belongs to the renderer that made it."""

    messages: tuple[ChatMessage, ...] = ()
    """As they came."""
    n_bytes: int = 0
    """UTF-8 bytes of their contents."""
    noncharacters: frozenset[str] = frozenset()
    """Those that occur in their texts."""
    mark: str | None = None
    """What marks them (see `trust`); None where nothing had to be marked."""
    shown: tuple[ChatMessage, ...] = ()
    """One for each: marked, and as plain messages where the template knows no tools."""
    values: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    """The template's form of each shown message, by the message's `id()`."""


NO_FRONT = Front()
"""Nothing is known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTools:
    """Tools that passed the checks."""

    tools: tuple[ChatTool, ...]
    noncharacters: frozenset[str]
    """Those that occur in their texts."""
    needs_mark: bool
    """Whether a special token's text is in them."""

    def marked(self, mark: str, marker: Marker) -> tuple[ChatTool, ...]:
        """The tools, with marks where they are needed."""
        if not self.needs_mark:
            return self.tools
        return tuple(
            with_tool_changed(tool, lambda text: marker.mark(text, mark)) for tool in self.tools
        )


def check_tool_texts(tools: Sequence[ChatTool], marker: Marker) -> CheckedTools:
    """Check tools; raises `RequestRejected` for what no template could render."""
    check_tools(tools)
    texts = [text for tool in tools for _, text in tool_texts(tool)]
    return CheckedTools(
        tools=tuple(tools),
        noncharacters=noncharacters_in(texts),
        needs_mark=any(marker.needs_mark(text) for text in texts),
    )


def marked_messages(
    messages: Sequence[ChatMessage], mark: str, marker: Marker
) -> tuple[list[ChatMessage], bool]:
    """The messages with marks, and whether any was needed. Others stay the same objects."""
    marked = [
        with_message_changed(message, lambda text: marker.mark(text, mark))
        if any(marker.needs_mark(text) for _, text in message_texts(message))
        else message
        for message in messages
    ]
    return marked, any(new is not old for new, old in zip(marked, messages, strict=True))


def checked_texts(messages: Sequence[ChatMessage], first: int) -> frozenset[str]:
    """Check messages and return the noncharacters in them; see `check_messages`."""
    check_messages(messages, first)
    return noncharacters_in(text for message in messages for _, text in message_texts(message))


def checked_prefill(prefill: str) -> frozenset[str]:
    """Check an answer's given beginning and return the noncharacters in it."""
    check_unicode("prefill", prefill)
    return noncharacters_in([prefill])


def noncharacters_in(texts: Iterable[str]) -> frozenset[str]:
    """The noncharacters that could be marks and occur in `texts`."""
    return frozenset().union(*map(_NONCHARACTER.findall, texts))


def tools_key(tools: Sequence[ChatTool]) -> str | None:
    """Text that is equal for tools that differ only in their order or that of keys.

    None where they are not plain JSON.
    """
    values = sorted(([tool.name, tool.description, tool.parameters] for tool in tools), key=_name)
    try:
        return json.dumps(values, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return None


def copied_tools(tools: Sequence[ChatTool]) -> tuple[ChatTool, ...]:
    """The same plain JSON, which nobody else can change."""
    return tuple(
        ChatTool(
            name=tool.name,
            description=tool.description,
            parameters=json.loads(json.dumps(tool.parameters, default=_plain)),
        )
        for tool in tools
    )


def _name(value: Sequence[object]) -> str:
    return str(value[0])


def _plain(value: object) -> dict[str, object]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"not JSON: {type(value).__name__}")
