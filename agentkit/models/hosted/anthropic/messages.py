"""One message of the history as content blocks. What is made here never changes afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

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
from agentkit.caching.policy import BlockKind
from agentkit.caching.tokens import attachment_tokens, data_tokens
from agentkit.errors import RequestRefused
from agentkit.models.hosted.anthropic.attachments import attachment_data, attachment_piece
from agentkit.models.hosted.anthropic.calls import MAX_NAME_CHARS, Calls, wire_input
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.front import later_tool_piece, text_data
from agentkit.models.hosted.anthropic.pieces import Piece, mark_of, piece, spliced
from agentkit.models.hosted.anthropic.vendor import added_fields, is_thinking, kind_of
from agentkit.models.hosted.call_ids import wire_name
from agentkit.models.hosted.wire_json import compact_json, object_of
from agentkit.toolset.later import later_specs


def message_pieces(message: Message, dialect: Dialect, calls: Calls) -> tuple[Piece, ...]:
    """Return the content blocks of a message; none where nothing of it can be sent.

    Empty text is left out, which the API refuses, and so is what other vendors' models left behind.

    Raises:
        RequestRefused: the message holds a file that Claude does not read.
    """
    match message:
        case UserMessage():
            return tuple(_user_pieces(message.blocks, dialect))
        case AssistantMessage():
            return _assistant_pieces(message.blocks, dialect, calls)
        case ToolMessage():
            return tuple(_result_piece(result, dialect, calls) for result in message.results)
        case ToolsMessage():
            return tuple(map(later_tool_piece, later_specs(message.added)))
        case _:
            assert_never(message)


def _user_pieces(blocks: tuple[UserBlock, ...], dialect: Dialect) -> Iterator[Piece]:
    for block in blocks:
        if isinstance(block, Text):
            yield from _text_pieces(block, dialect)
        else:
            yield attachment_piece(block, dialect)


def _assistant_pieces(
    blocks: tuple[AssistantBlock, ...], dialect: Dialect, calls: Calls
) -> tuple[Piece, ...]:
    found: list[Piece] = []
    added_to: int | None = None
    """Where a following item without a type belongs; None: what it belongs to is left out."""
    for block in blocks:
        if isinstance(block, VendorItem) and dialect.is_own(block.source):
            fields = object_of(block)
            if "type" not in fields:
                if added_to is not None:
                    found[added_to] = _with_fields(found[added_to], added_fields(fields))
                continue
        pieces = tuple(_assistant_block(block, dialect, calls))
        added_to = len(found) if pieces else None
        found += pieces
    return tuple(found)


def _assistant_block(block: AssistantBlock, dialect: Dialect, calls: Calls) -> Iterator[Piece]:
    match block:
        case Text():
            yield from _text_pieces(block, dialect)
        case Thinking():
            # Without its signature the API takes it for forged.
            if block.signature and dialect.takes_thinking(block.source):
                data = b'{"type":"thinking","thinking":%b,"signature":%b}'
                yield piece(
                    BlockKind.THINKING,
                    data % (compact_json(block.text), compact_json(block.signature)),
                )
        case ToolCall():
            yield _call_piece(block, calls)
        case VendorItem():
            yield from _item_pieces(block, dialect)
        case _:
            assert_never(block)


def _text_pieces(block: Text, dialect: Dialect) -> Iterator[Piece]:
    if block.text.strip():
        mark = mark_of(block.breakpoint, dialect.ttls)
        yield piece(BlockKind.TEXT, text_data(block.text), mark=mark)
    elif block.breakpoint is not None:
        raise RequestRefused(
            f"the text {block.text!r} has a breakpoint, and the API takes no empty text; set the "
            "breakpoint on the block before it"
        )


def _call_piece(call: ToolCall, calls: Calls) -> Piece:
    by_code = call.id in calls.by_code
    return piece(
        BlockKind.PROGRAMMATIC_TOOL_USE if by_code else BlockKind.TOOL_USE,
        b'{"type":"tool_use","id":%b,"name":%b,"input":%b}'
        % (
            compact_json(calls.wire_id(call.id)),
            compact_json(wire_name(call.name, max_chars=MAX_NAME_CHARS)),
            wire_input(call.arguments),
        ),
    )


def _item_pieces(item: VendorItem, dialect: Dialect) -> Iterator[Piece]:
    if not dialect.is_own(item.source):
        return
    block_type = str(object_of(item)["type"])
    if is_thinking(block_type) and not dialect.takes_thinking(item.source):
        return
    yield piece(kind_of(block_type), item.data.strip().encode())


def _result_piece(result: ToolResult, dialect: Dialect, calls: Calls) -> Piece:
    inner = [text_data(result.content)] if result.content.strip() else []
    inner += [_inner_attachment(block) for block in result.attachments]
    n_tokens = sum(map(attachment_tokens, result.attachments)) + data_tokens(
        _result_data(result, inner[: len(inner) - len(result.attachments)], calls)
    )
    by_code = result.call_id in calls.by_code
    return piece(
        BlockKind.PROGRAMMATIC_TOOL_RESULT if by_code else BlockKind.TOOL_RESULT,
        _result_data(result, inner, calls),
        n_tokens=n_tokens,
        shows_image=any(isinstance(block, Image) for block in result.attachments),
    )


def _result_data(result: ToolResult, inner: list[bytes], calls: Calls) -> bytes:
    content = b',"content":[%b]' % b",".join(inner) if inner else b""
    error = b',"is_error":true' if result.is_error else b""
    return b'{"type":"tool_result","tool_use_id":%b%b%b}' % (
        compact_json(calls.wire_id(result.call_id)),
        content,
        error,
    )


def _inner_attachment(block: Image | File) -> bytes:
    """A tool may return any file. One that Claude does not read must not end the run."""
    try:
        return attachment_data(block)
    except RequestRefused as error:
        return text_data(f"[A {block.kind} was left out here: {error}]")


def _with_fields(before: Piece, fields: bytes) -> Piece:
    if not fields:
        return before
    data = spliced(before.data, fields)
    return piece(before.block.kind, data, mark=before.block.mark)
