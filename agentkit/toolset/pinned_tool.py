"""A tool as a conversation was shown it, though it may have changed since."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.toolset.policy import ToolPolicy, policy_of
from agentkit.toolset.tool import Tool, ToolContext, ToolOutput, ToolSpec


class PinnedTool:
    """Has the spec that was shown, and is called as it is now."""

    __slots__ = ("_spec", "_tool")

    def __init__(self, spec: ToolSpec, tool: Tool) -> None:
        self._spec = spec
        self._tool = tool

    @property
    def spec(self) -> ToolSpec:
        """The pinned spec."""
        return self._spec

    @property
    def policy(self) -> ToolPolicy:
        """That of now."""
        return policy_of(self._tool)

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Call it; arguments that do not fit any more are an answer that says so."""
        return await self._tool.call(arguments, context)

    def __repr__(self) -> str:
        return f"<tool {self._spec.name!r} as it was shown>"
