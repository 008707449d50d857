"""The strings of a chat request that come from outside: checked, listed, and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from agentkit_runtime.chat import ChatMessage, ChatTool, ChatToolCall
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.json_check import check_json


def check_messages(messages: Sequence[ChatMessage], first: int = 0) -> None:
    """Raise `RequestRejected`, naming the field, for text that is not Unicode.

    `first` is the rank of the first of `messages` in its request.
    """
    for i, message in enumerate(messages, first):
        for field, text in message_texts(message):
            check_unicode(f"messages[{i}].{field}", text)


def check_tools(tools: Sequence[ChatTool]) -> None:
    """Raise `RequestRejected`, naming the field, for tools that no template could render."""
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise RequestRejected(f"two tools are called {name!r}", field="tools")
    for i, tool in enumerate(tools):
        check_json(tool.parameters, f"tools[{i}].parameters")
        for field, text in tool_texts(tool):
            check_unicode(f"tools[{i}].{field}", text)


def check_unicode(field: str, text: str) -> None:
    """Raise `RequestRejected`, naming the field, for text that is not Unicode."""
    if not is_unicode(text):
        raise RequestRejected(
            f"{field} holds a lone surrogate, which is not a character; "
            "decode the text properly or replace it",
            field=field,
        )


def is_unicode(text: str) -> bool:
    """Whether `text` can be sent: a string may hold halves of surrogate pairs."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def content_bytes(messages: Sequence[ChatMessage]) -> int:
    """UTF-8 bytes of the messages' contents."""
    return sum(len(message.content.encode("utf-8", "surrogatepass")) for message in messages)


def message_texts(message: ChatMessage) -> Iterator[tuple[str, str]]:
    """Every string of a message that gets into the prompt, with the name of its field."""
    yield "content", message.content
    if message.reasoning:
        yield "reasoning", message.reasoning
    if message.tool_call_id is not None:
        yield "tool_call_id", message.tool_call_id
    for k, call in enumerate(message.tool_calls):
        yield f"tool_calls[{k}].id", call.id
        yield f"tool_calls[{k}].name", call.name
        yield f"tool_calls[{k}].arguments", call.arguments


def tool_texts(tool: ChatTool) -> Iterator[tuple[str, str]]:
    """Every string of a tool that gets into the prompt, with the name of its field."""
    yield "name", tool.name
    yield "description", tool.description
    for text in _strings_in(tool.parameters):
        yield "parameters", text


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


def with_tool_changed(tool: ChatTool, change: Callable[[str], str]) -> ChatTool:
    """The tool with `change` applied to every string of it."""
    return ChatTool(
        name=change(tool.name),
        description=change(tool.description),
        parameters={
            change(str(key)): _mapped_value(value, change) for key, value in tool.parameters.items()
        },
    )


def with_message_changed(message: ChatMessage, change: Callable[[str], str]) -> ChatMessage:
    """The message with `change` applied to every string of it."""
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
        reasoning=change(message.reasoning),
    )


def _mapped_value(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _mapped_value(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped_value(item, change) for item in value]
    return value
