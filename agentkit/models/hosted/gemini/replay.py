"""An assistant's turn as the parts that it came in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import assert_never

from agentkit.blocks import AssistantBlock, Text, Thinking, ToolCall, VendorItem
from agentkit.caching.policy import BlockKind
from agentkit.models.hosted.gemini.vendor import (
    BORDER,
    NO_SIGNATURE,
    SIGNATURE,
    VENDOR,
    is_ours,
    sent_id,
    signature_of,
    wants_signatures,
)
from agentkit.models.hosted.wire_json import is_json_object


def assistant_parts(
    blocks: Sequence[AssistantBlock], *, model: str
) -> Iterator[tuple[BlockKind, bytes]]:
    """Yield the parts of a turn. What other vendors' models signed is left out."""
    stand_in = _stand_in(blocks, model)
    pending: str | None = None
    for block in blocks:
        match block:
            case VendorItem():
                if is_ours(block.source):
                    pending = signature_of(block)
                    if pending is None and block.data != BORDER:
                        yield BlockKind.TEXT, block.data.encode()
            case Thinking():
                if block.source == f"{VENDOR}:{model}":
                    yield BlockKind.THINKING, _thought(block)
            case Text():
                if block.text:
                    yield BlockKind.TEXT, _object(_text(block.text), _signed(pending))
                    pending = None
            case ToolCall():
                yield BlockKind.TOOL_USE, _object(_call(block), _signed(pending or stand_in))
                pending = stand_in = None
            case _:
                assert_never(block)


def arguments_json(arguments: str) -> str:
    """Return the exact text of a call's arguments if it is a JSON object, else one that holds it.

    A model that wrote no object is told so by the result of its call; the API takes only objects.
    """
    if is_json_object(arguments):
        return arguments
    return f'{{"malformed_arguments":{_quoted(arguments)}}}'


def _stand_in(blocks: Sequence[AssistantBlock], model: str) -> str | None:
    """Return what to sign the first call of a turn with, if no model of this vendor did."""
    signed = any(
        isinstance(block, VendorItem) and is_ours(block.source) and SIGNATURE in block.data
        for block in blocks
    )
    return None if signed or not wants_signatures(model) else NO_SIGNATURE


def _thought(block: Thinking) -> bytes:
    members = [_text(block.text), '"thought":true', _signed(block.signature)]
    return _object(*members)


def _call(call: ToolCall) -> str:
    members = [f'"{name}":{_quoted(str(value))}' for name, value in sent_id(call.id).items()]
    members += [f'"name":{_quoted(call.name)}', f'"args":{arguments_json(call.arguments)}']
    return f'"functionCall":{{{",".join(members)}}}'


def _text(text: str) -> str:
    return f'"text":{_quoted(text)}'


def _signed(signature: str | None) -> str:
    return "" if signature is None else f'"{SIGNATURE}":{_quoted(signature)}'


def _object(*members: str) -> bytes:
    return f"{{{','.join(member for member in members if member)}}}".encode()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
