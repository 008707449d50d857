"""Knowledge as a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit.toolset import Tool, tool

if TYPE_CHECKING:
    from agentkit.knowledge.knowledge import Knowledge

_DESCRIPTION = (
    "Search the documents for passages that have any of the given words. "
    "Passages come in the order of their documents, not of relevance."
)


def search_tool(knowledge: Knowledge, name: str, k: int) -> Tool:
    """Return the tool; see `Knowledge.tool`."""

    def search_knowledge(query: str) -> str:
        """Search.

        Args:
            query: the words to look for
        """
        found = knowledge.select(query, k=k)
        if not found:
            return f"No passage has any of the words of {query!r}. Try other words."
        return "\n\n".join(f"[{document.uri}]\n{document.text}" for document in found)

    return tool(name=name, description=_DESCRIPTION)(search_knowledge)
