"""A context as the runtime's messages: its front as system messages, then its history.

Each message is made of one segment (the front: of all of it), so a longer history has the messages
of the shorter one in front of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Text,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
)
from agentkit.context import Document, Segment, SystemPart, SystemText, ToolList
from agentkit.errors import RequestRefused
from agentkit.models.documents import document_text
from agentkit.models.own.reply_ids import ids_of
from agentkit_runtime import chat


def front_messages(front: Iterable[Segment], *, has_tools: bool) -> Iterator[chat.ChatMessage]:
    """Yield what the prompt begins with: at most two system messages.

    The tools themselves are a field of the request; here it only counts whether there are any.
    """
    contents = [segment.content for segment in front]
    texts = [content for content in contents if isinstance(content, SystemText)]
    rules = _system_text(texts, SystemPart.RULES)
    if rules or has_tools:
        # Also without rules: the runtime puts the tools into the first system message, and text of
        # one agent before them would keep its team from sharing them.
        yield chat.ChatMessage(role="system", content=rules)
    own = [_system_text(texts, SystemPart.ROLE), _system_text(texts, SystemPart.EXAMPLES)]
    documents = [document_text(content) for content in contents if isinstance(content, Document)]
    text = "\n\n".join(part for part in (*own, *documents) if part)
    if text:
        yield chat.ChatMessage(role="system", content=text)


def history_messages(segment: Segment) -> Iterator[chat.ChatMessage]:
    """Yield what a segment of the history becomes; none for one of the front.

    Raises:
        RequestRefused: it has an image or a file.
    """
    match message := segment.content:
        case SystemText() | ToolList() | Document():
            return
        case UserMessage():
            _check_readable(block for block in message.blocks if not isinstance(block, Text))
            yield chat.ChatMessage(role="user", content=message.text)
        case AssistantMessage():
            # Thinking of other vendors' models stays behind: ours would read it as an answer.
            calls = tuple(
                chat.ChatToolCall(id=call.id, name=call.name, arguments=call.arguments)
                for call in message.calls
            )
            yield chat.ChatMessage(
                role="assistant",
                content=message.text,
                tool_calls=calls,
                token_ids=ids_of(message),
            )
        case ToolMessage():
            for result in message.results:
                _check_readable(result.attachments)
                yield chat.ChatMessage(
                    role="tool", content=_result_text(result), tool_call_id=result.call_id
                )
        case ToolsMessage():
            return  # they are the last of the request's tools
        case _:
            assert_never(message)


def _system_text(texts: Iterable[SystemText], part: SystemPart) -> str:
    return "".join(each.text for each in texts if each.part is part)


def _check_readable(attachments: Iterable[Image | File]) -> None:
    for attachment in attachments:
        raise RequestRefused(
            f"the bundled runtime reads text only, but the context has a {attachment.kind} "
            f"({attachment.media_type}); describe it as text, or use a model that can see"
        )


def _result_text(result: ToolResult) -> str:
    # The runtime's messages have no error flag, so the text must say it.
    return f"Error: {result.content}" if result.is_error else result.content
