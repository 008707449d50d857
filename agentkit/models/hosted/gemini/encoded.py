"""What was encoded before; Gemini's may be larger, because its documents lie inline."""

from __future__ import annotations

from typing import TypeAlias

from agentkit.models.hosted.gemini.encode import Content
from agentkit.models.hosted.piece_store import PieceStore

Encoded: TypeAlias = PieceStore[tuple[Content, ...]]

_MAX_BYTES = 256 * 2**20


def new_encoded() -> Encoded:
    """Return a store of contents."""
    return PieceStore(_n_bytes, max_bytes=_MAX_BYTES)


def _n_bytes(contents: tuple[Content, ...]) -> int:
    return sum(len(wire.data) for content in contents for wire in content.blocks)
