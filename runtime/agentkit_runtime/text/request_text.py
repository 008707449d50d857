"""The strings of a chat request that come from outside: checked, listed, and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatTool, ChatToolCall
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.json_check import check_json


@dataclass(frozen=True, slots=True)
class Conversation:
    """What gets into the prompt."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ChatTool, ...]


def check_request(request: ChatRequest) -> None:
    """Raise `RequestRejected`, naming the field, for what no template could render."""
    if not request.messages:
        raise RequestRejected("there are no messages; give at least one", field="messages")
    names = [tool.name for tool in request.tools]
    for name in names:
        if names.count(name) > 1:
            raise RequestRejected(f"two tools are called {name!r}", field="tools")
    for i, tool in enumerate(request.tools):
        check_json(tool.parameters, f"tools[{i}].parameters")
    for field, text in texts_of(request):
        if not _is_unicode(text):
            raise RequestRejected(
                f"{field} holds a lone surrogate, which is not a character; "
                "decode the text properly or replace it",
                field=field,
            )


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def texts_of(request: ChatRequest) -> Iterator[tuple[str, str]]:
    """Every string from outside that gets into the prompt, with the name of its field."""
    for i, message in enumerate(request.messages):
        yield f"messages[{i}].content", message.content
        if message.tool_call_id is not None:
            yield f"messages[{i}].tool_call_id", message.tool_call_id
        for k, call in enumerate(message.tool_calls):
            field = f"messages[{i}].tool_calls[{k}]"
            yield f"{field}.id", call.id
            yield f"{field}.name", call.name
            yield f"{field}.arguments", call.arguments
    for i, tool in enumerate(request.tools):
        yield f"tools[{i}].name", tool.name
        yield f"tools[{i}].description", tool.description
        for text in _strings_in(tool.parameters):
            yield f"tools[{i}].parameters", text


def _strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings_in(item)


def with_texts_changed(request: ChatRequest, change: Callable[[str], str]) -> Conversation:
    """The conversation with `change` applied to every string from outside."""
    return Conversation(
        tuple(_mapped_message(message, change) for message in request.messages),
        tuple(
            ChatTool(
                name=change(tool.name),
                description=change(tool.description),
                parameters={
                    change(str(key)): _mapped_value(value, change)
                    for key, value in tool.parameters.items()
                },
            )
            for tool in request.tools
        ),
    )


def _mapped_message(message: ChatMessage, change: Callable[[str], str]) -> ChatMessage:
    call_id = message.tool_call_id
    return ChatMessage(
        role=message.role,
        content=change(message.content),
        tool_calls=tuple(
            ChatToolCall(
                id=change(call.id), name=change(call.name), arguments=change(call.arguments)
            )
            for call in message.tool_calls
        ),
        tool_call_id=None if call_id is None else change(call_id),
    )


def _mapped_value(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _mapped_value(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped_value(item, change) for item in value]
    return value
