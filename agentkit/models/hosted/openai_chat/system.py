"""Rules, role, examples and documents: a message each, or all in one."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit.caching.request import Block, Role
from agentkit.caching.tokens import data_tokens
from agentkit.context import Document, Segment, SystemText
from agentkit.models.documents import document_text
from agentkit.models.hosted.openai_chat.content import ContentForm
from agentkit.models.hosted.openai_chat.pieces import Encoded, Piece, Writer, opening, piece
from agentkit.models.hosted.wire_json import compact_json


def system_message(form: ContentForm, segment: Segment, index: int) -> Encoded:
    """Return a segment of the front as a message of its own."""
    writer = Writer(index)
    content = form.content([form.text(_system_text(segment))])
    writer.message(opening(form.profile.system_role), [content], role=Role.DEVELOPER)
    return writer.encoded()


def one_system_message(form: ContentForm, segments: Sequence[tuple[int, Segment]]) -> Encoded:
    """Return one message of all texts.

    Its pieces are substrings of it, so agents with the same rules still share the first.
    """
    begun = opening(form.profile.system_role) + b'"content":' + (b"[" if form.is_listed else b'"')
    pieces: list[Piece] = []
    for place, (index, segment) in enumerate(segments):
        text = _system_text(segment)
        lead = b"" if place else begun
        if form.is_listed:
            data, tail, glue = form.text(text).data, b"]}", b","
        else:
            data, tail, glue = compact_json(text)[1:-1], b'"}', b"\\n\\n"
        is_last = place == len(segments) - 1
        pieces.append(
            piece(
                lead + data + (tail if is_last else b""),
                Block(digest=b"", n_tokens=data_tokens(data)),
                segment=index,
                mark_at=len(lead) + len(data) - 1 if form.is_listed else None,
                glue=glue,
            )
        )
    return Encoded(pieces=tuple(pieces), messages=())


def _system_text(segment: Segment) -> str:
    content = segment.content
    if isinstance(content, SystemText):
        return content.text
    if isinstance(content, Document):
        return document_text(content)
    raise TypeError(f"a segment of {segment.tier.value!r} is no system text")
