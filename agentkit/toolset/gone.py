"""A tool that a conversation was shown, and that nobody has any more."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.toolset.tool import ToolContext, ToolOutput, ToolSpec


class GoneTool:
    """Answers each call with what a model can do about it: nothing."""

    __slots__ = ("_spec",)

    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec

    @property
    def spec(self) -> ToolSpec:
        """The pinned spec."""
        return self._spec

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Say that the tool is gone."""
        return ToolOutput.error(
            f"There is no tool {self._spec.name!r} any more: whoever offered it is not there. "
            "Calling it again will not help; do without it."
        )

    def __repr__(self) -> str:
        return f"<tool {self._spec.name!r}, which is gone>"
