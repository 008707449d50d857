"""Messages in the form that the GenAI conventions give them, as JSON text for an attribute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from agentkit.blocks import (
    AssistantBlock,
    AssistantMessage,
    File,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserBlock,
    UserMessage,
    VendorItem,
)
from agentkit.context import Context
from agentkit.context.segment import SystemText
from agentkit.events import FinishReason

_DEEPEST = 100
"""Levels of arguments that are shown as JSON; deeper ones are shown as the model's text."""


def input_messages(messages: Iterable[Message]) -> str:
    """Return messages as `gen_ai.input.messages`. Bytes of images and files are left out."""
    return _text([{"role": message.kind, "parts": _parts(message)} for message in messages])


def output_messages(message: AssistantMessage, finish: FinishReason) -> str:
    """Return an answer as `gen_ai.output.messages`."""
    return _text([{"role": "assistant", "parts": _parts(message), "finish_reason": finish}])


def system_instructions(context: Context) -> str:
    """Return rules, role and examples as `gen_ai.system_instructions`."""
    found = [segment.content for segment in context.front]
    texts = [content.text for content in found if isinstance(content, SystemText)]
    return _text([{"type": "text", "content": text} for text in texts])


def _parts(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage() | AssistantMessage():
            return list(_block_parts(message.blocks))
        case ToolMessage():
            return list(_result_parts(message.results))
        case ToolsMessage():
            return [{"type": "tools", "names": list(message.names)}]


def _block_parts(blocks: Iterable[UserBlock | AssistantBlock]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        match block:
            case Text():
                yield {"type": "text", "content": block.text}
            case Thinking():
                yield {"type": "reasoning", "content": block.text}
            case ToolCall():
                yield {
                    "type": "tool_call",
                    "id": block.id,
                    "name": block.name,
                    "arguments": _arguments(block.arguments),
                }
            case Image() | File():
                yield _attachment(block)
            case VendorItem():
                yield {"type": "vendor_item", "source": block.source}


def _result_parts(results: Iterable[ToolResult]) -> Iterator[dict[str, Any]]:
    for result in results:
        yield {"type": "tool_call_response", "id": result.call_id, "response": result.content}
        yield from map(_attachment, result.attachments)


def _attachment(block: Image | File) -> dict[str, Any]:
    modality = "image" if isinstance(block, Image) else "document"
    if block.url is not None:
        return {
            "type": "uri",
            "modality": modality,
            "mime_type": block.media_type,
            "uri": block.url,
        }
    return {"type": "blob", "modality": modality, "mime_type": block.media_type, "content": ""}


def _arguments(text: str) -> Any:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text  # as the model wrote it
    return text if _is_deep(value) else value


def _is_deep(value: Any) -> bool:
    """Whether a value is nested so deeply that writing it, here or elsewhere, may fail."""
    level = [value]
    for _ in range(_DEEPEST):
        nested = [each for each in level if isinstance(each, dict | list)]
        level = [
            item for each in nested for item in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
