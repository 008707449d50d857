"""Documents against the types of Anthropic's SDK: they must fit, and have nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from pydantic import BaseModel, TypeAdapter


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def strictly(form: Any, document: object) -> Any:
    """The document as `form`; fails for missing, wrong, and unknown fields, however deep."""
    value = _adapter(form).validate_python(document)
    unknown = list(_unknown(value, ""))
    assert not unknown, f"fields that the SDK does not know: {unknown}"
    return value


def a_message(document: object) -> Message:
    """A whole answer, strictly."""
    message = strictly(Message, document)
    assert isinstance(message, Message)
    return message


def an_event(document: Mapping[str, object]) -> Any:
    """An event of a stream, strictly; pings are none to the SDK."""
    assert document["type"] != "ping"
    return strictly(RawMessageStreamEvent, document)


def _unknown(value: object, path: str) -> Any:
    if isinstance(value, BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from _unknown(item, f"{path}[{n}]")
