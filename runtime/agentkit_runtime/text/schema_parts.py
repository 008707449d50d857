"""What a JSON schema says of a tool's arguments one by one: types, alternatives, listed values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentkit_runtime.text.schema_bounds import MAX_KEY_CHARS, UnboundableSchema

Kind = Literal["string", "number", "integer", "boolean", "null", "array", "object"]
JsonObject: TypeAlias = Mapping[str, object]

ANY: frozenset[Kind] = frozenset(
    ("string", "number", "integer", "boolean", "null", "array", "object")
)
_KINDS: Mapping[str, frozenset[Kind]] = {
    **{kind: frozenset((kind,)) for kind in ANY},
    "number": frozenset(("number", "integer")),
}
_MAX_DEPTH = 64
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


def kinds(schema: object, root: JsonObject) -> frozenset[Kind]:
    """The types that `schema`, a part of `root`, allows; all where it does not say."""
    return _Kinds(root).of(schema, 0)


class _Kinds:
    """Looks at each definition once: schemas come from outside, and can name each other."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._known: dict[str, frozenset[Kind]] = {}

    def of(self, schema: object, depth: int) -> frozenset[Kind]:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return ANY
        found = ANY
        if "$ref" in schema:
            found &= self._named(str(schema["$ref"]), depth)
        if "type" in schema:
            found &= _union(_KINDS.get(str(name), frozenset()) for name in _listed(schema["type"]))
        values = listed_values(schema)
        if values is not None:
            found &= {kind_of(value) for value in values}
        for key in ("anyOf", "oneOf"):
            if key in schema:
                found &= _union(self.of(part, depth + 1) for part in _listed(schema[key]))
        for part in _listed(schema.get("allOf", ())):
            found &= self.of(part, depth + 1)
        return found or ANY

    def _named(self, reference: str, depth: int) -> frozenset[Kind]:
        if reference not in self._known:
            self._known[reference] = ANY
            self._known[reference] = self.of(resolved(reference, self._root), depth + 1)
        return self._known[reference]


def alternatives(schema: object, root: JsonObject) -> list[JsonObject]:
    """The schemas of which a value must fit one: `anyOf`, `oneOf`, and types in a list, unfolded.

    What cannot be unfolded is its own only alternative.
    """
    return list(_unfolded(schema, root, set(), 0)) or [{}]


def _unfolded(
    schema: object, root: JsonObject, unfolded: set[str], depth: int
) -> Iterator[JsonObject]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        yield schema if isinstance(schema, Mapping) else {}
        return
    said = {key for key in schema if key not in _KEPT}
    if said == {"$ref"}:
        reference = str(schema["$ref"])
        if reference not in unfolded:  # else its alternatives are among these already
            unfolded.add(reference)
            yield from _unfolded(resolved(reference, root), root, unfolded, depth + 1)
    elif said in ({"anyOf"}, {"oneOf"}):
        for part in _listed(schema[said.pop()]):
            yield from _unfolded(part, root, unfolded, depth + 1)
    elif isinstance(schema.get("type"), (list, tuple)) and not said & {"enum", "const"}:
        yield from ({**schema, "type": name} for name in _listed(schema["type"]))
    else:
        yield schema


def listed_values(leaf: JsonObject) -> Sequence[object] | None:
    """The values of an `enum` or a `const`; None for a schema without."""
    if "const" in leaf:
        return [leaf["const"]]
    values = leaf.get("enum")
    return values if isinstance(values, (list, tuple)) and values else None


def by_itself(leaf: JsonObject, root: JsonObject) -> dict[str, object]:
    """A part of `root` with the definitions that it may name."""
    names = ("$defs", "definitions") if "$ref" in json.dumps(leaf) else ()
    return {**leaf, **{key: root[key] for key in names if key in root}}


@dataclass(frozen=True, slots=True)
class Argument:
    """One of a tool's arguments."""

    name: str
    schema: object
    is_required: bool


@dataclass(frozen=True, slots=True)
class Arguments:
    """A tool's arguments."""

    named: tuple[Argument, ...]
    others: JsonObject | None
    """The schema of arguments without a name in the schema; None where there can be none."""


def named_arguments(schema: JsonObject) -> Arguments:
    """The arguments that a tool's bounded schema lists.

    Raises `UnboundableSchema` for one that says more of the whole than a list of arguments.
    """
    top = _top(schema)
    required = top.get("required")
    needed = set(required) if isinstance(required, (list, tuple)) else set()
    properties = top.get("properties")
    named = properties.items() if isinstance(properties, Mapping) else ()
    return Arguments(
        tuple(Argument(name, part, name in needed) for name, part in named if part is not False),
        _others(top),
    )


def _top(schema: JsonObject) -> JsonObject:
    """The object that lists the arguments."""
    if "$ref" in schema:
        found = resolved(schema["$ref"], schema)
        if isinstance(found, Mapping):
            return found
    for key in ("$ref", "anyOf", "oneOf", "allOf", "minProperties"):
        if key in schema:
            raise UnboundableSchema(
                f"this model writes each argument by itself, which cannot be held to {key!r} "
                "of the whole; list the arguments under 'properties'"
            )
    return schema


def _others(top: JsonObject) -> JsonObject | None:
    patterns = top.get("patternProperties")
    if isinstance(patterns, Mapping) and patterns:
        if list(patterns) != [f"^.{{0,{MAX_KEY_CHARS}}}$"]:
            raise UnboundableSchema("this model's arguments cannot be held to 'patternProperties'")
        (values,) = patterns.values()
        return values if isinstance(values, Mapping) else {}
    others = top.get("additionalProperties")
    return others if isinstance(others, Mapping) else None


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
