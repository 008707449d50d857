"""Messages and tools as one chat template gets to see them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentkit_runtime.chat import ChatMessage, ChatTool, ChatToolCall
from agentkit_runtime.text.argument_pairs import with_plain_names, without_escapes
from agentkit_runtime.text.template_json import NamedArguments, VerbatimJson
from agentkit_runtime.text.template_probe import TOOL_LINES, TemplateTraits
from agentkit_runtime.text.tool_formats import ToolFormat
from agentkit_runtime.text.tool_prompt import tool_line, tool_response


@dataclass(frozen=True, slots=True)
class ToldMessages:
    """What a template with these traits is told, where calls have this format."""

    traits: TemplateTraits
    tool_format: ToolFormat

    def unescaped(self, messages: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
        """The messages before strings from outside are marked.

        What is escaped in JSON must not become a special token where a template writes it out.
        """
        match self.tool_format.replay:
            case "json":
                return messages
            case "named":
                return tuple(_told_with(without_escapes, message) for message in messages)
            case "text":  # values stay as they were generated
                return tuple(_told_with(with_plain_names, message) for message in messages)

    def shown(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        """The messages, with calls and results as text where the template cannot tell them."""
        if not self.traits.supports_tools:
            return [self._result_as_text(self._calls_as_text(message)) for message in messages]
        if self.tool_format.replay == "text":
            return [self._calls_as_text(message) for message in messages]
        return messages

    def message(self, message: ChatMessage) -> Mapping[str, object]:
        """A shown message in the template's form."""
        value: dict[str, object] = {"role": message.role, "content": message.content}
        if message.reasoning:
            value["reasoning_content"] = message.reasoning
        if message.tool_calls:
            value["tool_calls"] = [self._call(call) for call in message.tool_calls]
        if message.tool_call_id is not None:
            value["tool_call_id"] = self._call_id(message.tool_call_id)
        return value

    def tools(self, tools: Sequence[ChatTool]) -> list[Mapping[str, object]] | None:
        """The tools for a template that shows them; None for another, and where there are none."""
        if not self.traits.supports_tools:
            return None
        return [_tool(tool) for tool in tools] or None

    def tool_lines(self, tools: Sequence[ChatTool]) -> Mapping[str, object]:
        """The variable with the tools for a template that lists them."""
        if not (tools and self.traits.lists_tools):
            return {}
        return {TOOL_LINES: [tool_line(tool) for tool in tools]}

    def _calls_as_text(self, message: ChatMessage) -> ChatMessage:
        if not message.tool_calls:
            return message
        form = self.tool_format
        calls = form.calls_text((call.name, call.arguments) for call in message.tool_calls)
        gap = form.gap if message.content else ""
        return replace(message, content=f"{message.content}{gap}{calls}", tool_calls=())

    def _result_as_text(self, message: ChatMessage) -> ChatMessage:
        if message.role != "tool":
            return message
        if self.traits.supports_tool_role:
            return ChatMessage(role="tool", content=message.content)
        return ChatMessage(role="user", content=tool_response(message.content))

    def _call(self, call: ChatToolCall) -> Mapping[str, object]:
        shown = NamedArguments if self.tool_format.replay == "named" else VerbatimJson
        function = {"name": call.name, "arguments": shown(call.arguments)}
        return {"id": self._call_id(call.id), "type": "function", "function": function}

    def _call_id(self, call_id: str) -> str:
        """Mistral's templates refuse ids that do not have nine letters or digits."""
        if self.tool_format.trigger != "[TOOL_CALLS]" or (len(call_id) == 9 and call_id.isalnum()):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[:9]


def _told_with(changed: Callable[[str], str], message: ChatMessage) -> ChatMessage:
    """The message with its calls' arguments changed."""
    if not message.tool_calls:
        return message
    calls = (replace(call, arguments=changed(call.arguments)) for call in message.tool_calls)
    return replace(message, tool_calls=tuple(calls))


def _tool(tool: ChatTool) -> Mapping[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
