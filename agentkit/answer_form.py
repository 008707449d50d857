"""The form of an answer for APIs whose schemas must be objects, as OpenAI's.

A list, a choice or a number is then asked for as the one member of an object. What the model wrote
stays in the context as it wrote it; `without_object` takes the value out of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

MEMBER = "answer"
"""Name of the object's one member."""


def is_object(schema: Mapping[str, object]) -> bool:
    """Whether a schema says at its root that the value is an object."""
    return schema.get("type") == "object" and "anyOf" not in schema


def as_object(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a schema of an object for the same answers; objects stay as they are."""
    if is_object(schema):
        return schema
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    shared = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "object",
        "properties": {MEMBER: inner},
        "required": [MEMBER],
        "additionalProperties": False,
        **shared,
    }


def without_object(text: str) -> str | None:
    """Return the JSON text of the value that an answer has as its one member, if it has."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or value.keys() != {MEMBER}:
        return None
    return json.dumps(value[MEMBER], ensure_ascii=False)
