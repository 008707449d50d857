"""Frozen dataclasses of ours as JSON values, and back, guided by their type hints.

Fields that a dataclass gets later are included by themselves. Contexts and messages lie in a pool,
in which each segment is once; without a pool, as for parts, a message stands there in full.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from agentkit.blocks import (
    AssistantMessage,
    Json,
    ToolMessage,
    ToolResult,
    ToolsMessage,
    UserMessage,
    message_from_json,
    message_to_json,
)
from agentkit.caching.report import RequestRecord
from agentkit.context import Context, Segment
from agentkit.errors import FormatError, RestoredFailure
from agentkit.result import RunResult, failure_text
from agentkit.saved import NOT_IN_JSON

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Pool:
    """The segments of a document, each once."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self.lines = list(lines)
        """Their data: lines of JSON."""
        self._indices = {line: index for index, line in enumerate(self.lines)}
        self._segments: dict[int, Segment] = {}

    def add(self, segment: Segment) -> int:
        """Return the segment's index; it is kept if it is new."""
        line = segment.data.decode()
        index = self._indices.setdefault(line, len(self.lines))
        if index == len(self.lines):
            self.lines.append(line)
        return index

    def segment(self, index: int) -> Segment:
        """Return the segment at an index.

        Raises:
            ContextError: its line is not that of a segment, to the last byte.
            FormatError: there is none.
        """
        _checked(index, type(index) is int and 0 <= index < len(self.lines), "index of a segment")
        if index not in self._segments:
            self._segments[index] = Segment.from_data(self.lines[index].encode())
        return self._segments[index]


def encode(value: Any, pool: Pool | None) -> Any:
    """Return the JSON value of a dataclass, or of what one holds."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return str(value)
        case Context() if pool is not None:
            indices = [pool.add(segment) for segment in value]
            return {"segments": indices, "digest": value.digest}
        case RequestRecord():
            return _requests().dump_python(value, mode="json")
        case UserMessage() | AssistantMessage() | ToolMessage() | ToolsMessage():
            return message_to_json(value) if pool is None else pool.add(Segment(value))
        case ToolResult():
            return cast("list[Json]", message_to_json(ToolMessage((value,)))["blocks"])[0]
        case BaseException():
            return failure_text(value)
        case frozenset():
            return sorted(value)
        case tuple():
            return [encode(item, pool) for item in value]
        case Mapping():
            return {key: encode(item, pool) for key, item in value.items()}
    return {
        item.name: jsonable(value.output)
        if isinstance(value, RunResult) and item.name == "output"
        else encode(getattr(value, item.name), pool)
        for item in fields(value)
        if NOT_IN_JSON not in item.metadata
    }


def decode(hint: Any, data: Any, pool: Pool | None) -> Any:
    """Return the value of the type `hint` whose JSON value is `data`.

    Raises:
        FormatError, KeyError, TypeError, ValueError, IndexError, AttributeError: there is none.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _checked(data, data in arguments, hint)
    if origin is tuple:
        return tuple(decode(arguments[0], item, pool) for item in data)
    if origin is frozenset:
        return frozenset(decode(arguments[0], item, pool) for item in data)
    if origin is Mapping:
        return {key: decode(arguments[1], item, pool) for key, item in data.items()}
    if origin in _UNIONS:
        return _decode_union(arguments, data, pool)
    return _decode_class(origin or hint, data, pool)


def _decode_union(choices: tuple[Any, ...], data: Any, pool: Pool | None) -> Any:
    if data is None and type(None) in choices:
        return None
    rest = [choice for choice in choices if choice is not type(None)]
    if len(rest) == 1:
        return decode(rest[0], data, pool)
    if set(rest) <= _MESSAGES:
        return _message(data, pool)
    (meant,) = (
        choice for choice in rest if get_type_hints(choice)["kind"] == Literal[data["kind"]]
    )
    return decode(meant, data, pool)


def _decode_class(kind: Any, data: Any, pool: Pool | None) -> Any:
    if kind in _PLAIN:
        return _checked(data, type(data) in _PLAIN[kind], kind)
    if kind in _MESSAGES:
        message = _message(data, pool)
        return _checked(message, isinstance(message, kind), kind)
    if kind is Decimal:
        return _decimal(_checked(data, isinstance(data, str), str))
    if kind is Context:
        return _context(data, pool)
    if kind is RequestRecord:
        return _requests().validate_python(data)
    if kind is ToolResult:
        message = message_from_json({"kind": "tool", "blocks": [data]})
        return cast(ToolMessage, message).results[0]
    if kind is BaseException:
        return RestoredFailure(_checked(data, isinstance(data, str), str))
    if not is_dataclass(kind):
        return data  # what an output is made of; its type is known to who asks
    hints = _hints(cast(Any, kind))
    _checked(data, isinstance(data, dict) and data.keys() <= hints.keys(), kind)
    given = {item.name for item in fields(cast(Any, kind)) if item.init}
    return cast(Any, kind)(
        **{name: decode(hints[name], data[name], pool) for name in data if name in given}
    )


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise FormatError(f"{text!r:.200} is no number") from error
    return cast(Decimal, _checked(number, not number.is_nan(), "number"))


def _message(data: Any, pool: Pool | None) -> Any:
    if pool is None:
        return message_from_json(data)
    message = pool.segment(data).content
    return _checked(message, type(message) in _MESSAGES, "message")


def _context(data: Mapping[str, Any], pool: Pool | None) -> Context:
    assert pool is not None, "parts hold no context"
    context = Context(*(pool.segment(index).content for index in data["segments"]))
    if context.digest != data["digest"]:
        raise FormatError("a context is not what was saved: its digest differs")
    return context


def _checked(data: Any, is_right: bool, kind: Any) -> Any:
    if not is_right:
        raise FormatError(f"{data!r:.200} is no {getattr(kind, '__name__', kind)}")
    return data


def jsonable(value: object) -> Json:
    """Return any value as pydantic writes it in JSON: what an output is made of.

    Bytes are texts; where they are no UTF-8, all of them are in URL-safe Base64.

    Raises:
        pydantic_core.PydanticSerializationError: it has no JSON form.
    """
    if value is None or isinstance(value, str):
        return value
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return cast(Json, to_jsonable_python(value))
    except (PydanticSerializationError, UnicodeDecodeError):
        return cast(Json, to_jsonable_python(value, bytes_mode="base64"))


@functools.cache
def _requests() -> TypeAdapter[RequestRecord]:
    from pydantic import TypeAdapter

    from agentkit.caching.verdict import Verdict

    adapter = TypeAdapter(RequestRecord)
    # Its module knows the verdict's name for type checkers only.
    adapter.rebuild(_types_namespace={"Verdict": Verdict, "RequestRecord": RequestRecord})
    return adapter


@functools.cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


_MESSAGES = {UserMessage, AssistantMessage, ToolMessage, ToolsMessage}
_UNIONS = (Union, types.UnionType)
_PLAIN: Mapping[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (float, int),
    bool: (bool,),
}
