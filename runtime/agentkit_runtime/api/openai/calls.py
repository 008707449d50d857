"""Calls of tools as Chat Completions tells them, whole and piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentkit_runtime.api.openai.custom import InputReader, input_of
from agentkit_runtime.api.openai.wire import (
    CustomBody,
    CustomCallObject,
    FunctionBody,
    ToolCallDelta,
    ToolCallObject,
)
from agentkit_runtime.chat import ToolCallArguments, ToolCallStart


def call_object(
    start: ToolCallStart, arguments: str, kinds: Mapping[str, str]
) -> ToolCallObject | CustomCallObject:
    """A whole call; `kinds` has the type of each tool by its name."""
    if kinds.get(start.name) == "custom":
        custom: CustomBody = {"name": start.name, "input": input_of(arguments)}
        return CustomCallObject(id=start.id, type="custom", custom=custom)
    function: FunctionBody = {"name": start.name, "arguments": arguments}
    return ToolCallObject(id=start.id, type="function", function=function)


@dataclass(slots=True)
class CallPieces:
    """The pieces of the calls of one answer, in order."""

    kinds: Mapping[str, str]
    """The type of each tool, by its name."""
    _index: int = field(default=0, init=False)
    _input: InputReader | None = field(default=None, init=False)
    """Of the call that is being told, where it is a custom one."""

    def start(self, event: ToolCallStart) -> list[ToolCallDelta]:
        """A call begins; the one before is over."""
        pieces = self.end()
        self._index = event.index
        opening: ToolCallDelta = {"index": event.index, "id": event.id}
        if self.kinds.get(event.name) == "custom":
            self._input = InputReader()
            opening["type"], opening["custom"] = "custom", {"name": event.name, "input": ""}
        else:
            opening["type"], opening["function"] = "function", {"name": event.name, "arguments": ""}
        return [*pieces, opening]

    def arguments(self, event: ToolCallArguments) -> list[ToolCallDelta]:
        """More arguments of the call."""
        if self._input is None:
            return [{"index": event.index, "function": {"arguments": event.text}}]
        return self._more(self._input.read(event.text))

    def end(self) -> list[ToolCallDelta]:
        """What was held back of the last call."""
        reader, self._input = self._input, None
        return [] if reader is None else self._more(reader.finish())

    def _more(self, text: str) -> list[ToolCallDelta]:
        return [{"index": self._index, "custom": {"input": text}}] if text else []
