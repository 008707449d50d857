"""Arguments of calls, as clients' models give them: checked against what the tools say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def problem_with(arguments: Mapping[str, object], schema: Mapping[str, Any]) -> str | None:
    """Return what is wrong with arguments, in words for a model; None if nothing is.

    Args:
        arguments: what a client sent.
        schema: one of ours: an object of texts, with their lengths and choices.
    """
    properties: Mapping[str, Mapping[str, Any]] = schema["properties"]
    for name in arguments.keys() - properties.keys():
        return f"There is no argument {name!r:.100}; there are: {', '.join(properties)}."
    for name in schema["required"]:
        if name not in arguments:
            return f"The argument {name!r} is missing."
    for name, value in arguments.items():
        problem = _problem(value, properties[name])
        if problem is not None:
            return f"The argument {name!r} {problem}."
    return None


def _problem(value: object, schema: Mapping[str, Any]) -> str | None:
    if not isinstance(value, str):
        return f"must be a text, not {value!r:.100}"
    if "minLength" in schema and not value.strip():
        return "must not be empty"
    longest = schema.get("maxLength", len(value))
    if len(value) > longest:
        return f"must have at most {longest} characters, and has {len(value)}"
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        return f"must be one of {', '.join(choices)}, not {value!r:.100}"
    return None
