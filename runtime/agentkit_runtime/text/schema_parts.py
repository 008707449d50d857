"""What a JSON schema says about a value's type, and the alternatives that it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

Kind = Literal["string", "number", "integer", "boolean", "null", "array", "object"]
JsonObject: TypeAlias = Mapping[str, object]

ANY: frozenset[Kind] = frozenset(
    ("string", "number", "integer", "boolean", "null", "array", "object")
)
_KINDS: Mapping[str, frozenset[Kind]] = {
    **{kind: frozenset((kind,)) for kind in ANY},
    "number": frozenset(("number", "integer")),
}
_MAX_DEPTH = 16
_KEPT = ("title", "description", "default", "examples", "$defs", "definitions")


def kind_of(value: object) -> Kind:
    """The type of a JSON value; a number without a fraction is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def kinds(schema: object, root: JsonObject, depth: int = 0) -> frozenset[Kind]:
    """The types that `schema`, a part of `root`, allows; all where it does not say."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return ANY
    found = ANY
    if "$ref" in schema:
        found &= kinds(resolved(schema["$ref"], root), root, depth + 1)
    if "type" in schema:
        found &= _union(_KINDS.get(str(name), frozenset()) for name in _listed(schema["type"]))
    if "const" in schema:
        found &= {kind_of(schema["const"])}
    if isinstance(schema.get("enum"), (list, tuple)):
        found &= {kind_of(value) for value in _listed(schema["enum"])}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            found &= _union(kinds(part, root, depth + 1) for part in _listed(schema[key]))
    for part in _listed(schema.get("allOf", ())):
        found &= kinds(part, root, depth + 1)
    return found or ANY


def alternatives(schema: object, root: JsonObject, depth: int = 0) -> list[JsonObject]:
    """The schemas of which a value must fit one: `anyOf`, `oneOf`, and types in a list, unfolded.

    What cannot be unfolded is its own only alternative.
    """
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return [schema if isinstance(schema, Mapping) else {}]
    said = {key for key in schema if key not in _KEPT}
    if said == {"$ref"}:
        return alternatives(resolved(schema["$ref"], root), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if said == {key}:
            parts = (alternatives(part, root, depth + 1) for part in _listed(schema[key]))
            return [leaf for part in parts for leaf in part]
    if isinstance(schema.get("type"), (list, tuple)) and not said & {"enum", "const"}:
        return [{**schema, "type": name} for name in _listed(schema["type"])]
    return [schema]


def resolved(reference: object, root: JsonObject) -> object:
    """The part of `root` that a local reference, such as `#/$defs/x`, names; else None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    part: object = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) else None
    return part


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _union(parts: Iterable[frozenset[Kind]]) -> frozenset[Kind]:
    return frozenset().union(*parts)
