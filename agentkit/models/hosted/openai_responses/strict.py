"""Which schemas the API can hold an answer to.

Source: the structured-outputs guide of 2025-10. In strict mode every property is required, objects
are closed, and only some keywords exist. Other schemas are sent as a hint; the answer is checked
by us in any case.
"""

from __future__ import annotations

from collections.abc import Mapping

_MAX_DEPTH = 10
_MAX_PROPERTIES = 5_000
_MAX_ENUM = 1_000
_KEYWORDS = frozenset(
    (
        *("type", "title", "description", "enum", "const", "anyOf", "$ref", "$defs"),
        *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
        *("pattern", "format", "multipleOf", "minimum", "maximum"),
        *("exclusiveMinimum", "exclusiveMaximum"),
    )
)
_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))


def strict_form(schema: Mapping[str, object]) -> dict[str, object] | None:
    """Return the schema as strict mode takes it; None where that cannot be proved.

    Objects that say nothing about further properties are closed. Whatever fits the result fits the
    schema, too. Properties keep their order, because models write in it.
    """
    if schema.get("type") != "object" or "anyOf" in schema:
        return None
    check = _Check()
    result = check.schema(schema, 0)
    return result if isinstance(result, dict) and check.is_small else None


class _NotStrict(Exception):
    """A part has no strict form."""


class _Check:
    def __init__(self) -> None:
        self._n_properties = 0
        self._n_enum = 0

    @property
    def is_small(self) -> bool:
        return self._n_properties <= _MAX_PROPERTIES and self._n_enum <= _MAX_ENUM

    def schema(self, value: object, depth: int) -> dict[str, object] | None:
        try:
            return self._schema(value, depth)
        except _NotStrict:
            return None

    def _schema(self, value: object, depth: int) -> dict[str, object]:
        if not isinstance(value, Mapping) or depth > _MAX_DEPTH or not _KEYWORDS.issuperset(value):
            raise _NotStrict
        if "$ref" in value and set(value) != {"$ref"}:
            raise _NotStrict
        if not (value.keys() & {"type", "anyOf", "$ref", "enum", "const"}):
            raise _NotStrict  # such a schema allows anything
        if not _types(value) <= _TYPES or value.get("format", "date") not in _FORMATS:
            raise _NotStrict
        result = {key: self._keyword(key, part, depth) for key, part in value.items()}
        if "array" in _types(value) and "items" not in value:
            raise _NotStrict
        return self._closed(result) if "object" in _types(value) else result

    def _keyword(self, key: str, part: object, depth: int) -> object:
        match key:
            case "properties" | "$defs":
                if not isinstance(part, Mapping):
                    raise _NotStrict
                self._n_properties += len(part)
                deeper = depth + (key == "properties")
                return {name: self._schema(item, deeper) for name, item in part.items()}
            case "items":
                return self._schema(part, depth + 1)
            case "anyOf":
                if not isinstance(part, list | tuple):
                    raise _NotStrict
                return [self._schema(item, depth) for item in part]
            case "enum":
                self._n_enum += len(part) if isinstance(part, list | tuple) else 0
                return part
            case _:
                return part

    def _closed(self, result: dict[str, object]) -> dict[str, object]:
        properties, required = result.get("properties"), result.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list | tuple):
            raise _NotStrict
        if set(properties) != set(required) or result.get("additionalProperties", False):
            raise _NotStrict
        return result | {"additionalProperties": False}


def _types(value: Mapping[str, object]) -> frozenset[object]:
    kind = value.get("type", ())
    return frozenset(kind if isinstance(kind, list | tuple) else (kind,))
