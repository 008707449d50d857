"""From a chat request to the prompt's text and token ids."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatTool, ChatToolCall
from agentkit_runtime.text.message_order import (
    with_system_in_front,
    with_system_in_user,
    with_users_joined,
)
from agentkit_runtime.text.request_text import (
    Conversation,
    check_request,
    texts_of,
    with_texts_changed,
)
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.template_json import VerbatimJson
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.tool_formats import ToolFormat, tool_format_for
from agentkit_runtime.text.tool_prompt import tool_response, with_tools
from agentkit_runtime.text.trust import choose_mark


@dataclass(frozen=True, slots=True)
class Boundary:
    """A place next to a special token, where text and ids can both be cut."""

    n_chars: int
    """Characters of `Rendered.marked_text` before the cut."""
    n_ids: int
    """Ids before the cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A prompt."""

    text: str
    """What the chat template makes of the request."""
    marked_text: str
    """The same with `escape` inside texts from outside that look like special tokens. Two prompts
    with equal `marked_text` and `escape` have equal ids; with equal `text` they may not."""
    escape: str | None
    """The character that marks; None if nothing had to be marked."""
    ids: tuple[int, ...]
    boundaries: tuple[Boundary, ...]
    """Rising; the last one is the end of the prompt."""
    warnings: tuple[str, ...] = ()
    """What had to be moved or left out because the template or the vocabulary cannot say it."""


class Renderer:
    """Renders requests for one model. Holds no state between calls.

    A template without tool support gets the tools in the first system message, calls as text in
    `tool_format`, and results as plain messages of role `tool`; where it does not know that role,
    as user messages. Strings from outside never become special tokens.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        tool_format: ToolFormat | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.traits = template.traits
        self.tool_format = tool_format or tool_format_for(template)

    def render(self, request: ChatRequest, *, add_generation_prompt: bool = True) -> Rendered:
        """Render a request.

        Raises `RequestRejected` for requests without messages, text that is not Unicode, tools with
        equal names, and messages that the template refuses.
        """
        check_request(request)
        marked, escape = self._marked(request)
        warnings: list[str] = []
        messages = self._plain_messages(marked, warnings)
        tools = marked.tools if self.traits.supports_tools else ()
        text = self.template.render(
            [self._template_message(message) for message in messages],
            tools=[_template_tool(tool) for tool in tools] or None,
            add_generation_prompt=add_generation_prompt,
        )
        plain = text if escape is None else text.replace(escape, "")
        if self.tokenizer.loses_text(plain):
            warnings.append("some control characters have no token in this model and were left out")
        ids: list[int] = []
        boundaries: list[Boundary] = []
        for piece in self.tokenizer.split_rendered(text, escape, tenant=request.tenant):
            ids.extend(piece.ids)
            boundaries.append(Boundary(piece.end, len(ids)))
        return Rendered(
            text=plain,
            marked_text=text,
            escape=escape,
            ids=tuple(ids),
            boundaries=tuple(boundaries),
            warnings=tuple(warnings),
        )

    def _marked(self, request: ChatRequest) -> tuple[Conversation, str | None]:
        """The request's texts with marks, and the mark if there is one in them."""
        texts = [text for _, text in texts_of(request)]
        mark = choose_mark([self.template.source, *texts])
        marker = self.tokenizer.marker
        needing = {text for text in texts if marker.mark(text, mark) != text}
        if not needing:
            return Conversation(request.messages, request.tools), None
        return with_texts_changed(
            request, lambda text: marker.mark(text, mark) if text in needing else text
        ), mark

    def _plain_messages(self, conversation: Conversation, warnings: list[str]) -> list[ChatMessage]:
        """Messages that this template can render."""
        messages = list(conversation.messages)
        if not self.traits.supports_mid_system:
            messages = with_system_in_front(messages, warnings)
        if not self.traits.supports_tools:
            messages = self._with_tools_as_text(messages, conversation.tools)
        if not self.traits.supports_system:
            messages = with_system_in_user(messages, warnings)
        return messages if self.traits.supports_repeated_user else with_users_joined(messages)

    def _with_tools_as_text(
        self, messages: Sequence[ChatMessage], tools: Sequence[ChatTool]
    ) -> list[ChatMessage]:
        changed = [self._as_text(message) for message in messages]
        if not tools:
            return changed
        has_system = changed[0].role == "system"
        system = with_tools(changed[0].content if has_system else "", tools, self.tool_format)
        return [ChatMessage(role="system", content=system), *changed[int(has_system) :]]

    def _as_text(self, message: ChatMessage) -> ChatMessage:
        if message.role == "tool":
            if self.traits.supports_tool_role:
                return ChatMessage(role="tool", content=message.content)
            return ChatMessage(role="user", content=tool_response(message.content))
        if not message.tool_calls:
            return message
        form = self.tool_format
        calls = form.separator.join(
            form.call_text(call.name, call.arguments) for call in message.tool_calls
        )
        gap = form.gap if message.content else ""
        content = f"{message.content}{gap}{form.opening}{calls}{form.closing}"
        return ChatMessage(role="assistant", content=content)

    def _template_message(self, message: ChatMessage) -> Mapping[str, object]:
        value: dict[str, object] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            value["tool_calls"] = [self._template_call(call) for call in message.tool_calls]
        if message.tool_call_id is not None:
            value["tool_call_id"] = self._call_id(message.tool_call_id)
        return value

    def _template_call(self, call: ChatToolCall) -> Mapping[str, object]:
        function = {"name": call.name, "arguments": VerbatimJson(call.arguments)}
        return {"id": self._call_id(call.id), "type": "function", "function": function}

    def _call_id(self, call_id: str) -> str:
        """Mistral's templates refuse ids that do not have nine letters or digits."""
        if self.tool_format.name != "mistral" or (len(call_id) == 9 and call_id.isalnum()):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[:9]


def _template_tool(tool: ChatTool) -> Mapping[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
