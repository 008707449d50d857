"""From what a tool function returned to the text that the model reads."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping

from agentkit.toolset.tool import ToolOutput


def to_output(value: object) -> ToolOutput:
    """Turn a return value into an answer.

    A `ToolOutput` is passed on, a `str` is the text as it is, None reads "ok" (a bare "null"
    makes small models call again). Everything else becomes compact JSON: dataclasses, pydantic
    models, dates and so on by pydantic's rules, keys in their own order, sets sorted, non-ASCII
    text as it is, NaN as "NaN".

    Raises:
        TypeError: the value has no JSON form.
    """
    match value:
        case ToolOutput():
            return value
        case str():
            return ToolOutput(content=encodable(value))
        case None:
            return ToolOutput(content="ok")
        case bytes() | bytearray() | memoryview():
            raise TypeError("a tool cannot return bytes; return text, or a ToolOutput with blocks")
        case _:
            plain = _to_json_value(value)
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return ToolOutput(content=encodable(text), structured=plain)


def in_fixed_order(value: object, plain: object) -> object:
    """Sort in `plain`, the JSON form of `value`, the lists that were sets and so have no order."""
    if isinstance(value, set | frozenset) and isinstance(plain, list):
        return sorted(plain, key=lambda member: json.dumps(member, sort_keys=True))
    members = _members(value)
    if isinstance(plain, dict) and len(members) == len(plain):
        return {
            key: in_fixed_order(member, plain[key])
            for key, member in zip(plain, members, strict=True)
        }
    if isinstance(plain, list) and len(members) == len(plain):
        return [in_fixed_order(*pair) for pair in zip(members, plain, strict=True)]
    return plain


def finite(value: object) -> object:
    """A copy of a JSON value in which NaN and the infinities, which JSON lacks, are words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: finite(member) for key, member in value.items()}
    if isinstance(value, list):
        return [finite(member) for member in value]
    return value


def encodable(text: str) -> str:
    """The text with `?` for lone surrogates (of undecodable file names, say), which UTF-8 lacks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _to_json_value(value: object) -> object:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return finite(in_fixed_order(value, to_jsonable_python(value)))
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise TypeError(
            f"a tool cannot return {type(value).__name__}: {error}; "
            "return text, a JSON value, a dataclass or a pydantic model"
        ) from error


def _members(value: object) -> list[object]:
    """The members of a container in the order in which its JSON form has them."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, item.name) for item in dataclasses.fields(value)]
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping):
        return [getattr(value, name) for name in fields]
    return []
