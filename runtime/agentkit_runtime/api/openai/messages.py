"""Messages of a chat completion body -> `ChatMessage`s. Content is kept byte for byte."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.arguments import as_generated
from agentkit_runtime.api.openai.custom import arguments_of
from agentkit_runtime.api.openai.request import ContentPart, Message, ToolCallBody
from agentkit_runtime.chat import ChatMessage, ChatToolCall, Role


def decode_messages(messages: Sequence[Message]) -> tuple[ChatMessage, ...]:
    """Check each message against its role and what came before. Raises `ApiError` (400)."""
    decoded: list[ChatMessage] = []
    call_ids: set[str] = set()
    for index, message in enumerate(messages):
        decoded.append(_message(message, f"messages[{index}]", call_ids))
        call_ids.update(call.id for call in decoded[-1].tool_calls)
    return tuple(decoded)


def _message(message: Message, path: str, call_ids: set[str]) -> ChatMessage:
    calls = tuple(
        _tool_call(call, f"{path}.tool_calls[{index}]")
        for index, call in enumerate(message.tool_calls or ())
    )
    _check_role(message, path, calls, call_ids)
    return ChatMessage(
        role=_role(message),
        content=_text(message.content, f"{path}.content"),
        tool_calls=calls,
        tool_call_id=message.tool_call_id if message.role == "tool" else None,
        reasoning=(message.reasoning_content or "") if message.role == "assistant" else "",
    )


def _role(message: Message) -> Role:
    return "system" if message.role == "developer" else message.role


def _check_role(
    message: Message, path: str, calls: tuple[ChatToolCall, ...], call_ids: set[str]
) -> None:
    if calls and message.role != "assistant":
        raise ApiError(
            f"{path}.tool_calls belongs to the assistant, not to role {message.role!r}",
            param=f"{path}.tool_calls",
        )
    if message.content is None and not calls:
        raise ApiError(f"{path}.content is missing", param=f"{path}.content")
    if message.role == "tool" and message.tool_call_id not in call_ids:
        raise ApiError(
            f"{path}.tool_call_id is {message.tool_call_id!r}, but no earlier assistant message "
            "made a call with that id",
            param=f"{path}.tool_call_id",
        )


def _text(content: str | list[ContentPart] | None, path: str) -> str:
    """Text parts are separate blocks: they are joined with one newline."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_part(part, f"{path}[{index}]") for index, part in enumerate(content))


def _part(part: ContentPart, path: str) -> str:
    refusal = (part.model_extra or {}).get("refusal")
    if part.type == "refusal" and isinstance(refusal, str):
        return refusal  # what an assistant said, for all that a template can tell
    if part.type != "text":
        raise ApiError(
            f"{path}.type is {part.type!r}; this model reads only text",
            param=f"{path}.type",
            code="unsupported_content",
        )
    if part.text is None:
        raise ApiError(f"{path}.text is missing", param=f"{path}.text")
    return part.text


def _tool_call(call: ToolCallBody, path: str) -> ChatToolCall:
    if call.type == "custom" and call.custom is not None:
        arguments = arguments_of(call.custom.input)
        return ChatToolCall(id=call.id, name=call.custom.name, arguments=arguments)
    if call.type != "function" or call.function is None:
        raise ApiError(f"{path} must be a function call or a custom call", param=path)
    arguments = as_generated(call.function.arguments)
    return ChatToolCall(id=call.id, name=call.function.name, arguments=arguments)
