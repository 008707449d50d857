"""One byte form for every tool schema, so that equal tools have equal bytes in every process.

Key order, layout and generator noise carry no meaning in JSON Schema, but each changes the
prompt's bytes. `canonical_schema` removes them; what may carry meaning (text, and the order of
`enum`, `anyOf`, `prefixItems`) stays as it came.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

_MAX_DEPTH = 64
"""Deeper schemas are refused: no real tool comes close, and recursion must have a bound."""

_EXACT_INTEGERS = 2**53
"""Above this a float no longer names one integer, so it is not rewritten as one."""

_ONE_SCHEMA = frozenset(
    (
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"),
        *("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
_SCHEMA_LISTS = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_SCHEMA_MAPS = frozenset(
    ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
)
_NAME_SETS = frozenset(("required", "type"))
_NOISE = frozenset(("$schema", "$comment"))
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
"""`json.dumps` would make one for each value."""


def canonical_json(value: object) -> bytes:
    """Encode a JSON value as compact UTF-8 with keys sorted by code point.

    Strings keep their exact characters (no escapes beyond what JSON demands, no normalisation).

    Raises:
        ValueError: for NaN, infinities, lone surrogates, keys that are not strings, non-JSON types.
    """
    _check_keys(value, 0)
    try:
        return _ENCODER.encode(value).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text with a lone surrogate has no UTF-8 form: {error.object!r}"
        ) from None
    except TypeError as error:
        raise ValueError(f"not a JSON value: {error}") from None


def canonical_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """Return the canonical copy of a tool's parameter schema.

    Drops `$schema`, `$comment` and annotation titles (a *property* named `title` stays), sorts
    keys, `required` and `type` lists, fills `properties` and `items`, writes whole floats as
    integers. Local `$ref`s stay. Idempotent.

    Raises:
        ValueError: the root is not an object schema, or a value has no canonical form.
    """
    if schema.get("type", "object") != "object":
        raise ValueError(
            f"a tool's parameters must be a schema of type 'object', not {schema.get('type')!r}"
        )
    return _schema({**schema, "type": "object"}, 0)


def _schema(schema: Mapping[str, object], depth: int) -> dict[str, object]:
    _check_depth(depth)
    result = {
        key: _keyword(key, schema[key], depth + 1)
        for key in sorted(schema)
        if key not in _NOISE and not (key == "title" and isinstance(schema[key], str))
    }
    if _has_type(result, "object"):
        result.setdefault("properties", {})
    if _has_type(result, "array") and "prefixItems" not in result:
        result.setdefault("items", {})
    return dict(sorted(result.items()))


def _keyword(key: str, value: object, depth: int) -> object:
    """Canonicalise one keyword's value by what JSON Schema says the keyword holds."""
    if key in _NAME_SETS and _are_strings(value):
        return sorted(set(value))
    if key == "dependentRequired" and isinstance(value, Mapping):
        return _map_values(value, lambda names: _keyword("required", names, depth + 1))
    if key in _SCHEMA_MAPS and isinstance(value, Mapping):
        return _map_values(value, lambda member: _schema_or_flag(member, depth + 1))
    if key in _SCHEMA_LISTS and isinstance(value, list | tuple):
        return [_schema_or_flag(member, depth) for member in value]
    if key in _ONE_SCHEMA:
        return _schema_or_flag(value, depth)
    return _data(value, depth)


def _schema_or_flag(value: object, depth: int) -> object:
    """A subschema. Booleans, and what is malformed, pass as data for the provider to judge."""
    return _schema(value, depth) if isinstance(value, Mapping) else _data(value, depth)


def _data(value: object, depth: int) -> object:
    """A plain JSON value: objects sorted, arrays in order, whole floats as integers."""
    _check_depth(depth)
    if isinstance(value, Mapping):
        return _map_values(value, lambda member: _data(member, depth + 1))
    if isinstance(value, list | tuple):
        return [_data(member, depth + 1) for member in value]
    if isinstance(value, float):
        return _number(value)
    return value


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise ValueError(f"a schema cannot contain {value!r}: JSON has no such number")
    return int(value) if value.is_integer() and abs(value) <= _EXACT_INTEGERS else value


def _map_values(
    value: Mapping[str, object], change: Callable[[object], object]
) -> dict[str, object]:
    return {key: change(value[key]) for key in sorted(value)}


def _are_strings(value: object) -> TypeGuard[Sequence[str]]:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _has_type(schema: Mapping[str, object], name: str) -> bool:
    kind = schema.get("type")
    return kind == name or (isinstance(kind, list) and name in kind)


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError(f"the schema is nested deeper than {_MAX_DEPTH} levels; flatten it")


def _check_keys(value: object, depth: int) -> None:
    """`json.dumps` would turn 1 and "1" into the same key without a word."""
    if depth > 4 * _MAX_DEPTH:
        raise ValueError(f"the value is nested deeper than {4 * _MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, member in value.items():
            if type(key) is not str and not isinstance(key, str):
                raise ValueError(f"JSON object keys must be strings, not {key!r}")
            if type(member) not in _PLAIN:
                _check_keys(member, depth + 1)
    elif isinstance(value, list | tuple):
        for member in value:
            if type(member) not in _PLAIN:
                _check_keys(member, depth + 1)


_PLAIN = frozenset((str, int, float, bool, type(None)))
"""Values without keys: most of all values are."""
