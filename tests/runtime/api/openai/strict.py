"""Answers, checked against the official client's types: nothing missing, nothing unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)


def strictly(kind: type[M], document: object) -> M:
    """`document` as a model of the client. The client itself takes anything; this does not."""
    made = kind.model_validate(document)
    unknown = list(unknown_fields(made))
    assert not unknown, f"{kind.__name__} does not know {unknown}"
    return made


def unknown_fields(value: Any, path: str = "") -> Iterable[str]:
    """Paths of fields that the client's types do not have."""
    if isinstance(value, BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from unknown_fields(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from unknown_fields(item, f"{path}[{index}]")
