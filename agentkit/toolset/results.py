"""From what a tool function returned to the text that the model reads."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import Enum

from agentkit.blocks import File, Image
from agentkit.toolset.tool import ToolOutput


def to_output(value: object) -> ToolOutput:
    """Turn a return value into an answer.

    A `ToolOutput` is passed on, a `str` is the text as it is, None reads "ok" (a bare "null"
    makes small models call again). An `Image` or a `File`, alone or in a list with other values, is
    attached. Everything else becomes compact JSON: dataclasses, pydantic
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
        case Image() | File():
            return _with_attachments([value])
        case list() | tuple() if any(isinstance(each, Image | File) for each in value):
            return _with_attachments(value)
        case bytes() | bytearray() | memoryview():
            raise TypeError(
                "a tool cannot return bytes; return text, or Image.of_bytes or File.of_bytes"
            )
        case _:
            plain = _to_json_value(value)
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return ToolOutput(content=encodable(text), structured=plain)


def _with_attachments(values: Iterable[object]) -> ToolOutput:
    """Attach what text cannot carry; everything else is text, line by line."""
    texts: list[str] = []
    attached: list[Image | File] = []
    for value in values:
        if isinstance(value, Image | File):
            attached.append(value)
            what = value.name if isinstance(value, File) else "image"
            texts.append(f"[{what}: {value.media_type}, attached]")
        else:
            texts.append(to_output(value).content)
    return ToolOutput(content="\n".join(texts), attachments=tuple(attached))


def in_fixed_order(value: object, plain: object) -> object:
    """Sort in `plain`, the JSON form of `value`, the lists that were sets and so have no order.

    Members of models and dataclasses are paired by name, since a JSON form may have more of them
    (computed fields, extras) or fewer (excluded fields).
    """
    if isinstance(value, Enum):
        return in_fixed_order(value.value, plain)
    if isinstance(plain, dict):
        if isinstance(value, Mapping):
            if len(value) != len(plain):
                return plain
            # By place: the keys may have changed, as numbers become strings.
            members = dict(zip(plain, value.values(), strict=True))
        else:
            members = _named_members(value)
        return {
            key: in_fixed_order(members[key], member) if key in members else member
            for key, member in plain.items()
        }
    if isinstance(plain, list):
        return _list_in_fixed_order(value, plain)
    return _root_in_fixed_order(value, plain)


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
        value = _materialised(value)
        return finite(in_fixed_order(value, to_jsonable_python(value)))
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise TypeError(
            f"a tool cannot return {type(value).__name__}: {error}; "
            "return text, a JSON value, a dataclass or a pydantic model"
        ) from error


def _materialised(value: object) -> object:
    """The value with lists for its iterators, which can be read only once and are read twice."""
    if type(value) is dict:
        return {key: _materialised(member) for key, member in value.items()}
    if type(value) in (list, tuple, deque) or isinstance(value, Iterator):
        assert isinstance(value, Iterable)
        return [_materialised(member) for member in value]
    return value


def _list_in_fixed_order(value: object, plain: list[object]) -> object:
    if not isinstance(value, list | tuple | deque | Set):
        return _root_in_fixed_order(value, plain)
    if len(value) != len(plain):
        return plain
    # The JSON form of a set has its members in the set's order of this moment, so they pair up.
    members = [in_fixed_order(*pair) for pair in zip(value, plain, strict=True)]
    if isinstance(value, Set):
        members.sort(key=lambda member: json.dumps(member, sort_keys=True))
    return members


def _root_in_fixed_order(value: object, plain: object) -> object:
    """The JSON form of a pydantic root model is that of its one member."""
    fields = getattr(type(value), "__pydantic_fields__", None)
    if isinstance(fields, Mapping) and fields.keys() == {"root"}:
        return in_fixed_order(getattr(value, "root", None), plain)
    return plain


def _named_members(value: object) -> dict[str, object]:
    """The members of a model or dataclass under all names that its JSON form may give them."""
    kind = type(value)
    members: dict[str, object] = dict(getattr(value, "__pydantic_extra__", None) or {})
    if dataclasses.is_dataclass(kind):
        names = [item.name for item in dataclasses.fields(kind)]
        members |= {name: getattr(value, name, None) for name in names}
    decorators = getattr(kind, "__pydantic_decorators__", None)
    computed = getattr(decorators, "computed_fields", {})
    fields = {**getattr(kind, "__pydantic_fields__", {}), **computed}
    for name, field in fields.items():
        info = getattr(field, "info", field)
        aliases = (getattr(info, "serialization_alias", None), getattr(info, "alias", None))
        member = getattr(value, name, None)
        members |= {alias: member for alias in (name, *aliases) if isinstance(alias, str)}
    return members
