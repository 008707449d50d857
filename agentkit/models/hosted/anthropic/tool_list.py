"""The list of tools in front: the team's, the server's, and those that came too late for it."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.context import Tier
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.anthropic.front import server_tool_piece, tool_piece
from agentkit.models.hosted.anthropic.options import AnthropicOptions
from agentkit.models.hosted.anthropic.pieces import Piece, PieceCache
from agentkit.models.hosted.wire import WireBlock
from agentkit.toolset.later import later_specs


def tool_blocks(
    request: ModelRequest,
    listed: Mapping[int, tuple[str, ...]],
    options: AnthropicOptions,
    cache: PieceCache,
) -> list[WireBlock]:
    """Return the list; `listed` are those that came later, which are its last."""
    segments = request.context.front.segments
    at = next((i for i, segment in enumerate(segments) if segment.tier is Tier.TOOLS), None)
    own = cache.get(request.toolset.digest, lambda: tuple(map(tool_piece, request.toolset.specs)))
    server = tuple(map(server_tool_piece, options.server_tools))
    found = [*wired(own, at), *wired(server, None)]
    for index, texts in listed.items():
        found += wired(tuple(map(tool_piece, later_specs(texts))), index)
    return found


def wired(pieces: tuple[Piece, ...], segment: int | None) -> list[WireBlock]:
    """Return the pieces of a segment of the context; None: they are of no segment."""
    return [WireBlock(block=each.block, data=each.data, segment=segment) for each in pieces]
