"""Specs of tools that a conversation got behind its beginning, from their pinned texts."""

from __future__ import annotations

from functools import lru_cache

from agentkit.toolset.tool import ToolSpec


def later_specs(texts: tuple[str, ...]) -> tuple[ToolSpec, ...]:
    """Return the specs of pinned texts, as `ToolsMessage.added` has them, in their order.

    Raises:
        ToolDefinitionError: a text is that of no tool.
    """
    return tuple(map(_spec, texts))


@lru_cache(maxsize=4_096)  # each turn of a conversation shows the same tools again
def _spec(text: str) -> ToolSpec:
    return ToolSpec.pinned(text.encode(), source="the conversation")
