"""JSON pointers, and the places of a schema document at which schemas stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

MAPS = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))
"""Keywords that hold schemas by name."""
LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords that hold a list of schemas."""
SINGLES = frozenset(
    (
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"),
        *("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
"""Keywords that hold one schema."""


def child(pointer: str, *names: str | int) -> str:
    """Return the pointer to a part of what `pointer` names."""
    steps = (str(name).replace("~", "~0").replace("/", "~1") for name in names)
    return "".join((pointer, *(f"/{step}" for step in steps)))


def resolve(reference: str, document: Mapping[str, object]) -> object:
    """Return what a local reference (`#/$defs/X`) names; None where nothing is there."""
    if reference == "#":
        return document
    if not reference.startswith("#/"):
        return None
    found: object = document
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, Sequence) and not isinstance(found, str) and name.isdigit():
            found = found[int(name)] if int(name) < len(found) else None
        else:
            return None
    return found


def subschemas(schema: object, pointer: str = "") -> Iterator[tuple[str, object]]:
    """Yield all schemas in a schema, itself first, each with its pointer."""
    yield pointer, schema
    if not isinstance(schema, Mapping):
        return
    for key, part in schema.items():
        for at, each in _held(key, part, child(pointer, key)):
            yield from subschemas(each, at)


def _held(key: str, part: object, pointer: str) -> Iterator[tuple[str, object]]:
    if key in MAPS and isinstance(part, Mapping):
        yield from ((child(pointer, name), each) for name, each in part.items())
    elif key in LISTS and isinstance(part, list | tuple):
        yield from ((child(pointer, place), each) for place, each in enumerate(part))
    elif key in SINGLES:
        yield pointer, part
