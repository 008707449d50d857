"""A kept run as a conversation: what was said, called and answered. Long parts are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from agentkit.blocks import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolsMessage,
    UserMessage,
)
from agentkit.saved import SavedRun

_TEXT, _ARGUMENTS, _RESULT = 4_000, 500, 1_000
"""Longest parts that are shown whole, in characters."""


def to_text(runs: Sequence[SavedRun]) -> str:
    """Return the messages of a run and of all below it, each turn with its number from 1."""
    return "\n\n".join("\n".join(_run_lines(run)) for run in runs)


def messages_of(run: SavedRun) -> list[Message]:
    """Return what a run has added to its conversation, and the turn whose calls are not done."""
    messages = [*run.said_before, *run.context.messages[run.n_old_messages :]]
    if run.open_turn is not None:
        messages.append(run.open_turn.message)
    return messages


def _run_lines(run: SavedRun) -> Iterator[str]:
    yield f"{'/'.join(run.path)}  {run.status}  run {run.run_id}"
    turn = 0
    for message in messages_of(run):
        match message:
            case UserMessage():
                yield from _said("user", _of_blocks(message))
            case AssistantMessage():
                turn += 1
                if message.text:
                    yield from _said(f"turn {turn}", message.text)
                for call in message.calls:
                    yield f"  turn {turn} calls {call.name} {_cut(call.arguments, _ARGUMENTS)}"
            case ToolMessage():
                for result in message.results:
                    failed = " (error)" if result.is_error else ""
                    yield from _said(f"{result.name}{failed}", result.content, most=_RESULT)
            case ToolsMessage():
                yield from _said("tools", "added " + ", ".join(message.names))
            case _:
                assert_never(message)
    if run.open_turn is not None:
        for call in run.open_turn.message.calls:
            yield from _open(run, call)
    if run.end is not None and run.end.error is not None:
        yield f"  failed: {run.end.error}"


def _open(run: SavedRun, call: ToolCall) -> Iterator[str]:
    assert run.open_turn is not None, "only open turns have open calls"
    result = run.open_turn.results.get(call.id)
    if result is not None:
        yield from _said(result.name, result.content, most=_RESULT)
    else:
        waits = call.id in run.open_turn.waiting
        yield f"  {call.name}: {'waits for a person' if waits else 'not done'}"


def _of_blocks(message: UserMessage) -> str:
    """Return a user's text, with a word for what is no text."""
    return "\n".join(
        block.text if block.kind == "text" else f"[{block.kind}]" for block in message.blocks
    )


def _said(who: str, text: str, most: int = _TEXT) -> Iterator[str]:
    first, *others = _cut(text, most).split("\n")
    yield f"  {who}: {first}"
    yield from (f"    {line}" for line in others)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"
