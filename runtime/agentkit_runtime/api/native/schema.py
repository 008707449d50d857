"""What the OpenAPI description says of the bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit_runtime.wire_chat import NOT_SAID, ChatBody


def body_schema(body: type[ChatBody]) -> dict[str, object]:
    """The JSON schema of a body, in one piece: references of its own would not be found."""
    schema = body.model_json_schema()
    parts: Mapping[str, Any] = schema.pop("$defs", {})
    for name in NOT_SAID:
        parts["ChatRequest"]["properties"].pop(name)
    found: dict[str, object] = _inlined(schema, parts)
    return found


def _inlined(value: Any, parts: Mapping[str, Any]) -> Any:
    """`value` with the parts that it names in the names' places. No part holds itself."""
    match value:
        case {"$ref": str(name)}:
            return _inlined(parts[name.removeprefix("#/$defs/")], parts)
        case dict():
            return {key: _inlined(item, parts) for key, item in value.items()}
        case list():
            return [_inlined(item, parts) for item in value]
        case _:
            return value
