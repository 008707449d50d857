"""The API's own items of a turn, as they are kept in the history and sent back.

An item with a `type` is a whole content block. One without adds its fields to the block before it
(`caller` of a tool call, `citations` of a text), separates two texts (`{}`), or says something of
the response that a later request must name (`message_id`, `container`).
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.caching.policy import BlockKind
from agentkit.models.hosted.wire_json import compact_json

ADDED_FIELDS = ("caller", "citations")
MESSAGE_ID = "message_id"
CONTAINER = "container"
SEPARATOR = "{}"


def added_fields(fields: Mapping[str, object]) -> bytes:
    """Return what an item without a type adds to the block before it."""
    return b",".join(
        compact_json(name) + b":" + compact_json(fields[name])
        for name in ADDED_FIELDS
        if name in fields
    )


def kind_of(block_type: str) -> BlockKind:
    """Return what a whole block is to caches."""
    if block_type in _KINDS:
        return _KINDS[block_type]
    if block_type.endswith("_tool_result"):
        return BlockKind.SERVER_TOOL_RESULT
    # Of a type that we do not know we cannot say that it may be marked; redacted thinking never is.
    return BlockKind.REDACTED_THINKING


def is_thinking(block_type: str) -> bool:
    """Whether a whole block may be bound to the prefix before it, and to its model."""
    return block_type == "redacted_thinking"


def is_called_by_code(fields: Mapping[str, object]) -> bool:
    """Whether an item says that code in the sandbox made the call before it."""
    caller = fields.get("caller")
    return isinstance(caller, Mapping) and caller.get("type") != "direct"


_KINDS = {
    "redacted_thinking": BlockKind.REDACTED_THINKING,
    "server_tool_use": BlockKind.SERVER_TOOL_USE,
    "mcp_tool_use": BlockKind.SERVER_TOOL_USE,
    "mcp_tool_result": BlockKind.SERVER_TOOL_RESULT,
    "compaction": BlockKind.COMPACTION,
    "container_upload": BlockKind.CONTAINER_UPLOAD,
}
