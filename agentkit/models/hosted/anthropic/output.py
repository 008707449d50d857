"""Output schemas: the part of JSON Schema that the API enforces, and a text for the rest.

Source: documentation of structured outputs, client 2.14.0. Objects are closed, bounds of numbers,
texts and lists are not known, schemas are not recursive.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.models.hosted.wire_json import compact_json

_FORMATS = frozenset(
    ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid")
)
_SCALARS = frozenset(("boolean", "integer", "null", "number", "string"))
_KEPT = frozenset(("$ref", "const", "description", "enum", "required", "type"))
_REWRITTEN = frozenset(
    ("$defs", "additionalProperties", "anyOf", "items", "minItems", "oneOf", "properties", "format")
)
_DROPPED = frozenset(("title", "discriminator", "$schema"))
_REF = "#/$defs/"


def native_schema(schema: Mapping[str, object]) -> dict[str, object] | None:
    """Return the schema as the API takes it; None if it cannot express it.

    Keys keep their order, in which models write. What the API does not know is said in the
    description, for the model to follow.
    """
    try:
        return _Rewriter(schema).rewritten()
    except _Inexpressible:
        return None


def schema_note(schema: Mapping[str, object]) -> str:
    """Return the text that asks for an answer of this form."""
    return (
        "When you give your final answer, give only a JSON value that fits this JSON Schema, "
        f"without Markdown:\n{compact_json(schema).decode()}"
    )


class _Inexpressible(Exception):
    """The API would refuse the schema."""


class _Rewriter:
    def __init__(self, schema: Mapping[str, object]) -> None:
        self._schema = schema
        definitions = schema.get("$defs", {})
        self._definitions = definitions if isinstance(definitions, Mapping) else {}
        self._open: set[str] = set()
        """Definitions that are being followed: meeting one of them again is recursion."""

    def rewritten(self) -> dict[str, object]:
        result = self._schema_of(self._schema)
        definitions = {
            name: self._schema_of(_object(value)) for name, value in self._definitions.items()
        }
        return result | ({"$defs": definitions} if definitions else {})

    def _schema_of(self, schema: Mapping[str, object]) -> dict[str, object]:
        result = {key: value for key, value in schema.items() if key in _KEPT}
        if "$ref" in schema:
            self._follow(str(schema["$ref"]))
            return result
        variants = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(variants, list):
            result["anyOf"] = [self._schema_of(_object(variant)) for variant in variants]
        elif "enum" not in schema and "const" not in schema:
            self._add_type(schema, result)
        _say_rest(schema, result)
        return result

    def _add_type(self, schema: Mapping[str, object], result: dict[str, object]) -> None:
        match schema.get("type"):
            case "object":
                properties = _object(schema.get("properties", {}))
                if not properties or schema.get("additionalProperties", False) is not False:
                    raise _Inexpressible
                result["properties"] = {
                    name: self._schema_of(_object(value)) for name, value in properties.items()
                }
                result["additionalProperties"] = False
            case "array":
                result["items"] = self._schema_of(_object(schema.get("items")))
                if schema.get("minItems") in (0, 1):
                    result["minItems"] = schema["minItems"]
            case "string":
                if schema.get("format") in _FORMATS:
                    result["format"] = schema["format"]
            case kind if kind not in _SCALARS:
                raise _Inexpressible

    def _follow(self, reference: str) -> None:
        name = reference.removeprefix(_REF)
        if not reference.startswith(_REF) or name not in self._definitions or name in self._open:
            raise _Inexpressible
        self._open.add(name)
        self._schema_of(_object(self._definitions[name]))
        self._open.remove(name)


def _say_rest(schema: Mapping[str, object], result: dict[str, object]) -> None:
    known = _KEPT | _REWRITTEN | _DROPPED
    rest = {key: value for key, value in schema.items() if key not in known}
    rest |= {
        key: schema[key] for key in ("format", "minItems") if key in schema and key not in result
    }
    if rest:
        said = ", ".join(f"{key}: {compact_json(value).decode()}" for key, value in rest.items())
        before = f"{result['description']} " if "description" in result else ""
        result["description"] = f"{before}({said})"


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _Inexpressible
    return value
