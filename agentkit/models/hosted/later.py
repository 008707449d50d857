"""Tools that a conversation got behind its beginning, where they can only be listed in front."""

from __future__ import annotations

from agentkit.blocks import ToolsMessage
from agentkit.context import Context


def later_by_segment(context: Context) -> dict[int, tuple[str, ...]]:
    """Return the pinned texts of the tools that came later, by the segment that they came with."""
    if not context.later_tools:
        return {}
    return {
        index: segment.content.added
        for index, segment in enumerate(context.segments)
        if isinstance(segment.content, ToolsMessage)
    }
