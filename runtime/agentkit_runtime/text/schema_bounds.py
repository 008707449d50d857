"""Makes what a JSON schema allows finite, so that generation under it comes to an end.

A small model can stay inside a string, a number or a list for ever. `bounded` returns a schema that
allows a subset of what the given one allows, with these limits wherever the schema sets none of its
own. What is generated is therefore always valid under the schema that was given.

Beyond lengths: objects that list `properties` and do not speak of others get no others, and
annotations that mean nothing to a validator (unknown `format`) are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from agentkit_runtime.text.number_bounds import (
    MAX_INTEGER,
    NUMBER_STEP,
    UnboundableSchema,
    bounded_number,
    with_step,
)

__all__ = ["ANNOTATIONS", "MAX_INTEGER", "UnboundableSchema", "bounded", "bounded_arguments"]

JsonObject: TypeAlias = Mapping[str, object]

MAX_STRING_CHARS = 2_000
MAX_ITEMS = 256
MAX_OPEN_PROPERTIES = 64
MAX_KEY_CHARS = 64
MAX_ANY_DEPTH = 4
"""How deep lists and objects nest where a schema allows any value."""

KNOWN_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uuid",
    }
)


def bounded(schema: JsonObject) -> dict[str, object]:
    """The bounded form of a whole schema document. `schema` is not changed.

    Raises `UnboundableSchema` for ranges of numbers that cannot be generated.
    """
    rewriter = _Rewriter(closes_objects=not _composes(schema))
    changed = rewriter.schema(schema)
    if not isinstance(changed, dict):
        changed = {"anyOf": [changed]}
    if rewriter.needs_any:
        known = changed.get("$defs")
        definitions = known if isinstance(known, dict) else {}
        return {**changed, "$defs": {**definitions, **_any_definitions()}}
    return dict(changed)


def bounded_arguments(parameters: JsonObject) -> dict[str, object]:
    """The bounded form of a tool's parameters. Parameters that name nothing allow only `{}`.

    Raises `UnboundableSchema` for parameters that are not an object.
    """
    if "enum" in parameters or "const" in parameters:
        raise UnboundableSchema("arguments are an object with properties, not an enum or a const")
    named = parameters.get("type", "object")
    if named != "object" and not (isinstance(named, (list, tuple)) and "object" in named):
        raise UnboundableSchema(f"arguments are an object, not of type {named!r}")
    if not any(parameters.get(key) for key in ("required", "minProperties")) and not any(
        key in parameters for key in _NAMING
    ):
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return bounded({**parameters, "type": "object"})


_COMPOSING = ("$ref", "anyOf", "oneOf", "allOf")
_NAMING = ("properties", "additionalProperties", "patternProperties", *_COMPOSING)
"""Keywords that say what an object holds."""
ANNOTATIONS = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$defs",
        "definitions",
        "$schema",
        "$id",
        "$anchor",
        "nullable",
        "discriminator",
    }
)
"""Keywords that hold no value to anything."""
_TYPE_OF_KEYWORD: Mapping[str, str] = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "patternProperties": "object",
    "minProperties": "object",
    "maxProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "maxItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
}
_ANY_REFERENCE = "#/$defs/agentkit_any_"
_SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SUBSCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def _composes(value: object) -> bool:
    """Whether `allOf` with several members occurs: then a member may not be closed by itself."""
    if isinstance(value, Mapping):
        members = value.get("allOf")
        if isinstance(members, list) and len(members) > 1:
            return True
        return any(_composes(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(_composes(item) for item in value)


class _Rewriter:
    """Walks one schema document."""

    def __init__(self, *, closes_objects: bool) -> None:
        self._closes_objects = closes_objects
        self.needs_any = False

    def schema(self, value: object) -> object:
        if value is True:
            return self._any()
        if not isinstance(value, Mapping):
            return value
        changed = self._with_subschemas(_with_single_member_merged(value))
        if "enum" in changed or "const" in changed:
            return changed
        if any(key in changed for key in _COMPOSING):
            return changed
        types = _types(changed)
        if not types:
            # What else a schema says is not ours to drop: the grammar engine knows or refuses it.
            return {**changed, **self._any()} if _is_annotation(changed) else changed
        changed.setdefault("type", types[0])
        for kind in types:
            changed = self._bounded_type(changed, kind)
        return changed

    def _bounded_type(self, schema: dict[str, object], kind: str) -> dict[str, object]:
        match kind:
            case "string":
                return _bounded_string(schema)
            case "integer":
                return bounded_number(_without_unknown_format(schema))
            case "number":
                return bounded_number(with_step(_without_unknown_format(schema)))
            case "array":
                return self._bounded_array(schema)
            case "object":
                return self._bounded_object(schema)
            case _:
                return schema

    def _bounded_array(self, schema: dict[str, object]) -> dict[str, object]:
        changed = dict(schema)
        if "prefixItems" not in changed:
            changed.setdefault("items", self._any())
        least = schema.get("minItems")
        changed.setdefault("maxItems", max(MAX_ITEMS, least if isinstance(least, int) else 0))
        return changed

    def _bounded_object(self, schema: dict[str, object]) -> dict[str, object]:
        if not self._closes_objects:
            return schema
        schema = self._with_required_named(schema)
        others = schema.get("additionalProperties")
        has_names = bool(schema.get("properties")) or "patternProperties" in schema
        if others is False:
            return schema
        if others is None and ("properties" in schema or has_names):
            return {**schema, "additionalProperties": False}
        values = self._any() if others is None else others
        if has_names:
            return {**schema, "additionalProperties": values}
        key = f"^.{{0,{MAX_KEY_CHARS}}}$"
        least = schema.get("minProperties")
        return {
            "maxProperties": max(MAX_OPEN_PROPERTIES, least if isinstance(least, int) else 0),
            **schema,
            "patternProperties": {key: values},
            "additionalProperties": False,
        }

    def _with_required_named(self, schema: dict[str, object]) -> dict[str, object]:
        """Required names that no keyword speaks of become properties: closing then loses none."""
        required = schema.get("required")
        if not isinstance(required, (list, tuple)) or "patternProperties" in schema:
            return schema
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        if others is False or not isinstance(properties, Mapping):
            return schema
        missing = [name for name in required if isinstance(name, str) and name not in properties]
        if not missing:
            return schema
        values = self._any() if others is True else others
        named = {**properties, **dict.fromkeys(missing, values)}
        is_open = bool(properties) or "additionalProperties" in schema
        return {
            **schema,
            "properties": named,
            **({} if is_open else {"additionalProperties": False}),
        }

    def _with_subschemas(self, schema: JsonObject) -> dict[str, object]:
        changed = dict(schema)
        for key in _SUBSCHEMA_MAPS:
            children = changed.get(key)
            if isinstance(children, Mapping):
                changed[key] = {name: self.schema(child) for name, child in children.items()}
        for key in _SUBSCHEMA_LISTS:
            members = changed.get(key)
            if isinstance(members, list):
                # A member of allOf that only annotates must not turn into "any value, bounded".
                changed[key] = [
                    member if key == "allOf" and _is_annotation(member) else self.schema(member)
                    for member in members
                ]
        for key in ("items", "additionalProperties"):
            if isinstance(changed.get(key), (Mapping, bool)):
                changed[key] = self.schema(changed[key])
        return changed

    def _any(self) -> dict[str, object]:
        self.needs_any = True
        return {"$ref": f"{_ANY_REFERENCE}{MAX_ANY_DEPTH}"}


def _types(schema: JsonObject) -> list[str]:
    """The types a schema names, or the one that its keywords are about; empty if any will do."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    return [_TYPE_OF_KEYWORD[key] for key in schema if key in _TYPE_OF_KEYWORD][:1]


def _is_annotation(schema: object) -> bool:
    return isinstance(schema, Mapping) and all(
        key in ANNOTATIONS or str(key).startswith("x-") for key in schema
    )


def _with_single_member_merged(schema: JsonObject) -> JsonObject:
    """`{"allOf": [X], "description": ...}`, as generators write it, is X with a description."""
    members = schema.get("allOf")
    if not isinstance(members, list) or len(members) != 1 or not isinstance(members[0], Mapping):
        return schema
    others = {key: value for key, value in schema.items() if key != "allOf"}
    return {**others, **members[0]} if _is_annotation(others) else schema


def _bounded_string(schema: JsonObject) -> dict[str, object]:
    changed = _without_unknown_format(schema)
    least = schema.get("minLength")
    changed.setdefault("maxLength", max(MAX_STRING_CHARS, least if isinstance(least, int) else 0))
    return changed


def _without_unknown_format(schema: JsonObject) -> dict[str, object]:
    if schema.get("format") in KNOWN_FORMATS:
        return dict(schema)
    return {key: value for key, value in schema.items() if key != "format"}


def _any_definitions() -> dict[str, object]:
    """Any JSON value, nested at most `MAX_ANY_DEPTH` deep, with every part bounded."""
    definitions: dict[str, object] = {}
    for depth in range(MAX_ANY_DEPTH + 1):
        kinds: list[object] = [
            {"type": "string", "maxLength": MAX_STRING_CHARS},
            {"multipleOf": NUMBER_STEP, **bounded_number({"type": "number"})},
            {"type": "boolean"},
            {"type": "null"},
        ]
        if depth:
            inner = {"$ref": f"{_ANY_REFERENCE}{depth - 1}"}
            key = f"^.{{0,{MAX_KEY_CHARS}}}$"
            kinds += [
                {"type": "array", "items": inner, "maxItems": MAX_ITEMS},
                {
                    "type": "object",
                    "patternProperties": {key: inner},
                    "additionalProperties": False,
                    "maxProperties": MAX_OPEN_PROPERTIES,
                },
            ]
        definitions[f"agentkit_any_{depth}"] = {"anyOf": kinds}
    return definitions
