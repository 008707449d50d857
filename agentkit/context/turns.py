"""Where a history can be cut without parting a call from its result, and what is left of a turn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from agentkit.blocks import (
    AssistantMessage,
    Message,
    Thinking,
    ToolMessage,
    ToolsMessage,
    UserMessage,
    VendorItem,
)
from agentkit.context.context import Context
from agentkit.context.segment import tool_names

SUMMARY_HEADER = "Summary of the conversation so far, which is not shown any more:"
"""What the first message of an epoch that begins with a summary starts with."""

DELTA_HEADER = "What follows replaces what you were shown before."
"""What a message starts with that says how rules, tools or documents have changed."""


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return where the model's turns begin, oldest first.

    A turn is what the model said, the results of its calls, and all that users said before the next
    one. What lies before the first belongs to none.
    """
    return [index for index, each in enumerate(messages) if isinstance(each, AssistantMessage)]


def last_turns(messages: Sequence[Message], n_turns: int) -> tuple[Message, ...]:
    """Return the last whole turns.

    With 0 turns only what users said since the model's last turn is left: it is not answered yet.
    """
    if n_turns < 0:
        raise ValueError(f"n_turns must be at least 0, got {n_turns!r}")
    if n_turns == 0:
        return _unanswered(messages)
    starts = turn_starts(messages)
    if not starts:
        return tuple(messages)
    return tuple(messages[starts[-min(n_turns, len(starts))] :])


def delta(text: str) -> UserMessage:
    """Return a message that supersedes a part of the front, for appending."""
    return UserMessage.of(f"{DELTA_HEADER}\n\n{text}")


def is_delta(message: Message) -> bool:
    """Return whether a message is one by `delta`: true for as long as its front is shown."""
    return isinstance(message, UserMessage) and message.text.startswith(DELTA_HEADER)


def outlasts(message: Message) -> bool:
    """Return whether no summary stands for a message: a delta, or tools that came later."""
    return is_delta(message) or isinstance(message, ToolsMessage)


def carried(messages: Sequence[Message], keep_turns: int) -> tuple[Message, ...]:
    """Return what a summary does not stand for: what `outlasts` it, and the last whole turns."""
    last = last_turns(messages, keep_turns)
    summarised = messages[: len(messages) - len(last)]
    return (*filter(outlasts, summarised), *last)


def behind(front: Context, messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages as they are behind others: without tools that are shown already."""
    shown = {name for segment in front for name in tool_names(segment)}
    shown.update(json.loads(text)["name"] for text in front.later_tools)
    for message in messages:
        if isinstance(message, ToolsMessage):
            pairs = zip(message.names, message.added, strict=True)
            added = tuple(text for name, text in pairs if name not in shown)
            if added:
                yield message if added == message.added else ToolsMessage(added)
        else:
            yield message


def is_summary(message: Message) -> bool:
    """Return whether a message is the summary that an epoch begins with."""
    return isinstance(message, UserMessage) and message.text.startswith(SUMMARY_HEADER)


def without_thinking(message: Message) -> Message:
    """Return the message without what a model accepts only behind the prefix that it was said to.

    Newer Anthropic models refuse thinking behind another prefix (2026-08); other vendors' own
    items may refer to what is no longer there.
    """
    if not isinstance(message, AssistantMessage):
        return message
    if not any(isinstance(block, Thinking | VendorItem) for block in message.blocks):
        return message
    kept = (block for block in message.blocks if not isinstance(block, Thinking | VendorItem))
    return AssistantMessage(tuple(kept))


def _unanswered(messages: Sequence[Message]) -> tuple[Message, ...]:
    end = len(messages)
    while end and not isinstance(messages[end - 1], AssistantMessage | ToolMessage):
        end -= 1
    return tuple(messages[end:])
