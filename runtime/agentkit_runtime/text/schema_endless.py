"""Finds schemas that no finite value satisfies: a value must hold a value of the same schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def requires_itself(document: Mapping[str, object]) -> bool:
    """Whether following only what must be there leads from a schema back to itself.

    Follows local `$ref`, required properties, the items of lists that may not be empty, `allOf`,
    and `anyOf` and `oneOf` where there is one choice. True is certain, False is not.
    """
    return _leads_back(document, document, frozenset(), set())


def _leads_back(
    schema: object, document: Mapping[str, object], path: frozenset[int], finite: set[int]
) -> bool:
    if not isinstance(schema, Mapping) or id(schema) in finite:
        return False
    if id(schema) in path:
        return True
    deeper = path | {id(schema)}
    if any(_leads_back(part, document, deeper, finite) for part in _needed(schema, document)):
        return True
    finite.add(id(schema))
    return False


def _needed(schema: Mapping[str, object], document: Mapping[str, object]) -> Iterator[object]:
    """The schemas that every value of `schema` also holds or satisfies."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield _resolved(reference, document)
    for key in ("allOf", "anyOf", "oneOf"):
        members = schema.get(key)
        if isinstance(members, (list, tuple)) and (key == "allOf" or len(members) == 1):
            yield from members
    # A schema that also allows other types need not have properties or items.
    properties, required = schema.get("properties"), schema.get("required")
    if (
        schema.get("type") == "object"
        and isinstance(properties, Mapping)
        and isinstance(required, (list, tuple))
    ):
        yield from (properties.get(name) for name in required if isinstance(name, str))
    least = schema.get("minItems")
    if schema.get("type") == "array" and isinstance(least, int) and least > 0:
        yield schema.get("items")


def _resolved(reference: str, document: Mapping[str, object]) -> object:
    """What a local JSON pointer names; None for what is not there."""
    if not reference.startswith("#"):
        return None
    found: object = document
    for part in reference.removeprefix("#").removeprefix("/").split("/"):
        if part:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
    return found
