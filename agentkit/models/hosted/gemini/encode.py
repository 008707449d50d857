"""Segments of a context as pieces of a request: the parts that Gemini's API takes.

Every message is a content of its own, also beside one of the same role, so nothing that is
appended changes what was sent before.

    rules, role, examples, documents   one text part each of `systemInstruction`
    user                               role user: text, inlineData, fileData
    assistant                          role model: text, thoughts, functionCall, vendor items
    tool results                       role user: a functionResponse each; then a content with
                                       their attachments, if there are any
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Message,
    Text,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
)
from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block, Role
from agentkit.caching.tokens import attachment_tokens, data_tokens
from agentkit.context import Document, Segment, SystemText
from agentkit.context.segment import ToolList
from agentkit.models.documents import document_text
from agentkit.models.hosted.gemini.replay import assistant_parts
from agentkit.models.hosted.gemini.vendor import sent_id
from agentkit.models.hosted.wire import WireBlock
from agentkit.models.hosted.wire_json import compact_json
from agentkit.toolset import ToolSpec
from agentkit.toolset.canonical import canonical_json
from agentkit.toolset.provider_forms import schema_form


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """One entry of `contents`."""

    role: Role
    blocks: tuple[WireBlock, ...]


def tool_block(spec: ToolSpec, segment: int | None) -> WireBlock:
    """Return a function declaration. Its schema is JSON Schema, in the form that the API takes."""
    declaration = {
        "name": spec.name,
        "description": spec.description,
        "parametersJsonSchema": schema_form(spec, "gemini").parameters,
    }
    return _wire(BlockKind.TOOL, canonical_json(declaration), segment)


def system_blocks(segment: Segment, index: int) -> tuple[WireBlock, ...]:
    """Return the parts of `systemInstruction` that a segment makes; none for empty text."""
    match segment.content:
        case SystemText(text=text):
            return (text_block(text, index),) if text else ()
        case Document() as document:
            return (text_block(document_text(document), index),)
        case ToolList() | UserMessage() | AssistantMessage() | ToolMessage() | ToolsMessage():
            return ()
        case _:
            assert_never(segment.content)


def contents(message: Message, index: int, *, model: str) -> tuple[Content, ...]:
    """Return the contents that a message makes. None where it has nothing that the API takes."""
    match message:
        case UserMessage():
            found = [(Role.USER, list(_user(message.blocks, index)))]
        case AssistantMessage():
            parts = assistant_parts(message.blocks, model=model)
            found = [(Role.ASSISTANT, [_wire(kind, data, index) for kind, data in parts])]
        case ToolMessage():
            answers = [_result(result, index) for result in message.results]
            attached = [block for result in message.results for block in _attached(result, index)]
            found = [(Role.TOOL, answers), (Role.USER, attached)]
        case ToolsMessage():
            return ()
        case _:
            assert_never(message)
    return tuple(Content(role=role, blocks=tuple(blocks)) for role, blocks in found if blocks)


def text_block(text: str, segment: int | None) -> WireBlock:
    """Return a text part."""
    return _wire(BlockKind.TEXT, compact_json({"text": text}), segment)


def _user(blocks: Iterable[Text | Image | File], index: int) -> Iterator[WireBlock]:
    for block in blocks:
        if not isinstance(block, Text):
            yield _media(block, index)
        elif block.text:
            yield text_block(block.text, index)


def _result(result: ToolResult, index: int) -> WireBlock:
    # The keys are the API's own: `output` is what the function said, `error` that it failed.
    response = {"error" if result.is_error else "output": result.content}
    answer = {**sent_id(result.call_id), "name": result.name, "response": response}
    return _wire(BlockKind.TOOL_RESULT, compact_json({"functionResponse": answer}), index)


def _attached(result: ToolResult, index: int) -> Iterator[WireBlock]:
    """What text cannot carry. Only Gemini 3 takes it within a functionResponse; all take it here.

    The line in front says whose it is.
    """
    if result.attachments:
        yield text_block(f"Attached to the result of {result.name}:", index)
    for attachment in result.attachments:
        yield _media(attachment, index)


def _media(block: Image | File, index: int) -> WireBlock:
    if block.data is not None:
        part = {"inlineData": {"mimeType": block.media_type, "data": block.data}}
    else:
        part = {"fileData": {"mimeType": block.media_type, "fileUri": block.url or ""}}
    kind = BlockKind.IMAGE if isinstance(block, Image) else BlockKind.DOCUMENT
    return _wire(kind, compact_json(part), index, n_tokens=attachment_tokens(block))


def _wire(
    kind: BlockKind, data: bytes, segment: int | None, n_tokens: int | None = None
) -> WireBlock:
    block = Block(
        kind=kind,
        digest=hashlib.blake2b(data, digest_size=16).digest(),
        n_tokens=data_tokens(data) if n_tokens is None else n_tokens,
    )
    return WireBlock(block=block, data=data, segment=segment)
