"""Frozen dataclasses that are made in about half the time, for those that each request makes many
of.

What `dataclass(frozen=True)` writes sets each field by `object.__setattr__`, which looks the field
up; a slot's own setter does not have to. Everything else stays as the dataclass has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick(cls: type[T]) -> type[T]:
    """Give a frozen dataclass with slots an `__init__` that takes the same and sets slots directly.

        @quick
        @dataclass(frozen=True, slots=True)
        class Point: ...

    Raises:
        TypeError: the class has no slots, or is no dataclass.
    """
    made = cls.__init__
    names: dict[str, Any] = {}
    takes: dict[bool, list[str]] = {False: [], True: []}
    body: list[str] = []
    for item in fields(cls):  # type: ignore[arg-type]
        setter = getattr(getattr(cls, item.name, None), "__set__", None)
        if setter is None:
            raise TypeError(f"{cls.__name__}.{item.name} is no slot; pass slots=True to dataclass")
        names[f"set_{item.name}"] = setter
        value = _value(item, names)
        if item.init:
            takes[bool(item.kw_only)].append(_parameter(item, names))
        if value is not None:
            body.append(f"set_{item.name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    keywords = ["*", *takes[True]] if takes[True] else []
    head = ", ".join(["self", *takes[False], *keywords])
    exec(f"def __init__({head}):\n " + "\n ".join(body or ["pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__, init.__module__ = made.__qualname__, cls.__module__
    init.__annotations__ = made.__annotations__
    cls.__init__ = init  # type: ignore[method-assign]
    return cls


def _parameter(item: Field[Any], names: dict[str, Any]) -> str:
    """Return a field as a parameter; defaults are the dataclass's own."""
    if item.default_factory is not MISSING:
        names["MADE"] = _MADE
        return f"{item.name}=MADE"
    if item.default is MISSING:
        return item.name
    names[f"default_{item.name}"] = item.default
    return f"{item.name}=default_{item.name}"


def _value(item: Field[Any], names: dict[str, Any]) -> str | None:
    """Return what a field is set to; None: nothing, as where `__post_init__` sets it."""
    if item.default_factory is not MISSING:
        names[f"make_{item.name}"] = item.default_factory
        made = f"make_{item.name}()"
        return f"{made} if {item.name} is MADE else {item.name}" if item.init else made
    if item.init:
        return item.name
    if item.default is MISSING:
        return None
    names[f"default_{item.name}"] = item.default
    return f"default_{item.name}"


class _Made:
    """Stands for a value that a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()
