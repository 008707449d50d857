"""What a JSON schema says of a tool's arguments one by one: types, alternatives, listed values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from agentkit_runtime.text.lark import lark_plain
from agentkit_runtime.text.looser import UNKNOWN_KEYWORDS
from agentkit_runtime.text.schema_bounds import (
    ANNOTATIONS,
    MAX_KEY_CHARS,
    MAX_OPEN_PROPERTIES,
    UnboundableSchema,
)

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
COMPOSING = frozenset(("$ref", "anyOf", "oneOf", "allOf"))
MAX_NAME_CHARS = 256
"""Of an argument's name: longer ones are not read."""


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
    said = _said(schema)
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


def _said(schema: JsonObject) -> set[str]:
    """Keywords of a schema that hold values to something."""
    return {key for key in schema if key not in ANNOTATIONS and not key.startswith("x-")}


def listed_values(leaf: JsonObject) -> Sequence[object] | None:
    """The values of an `enum` or a `const`; None for a schema without."""
    if "const" in leaf:
        return [leaf["const"]]
    values = leaf.get("enum")
    return values if isinstance(values, (list, tuple)) and values else None


def by_itself(leaf: JsonObject, root: JsonObject) -> dict[str, object]:
    """A part of `root` as a document of its own, with the parts of `root` that it names.

    Raises `UnboundableSchema` where it names nothing.
    """
    names: dict[str, str] = {}
    document = _renamed(leaf, names)
    definitions: dict[str, object] = {}
    while len(definitions) < len(names):
        reference = next(islice(names, len(definitions), None))
        part = resolved(reference, root)
        if not isinstance(part, (Mapping, bool)):
            raise UnboundableSchema(f"there is no schema at {reference!r}")
        definitions[names[reference]] = _renamed(part, names)
    assert isinstance(document, dict)
    return {**document, "$defs": definitions} if definitions else document


def _renamed(value: object, names: dict[str, str]) -> object:
    """The same with a definition's name in the place of each reference; new ones are added."""
    if isinstance(value, (list, tuple)):
        return [_renamed(item, names) for item in value]
    if not isinstance(value, Mapping):
        return value
    renamed = {key: _renamed(item, names) for key, item in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str):
        renamed["$ref"] = f"#/$defs/{names.setdefault(reference, f'part_{len(names)}')}"
    return renamed


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
    max_others: int
    """How many of those there can be."""


def named_arguments(schema: JsonObject) -> Arguments:
    """The arguments that a tool's bounded schema lists.

    Raises `UnboundableSchema` for one that says more of the whole than a list of arguments.
    """
    top = _top(schema)
    required = top.get("required")
    needed = set(required) if isinstance(required, (list, tuple)) else set()
    properties = top.get("properties")
    listed = properties.items() if isinstance(properties, Mapping) else ()
    named = [Argument(name, part, name in needed) for name, part in listed if part is not False]
    missing = needed - {argument.name for argument in named}
    if missing:
        raise UnboundableSchema(
            f"{sorted(map(str, missing))} are required, and no property says what they are"
        )
    if any(len(argument.name) > MAX_NAME_CHARS for argument in named):
        raise UnboundableSchema(f"names of arguments have at most {MAX_NAME_CHARS} characters")
    others = _others(top)
    most = top.get("maxProperties", len(named) + MAX_OPEN_PROPERTIES)
    room = most - len(named) if isinstance(most, int) else MAX_OPEN_PROPERTIES
    if room < 0:
        raise _unheld("maxProperties")
    return Arguments(tuple(named), others if room else None, min(room, MAX_OPEN_PROPERTIES))


def _top(schema: JsonObject) -> JsonObject:
    """The object that lists the arguments."""
    top: object = schema
    if "$ref" in schema:
        said = _said(schema) - {"$ref", "type"}
        top = resolved(schema["$ref"], schema)
        if said or not isinstance(top, Mapping):
            raise _unheld("$ref")
    assert isinstance(top, Mapping)
    for key in (*sorted(COMPOSING), "minProperties", *sorted(UNKNOWN_KEYWORDS)):
        if key in top:
            raise _unheld(key)
    return top


def _unheld(key: str) -> UnboundableSchema:
    return UnboundableSchema(
        f"this model writes each argument by itself, which cannot be held to {key!r} "
        "of the whole; list the arguments under 'properties'"
    )


def _others(top: JsonObject) -> JsonObject | None:
    patterns = top.get("patternProperties")
    if isinstance(patterns, Mapping) and patterns:
        if list(patterns) != [f"^.{{0,{MAX_KEY_CHARS}}}$"]:
            raise UnboundableSchema("this model's arguments cannot be held to 'patternProperties'")
        (values,) = patterns.values()
        return values if isinstance(values, Mapping) else {}
    others = top.get("additionalProperties")
    return others if isinstance(others, Mapping) else None


def other_name(characters: str, named: Iterable[Argument]) -> str:
    """A terminal's expression: a name of these characters that is none of the arguments listed."""
    taken = [lark_plain(argument.name) for argument in named]
    any_name = f"/{characters}/"
    return f"{any_name} & ~({' | '.join(taken)})" if taken else any_name


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
