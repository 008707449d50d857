"""Calls among the items of a response: what the model wrote, and what the client is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentkit_runtime.api.openai.custom import InputReader
from agentkit_runtime.api.openai.responses.tools import CallableTool
from agentkit_runtime.api.openai.responses.wire import CallItem, CustomCallItem
from agentkit_runtime.api.site import new_id
from agentkit_runtime.chat import ChatToolCall, ToolCallStart


@dataclass(slots=True)
class GrowingCall:
    """One call while it is generated."""

    start: ToolCallStart
    item: CallItem | CustomCallItem
    """As the client is told."""
    _arguments: list[str] = field(default_factory=list, init=False)
    _input: InputReader = field(default_factory=InputReader, init=False)

    @property
    def event_kind(self) -> str:
        """How the types of events about its text begin."""
        if self.item["type"] == "function_call":
            return "response.function_call_arguments"
        return "response.custom_tool_call_input"

    @property
    def in_history(self) -> ChatToolCall:
        """As the next prompt has it: in the very words that were generated."""
        arguments = "".join(self._arguments)
        return ChatToolCall(id=self.start.id, name=self.start.name, arguments=arguments)

    def add(self, arguments: str) -> str:
        """What the client is told of more arguments."""
        self._arguments.append(arguments)
        if self.item["type"] == "function_call":
            self.item["arguments"] += arguments
            return arguments
        return self._more_input(self._input.read(arguments))

    def end(self) -> str:
        """What was not told yet, as the call is over."""
        return (
            "" if self.item["type"] == "function_call" else self._more_input(self._input.finish())
        )

    def _more_input(self, text: str) -> str:
        assert self.item["type"] == "custom_tool_call", "functions have no input"
        self.item["input"] += text
        return text


def growing_call(start: ToolCallStart, callables: Mapping[str, CallableTool]) -> GrowingCall:
    """A call that has begun, of one of the request's tools."""
    tool = callables[start.name]
    item: CallItem | CustomCallItem
    if tool.kind == "function":
        item = CallItem(
            type="function_call",
            id=new_id("fc_"),
            call_id=start.id,
            name=tool.name,
            arguments="",
            status="in_progress",
        )
    else:
        item = CustomCallItem(
            type="custom_tool_call",
            id=new_id("ctc_"),
            call_id=start.id,
            name=tool.name,
            input="",
        )
    if tool.namespace is not None:
        item["namespace"] = tool.namespace
    return GrowingCall(start, item)
