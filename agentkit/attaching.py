"""Which attachments of a tool's answer become part of a conversation.

What does is sent with every later request, and cannot be taken back. So it must be whole, of a kind
that the agent's model can be shown, and the conversation must not grow beyond what providers take.
Whatever is left out leaves a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.blocks import File, Image, Message, ToolMessage, UserMessage
from agentkit.models.showing import shows
from agentkit.toolset import ToolOutput
from agentkit.toolset.attachments import BadAttachment, checked

if TYPE_CHECKING:
    from agentkit.open_turn import OpenTurn
    from agentkit.state import RunState
    from agentkit.team.members import Member

MOST_CHARS = 18_000_000
"""Base64 of all attachments of a conversation: providers take requests of 20 MB, and of more."""
MOST = 90
"""Attachments of a conversation."""
MOST_WITH_LARGE = 20
"""Where an image is larger than `LARGE_SIDE`: providers take no more beside such a one."""
LARGE_SIDE = 2_000
"""Pixels."""


def with_fitting(run: RunState, turn: OpenTurn, output: ToolOutput) -> ToolOutput:
    """Return an answer with those of its attachments that can be part of the conversation."""
    if not output.attachments:
        return output
    room, kept, notes = _Room(run, turn), list[Image | File](), list[str]()
    for each in output.attachments:
        try:
            kept.append(room.taken(_checked(run, each)))
        except BadAttachment as problem:
            what = each.name if isinstance(each, File) else "image"
            notes.append(f"[{what}: {each.media_type}, not shown: {problem}]")
    content = "\n".join([output.content, *notes])
    return replace(output, attachments=tuple(kept), content=content)


def _checked(run: RunState, block: Image | File) -> Image | File:
    if not all(shows(member.model, block) for member in _readers(run.member)):
        raise BadAttachment("the model cannot be shown it")
    return checked(block)


def _readers(member: Member) -> Iterator[Member]:
    """Everybody whose model may have to read the conversation as it is now."""
    yield member
    yield from member.others
    yield from (member.children[name] for name in member.forked)


class _Room:
    """What a conversation still has room for."""

    def __init__(self, run: RunState, turn: OpenTurn) -> None:
        open_results = ToolMessage(tuple(turn.results.values()))
        blocks = list(_attached((*run.context.messages, open_results)))
        self._n = len(blocks)
        self._n_chars = sum(len(block.data or "") for block in blocks)
        self._has_large = any(map(_is_large, blocks))

    def taken(self, block: Image | File) -> Image | File:
        """Return one that is part of the conversation now.

        Raises:
            BadAttachment: there is no room for it.
        """
        most = MOST_WITH_LARGE if self._has_large or _is_large(block) else MOST
        if self._n >= most:
            raise BadAttachment(f"the conversation has {self._n} attachments already")
        if self._n_chars + len(block.data or "") > MOST_CHARS:
            raise BadAttachment("the attachments of the conversation are too large already")
        self._n += 1
        self._n_chars += len(block.data or "")
        self._has_large = self._has_large or _is_large(block)
        return block


def _attached(messages: Iterable[Message]) -> Iterator[Image | File]:
    for message in messages:
        if isinstance(message, UserMessage):
            yield from (each for each in message.blocks if isinstance(each, Image | File))
        elif isinstance(message, ToolMessage):
            for result in message.results:
                yield from result.attachments


def _is_large(block: Image | File) -> bool:
    if not isinstance(block, Image) or block.width is None or block.height is None:
        return False
    return max(block.width, block.height) > LARGE_SIDE
