"""The form of an answer for APIs whose schemas must be objects, as OpenAI's.

A list, a choice or a number is then asked for as the one member of an object. What the model wrote
stays in the context as it wrote it; `without_object` takes the value out of it. The member's name
is one that the value itself cannot well have, so that nobody need guess what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

_MEMBER = "answer"
_MEMBER_OF_ANY = "the_whole_answer"
"""Where a value may have members of any name."""


def is_object(schema: Mapping[str, object]) -> bool:
    """Whether a schema says at its root that the value is an object."""
    return schema.get("type") == "object" and "anyOf" not in schema


def as_object(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a schema of an object for the same answers; objects stay as they are."""
    if is_object(schema):
        return schema
    member = member_of(schema)
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    shared = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        "type": "object",
        "properties": {member: inner},
        "required": [member],
        "additionalProperties": False,
        **shared,
    }


def member_of(schema: Mapping[str, object]) -> str:
    """Return the name of the one member of `as_object(schema)`."""
    names: set[str] = set()
    is_open = False
    for choice in _choices(schema, schema, set()):
        names |= cast("Mapping[str, object]", choice.get("properties", {})).keys()
        is_open = is_open or _has_any_names(choice)
    member = _MEMBER_OF_ANY if is_open else _MEMBER
    while member in names:
        member += "_"
    return member


def without_object(text: str, member: str = _MEMBER) -> str | None:
    """Return the JSON text of the value that an answer has as its one member, if it has."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.keys() != {member}:
        return None
    # As it was written: a number may have more digits than a float.
    start = re.match(rf'\s*\{{\s*"{re.escape(member)}"\s*:', text)
    return None if start is None else text[start.end() :].rstrip()[:-1]


def _choices(
    schema: Mapping[str, object], root: Mapping[str, object], seen: set[str]
) -> Iterator[Mapping[str, object]]:
    """Yield what a value may be, at its own root."""
    target = schema.get("$ref")
    if isinstance(target, str):
        if target not in seen:
            definitions = cast("Mapping[str, Mapping[str, object]]", root.get("$defs", {}))
            found = definitions.get(target.removeprefix("#/$defs/"), {})
            yield from _choices(found, root, seen | {target})
        return
    choices = [schema.get(key) for key in ("anyOf", "oneOf", "allOf")]
    if not any(choices):
        yield schema
    for each in choices:
        if isinstance(each, Sequence):
            for choice in each:
                yield from _choices(choice, root, seen)


def _has_any_names(schema: Mapping[str, object]) -> bool:
    """Whether a schema is of values that may be objects with members of any name."""
    if not schema.keys() & {"type", "enum", "const"}:
        return True
    kind = schema.get("type")
    if kind != "object" and not (isinstance(kind, Sequence) and "object" in kind):
        return False
    return "properties" not in schema or bool(schema.get("additionalProperties"))
