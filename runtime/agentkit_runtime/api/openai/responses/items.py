"""Input items -> `ChatMessage`s. What a model said in several items in a row is one message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.arguments import as_generated
from agentkit_runtime.api.openai.custom import arguments_of
from agentkit_runtime.api.openai.request import ContentPart
from agentkit_runtime.api.openai.responses.request import InputItem
from agentkit_runtime.api.openai.responses.thinking import thinking_in
from agentkit_runtime.api.openai.responses.tools import shown_name
from agentkit_runtime.chat import ChatMessage, ChatToolCall, Role

_TEXT_PARTS = ("input_text", "output_text", "text", "refusal", "reasoning_text", "summary_text")


def decode_items(
    items: str | Sequence[InputItem], earlier_calls: frozenset[str]
) -> tuple[ChatMessage, ...]:
    """The messages of an input.

    `earlier_calls` are ids of calls in the conversation that is continued.

    Raises:
        ApiError: 400, for an item that this model cannot read or that does not fit here.
    """
    if isinstance(items, str):
        return (ChatMessage(role="user", content=items),)
    reading = _Reading(call_ids=set(earlier_calls))
    for index, item in enumerate(items):
        reading.add(item, f"input[{index}]")
    reading.end_turn()
    return tuple(reading.messages)


@dataclass(slots=True)
class _Turn:
    """What the assistant says until somebody else speaks."""

    content: str | None = None
    reasoning: str = ""
    calls: list[ChatToolCall] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The messages so far."""

    call_ids: set[str]
    messages: list[ChatMessage] = field(default_factory=list)
    turn: _Turn | None = None

    def add(self, item: InputItem, path: str) -> None:
        """Read one more item."""
        match item.type:
            case None | "message":
                self._message(item, path)
            case "function_call":
                self._call(item, path)
            case "custom_tool_call":
                self._custom_call(item, path)
            case "function_call_output" | "custom_tool_call_output":
                self._result(item, path)
            case "reasoning":
                self._reasoning(item, path)
            case "additional_tools" if not self.messages and self.turn is None:
                pass  # they are among the request's
            case "additional_tools":
                raise ApiError(
                    f"{path} brings tools in the middle of the conversation, but this model reads "
                    "all of them in front; put it before the first message",
                    param=path,
                    code="unsupported_content",
                )
            case _:
                raise ApiError(
                    f"{path}.type is {item.type!r}; this server reads message, reasoning, "
                    "function_call, custom_tool_call, and the outputs of both",
                    param=f"{path}.type",
                    code="unsupported_content",
                )

    def end_turn(self) -> None:
        """What the assistant said so far is a message."""
        turn, self.turn = self.turn, None
        if turn is None or (turn.content is None and not turn.calls):
            return  # thinking alone says nothing
        self.messages.append(
            ChatMessage(
                role="assistant",
                content=turn.content or "",
                tool_calls=tuple(turn.calls),
                reasoning=turn.reasoning,
            )
        )

    def _message(self, item: InputItem, path: str) -> None:
        if item.role is None:
            raise ApiError(f"{path}.role is missing", param=f"{path}.role")
        if item.content is None:
            raise ApiError(f"{path}.content is missing", param=f"{path}.content")
        text = _text(item.content, f"{path}.content")
        if item.role == "assistant":
            if self.turn is None or self.turn.content is not None or self.turn.calls:
                self.end_turn()
            turn = self._turn()
            turn.content = text
            return
        self.end_turn()
        role: Role = "user" if item.role == "user" else "system"
        self.messages.append(ChatMessage(role=role, content=text))

    def _call(self, item: InputItem, path: str) -> None:
        arguments = _needed(item.arguments, f"{path}.arguments")
        self._add_call(item, as_generated(arguments), path)

    def _custom_call(self, item: InputItem, path: str) -> None:
        self._add_call(item, arguments_of(_needed(item.input, f"{path}.input")), path)

    def _add_call(self, item: InputItem, arguments: str, path: str) -> None:
        call_id = _needed(item.call_id, f"{path}.call_id")
        name = shown_name(_needed(item.name, f"{path}.name"), item.namespace)
        self._turn().calls.append(ChatToolCall(id=call_id, name=name, arguments=arguments))
        self.call_ids.add(call_id)

    def _result(self, item: InputItem, path: str) -> None:
        self.end_turn()
        if item.call_id not in self.call_ids:
            raise ApiError(
                f"{path}.call_id is {item.call_id!r}, but there is no earlier call with that id",
                param=f"{path}.call_id",
            )
        if item.output is None:
            raise ApiError(f"{path}.output is missing", param=f"{path}.output")
        self.messages.append(
            ChatMessage(
                role="tool",
                content=_text(item.output, f"{path}.output"),
                tool_call_id=item.call_id,
            )
        )

    def _reasoning(self, item: InputItem, path: str) -> None:
        if self.turn is not None and (self.turn.content is not None or self.turn.calls):
            self.end_turn()
        thinking = _text(item.content or "", f"{path}.content")
        if not thinking and item.encrypted_content is not None:
            thinking = thinking_in(item.encrypted_content)
        if thinking:
            self._turn().reasoning += thinking

    def _turn(self) -> _Turn:
        if self.turn is None:
            self.turn = _Turn()
        return self.turn


def _needed(value: str | None, path: str) -> str:
    if value is None:
        raise ApiError(f"{path} is missing", param=path)
    return value


def _text(content: str | Sequence[ContentPart], path: str) -> str:
    """Text parts are separate blocks: they are joined with one newline."""
    if isinstance(content, str):
        return content
    return "\n".join(_part(part, f"{path}[{index}]") for index, part in enumerate(content))


def _part(part: ContentPart, path: str) -> str:
    if part.type not in _TEXT_PARTS:
        raise ApiError(
            f"{path}.type is {part.type!r}; this model reads only text",
            param=f"{path}.type",
            code="unsupported_content",
        )
    text = part.text
    if text is None and part.type == "refusal":
        text = str((part.model_extra or {}).get("refusal", ""))
    return _needed(text, f"{path}.text")
