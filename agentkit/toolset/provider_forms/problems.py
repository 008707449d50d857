"""What providers refuse of a tool, as far as it is documented or was seen: for tests and checks.

Written apart from the forms, by the APIs' own words, so that each checks the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from agentkit.toolset.provider_forms.form import schema_form
from agentkit.toolset.provider_forms.notes import Dialect
from agentkit.toolset.provider_forms.pointers import LISTS, MAPS, resolve, subschemas
from agentkit.toolset.tool import ToolSpec

_NAMES: Mapping[Dialect, str] = {
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "openai": r"[a-zA-Z0-9_-]{1,64}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
    "local": r".+",
}
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_GEMINI_PLACE = re.compile(r"#|#/\$defs/[^/]+")
_NODES = ("contains", "else", "if", "items", "not", "propertyNames", "then")


def tool_problems(spec: ToolSpec, dialect: Dialect) -> tuple[str, ...]:
    """Return why an API would refuse a tool in the form in which it is sent; empty: it takes it."""
    found = [f"parameters: {each}" for each in schema_problems(_sent(spec, dialect), dialect)]
    if not re.fullmatch(_NAMES[dialect], spec.name):
        found.insert(0, f"name: {spec.name!r} does not match {_NAMES[dialect]}")
    return tuple(found)


def schema_problems(parameters: Mapping[str, object], dialect: Dialect) -> tuple[str, ...]:
    """Return why an API would refuse these parameters, as they stand.

    Raises:
        ImportError: the package `jsonschema` is not installed; `mcp` brings it.
    """
    return tuple(
        problem for check in (_not_valid, _CHECKS[dialect]) for problem in check(parameters)
    )


def _sent(spec: ToolSpec, dialect: Dialect) -> Mapping[str, object]:
    return schema_form(spec, dialect).parameters


def _not_valid(parameters: Mapping[str, object]) -> Iterator[str]:
    """All APIs read JSON Schema 2020-12, with an object at the root."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    plain = {key: _thawed(part) for key, part in parameters.items()}
    try:
        Draft202012Validator.check_schema(plain)
    except SchemaError as error:
        yield f"{error.json_path}: not JSON Schema 2020-12: {error.message:.200}"
        return
    if parameters.get("type") != "object":
        yield f"the root is of type {parameters.get('type')!r}, and must be an object"
    for pointer, node in subschemas(parameters):
        reference = node.get("$ref") if isinstance(node, Mapping) else None
        if isinstance(reference, str) and resolve(reference, parameters) is None:
            yield f"{pointer}/$ref: {reference!r} names nothing"


def _anthropic(parameters: Mapping[str, object]) -> Iterator[str]:
    for key in ("oneOf", "allOf", "anyOf"):
        if key in parameters:
            yield "input_schema does not support oneOf, allOf, or anyOf at the top level"
    for pointer, node in subschemas(parameters):
        properties = node.get("properties") if isinstance(node, Mapping) else None
        for name in properties if isinstance(properties, Mapping) else ():
            if not _PROPERTY.fullmatch(str(name)):
                yield f"{pointer}/properties: keys should match {_PROPERTY.pattern}, got {name!r}"


def _openai(parameters: Mapping[str, object]) -> Iterator[str]:
    for key in ("oneOf", "anyOf", "allOf", "enum", "not"):
        if key in parameters:
            yield f"schema must have type 'object' and not have {key!r} at the top level"
    for pointer, node in subschemas(parameters):
        if not isinstance(node, Mapping):
            continue
        kinds = node.get("type")
        is_array = "array" in (kinds if isinstance(kinds, list | tuple) else (kinds,))
        if is_array and not isinstance(node.get("items"), Mapping):
            yield f"{pointer}: array schema missing items"
        yield from _flags(pointer, node)


def _gemini(parameters: Mapping[str, object]) -> Iterator[str]:
    for key in ("oneOf", "anyOf", "allOf"):
        if key in parameters:
            yield f"the parameters must describe an object, and not have {key!r} at the top level"
    for pointer, node in subschemas(parameters):
        if not isinstance(node, Mapping):
            continue
        yield from _flags(pointer, node)
        reference = node.get("$ref")
        if reference is None:
            continue
        if any(not str(key).startswith("$") for key in node):
            yield f"{pointer}: $ref was set alongside unsupported fields"
        if not _GEMINI_PLACE.fullmatch(str(reference)):
            yield f"{pointer}: reference to undefined schema {reference!r}"
    yield from _required_cycles(parameters)


def _required_cycles(parameters: Mapping[str, object]) -> Iterator[str]:
    """References must not lead back through what must be there."""
    places = {"#": parameters}
    definitions = parameters.get("$defs")
    if isinstance(definitions, Mapping):
        places |= {f"#/$defs/{name}": part for name, part in definitions.items()}
    needs = {place: set(_needed(part)) for place, part in places.items()}
    for place in places:
        seen: set[str] = set()
        waiting = list(needs[place])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += needs.get(name, ())
        if place in seen:
            yield f"{place}: a cyclic reference may only be used within non-required properties"


def _needed(node: object) -> Iterator[str]:
    """Yield the references that are not within a property that may be left out."""
    if not isinstance(node, Mapping):
        return
    if isinstance(node.get("$ref"), str):
        yield str(node["$ref"])
    required = node.get("required")
    for key, part in node.items():
        if key == "properties" and isinstance(part, Mapping):
            for name in required if isinstance(required, list | tuple) else ():
                yield from _needed(part.get(name))
        elif key in LISTS and isinstance(part, list | tuple):
            for each in part:
                yield from _needed(each)
        elif key in ("items", "not", "contains"):
            yield from _needed(part)


def _flags(pointer: str, node: Mapping[str, object]) -> Iterator[str]:
    """True and false are schemas, but not for these APIs."""
    for key, part in node.items():
        if key in MAPS and isinstance(part, Mapping):
            values = list(part.values())
        elif key in LISTS and isinstance(part, list | tuple):
            values = list(part)
        elif key in _NODES:
            values = [part]
        else:
            continue
        if any(isinstance(each, bool) for each in values):
            yield f"{pointer}/{key}: true or false is not of type 'object'"


def _local(parameters: Mapping[str, object]) -> Iterator[str]:
    if "enum" in parameters or "const" in parameters:
        yield "arguments are an object with properties, not an enum or a const"


def _thawed(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _thawed(part) for key, part in value.items()}
    return [_thawed(part) for part in value] if isinstance(value, list | tuple) else value


_CHECKS: Mapping[Dialect, Callable[[Mapping[str, object]], Iterator[str]]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "gemini": _gemini,
    "local": _local,
}
