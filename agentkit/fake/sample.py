"""The least value that fits a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit.blocks import Json
from agentkit.fake.fields import JsonObject

_DEPTH = 8
"""Schemas that name themselves end here."""


def sample(schema: JsonObject) -> Json:
    """Return a small value that fits: required fields only, first choices, lowest numbers.

    It knows the keywords that tool schemas use; patterns and formats are not among them.
    """
    return _sample(schema, schema, _DEPTH)


def _sample(schema: JsonObject, root: JsonObject, depth: int) -> Json:
    schema = _resolved(schema, root)
    if depth == 0:
        return None
    given: Json
    for name in ("const", "default"):
        if name in schema:
            given = schema[name]
            return given
    if schema.get("enum"):
        given = schema["enum"][0]
        return given
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _sample(schema[name][0], root, depth - 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _of_type(str(kind[0] if isinstance(kind, list) else kind).lower(), schema, root, depth)


def _of_type(kind: str, schema: JsonObject, root: JsonObject, depth: int) -> Json:
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {
                name: _sample(properties.get(name, {}), root, depth - 1)
                for name in schema.get("required", ())
            }
        case "array":
            n_items = schema.get("minItems", 0)
            return [_sample(schema.get("items", {}), root, depth - 1) for _ in range(n_items)]
        case "integer":
            return int(schema.get("minimum", 0))
        case "number":
            return float(schema.get("minimum", 0))
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "x" * max(1, int(schema.get("minLength", 1)))


def _resolved(schema: JsonObject, root: JsonObject) -> JsonObject:
    for _ in range(_DEPTH):
        name = schema.get("$ref")
        if not isinstance(name, str):
            break
        found: Any = root
        for part in name.removeprefix("#/").split("/"):
            found = found.get(part, {}) if isinstance(found, Mapping) else {}
        schema = found
    return schema
