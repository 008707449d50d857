"""Checks of settings: each error names the setting, what it was given, and what it takes."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def require_whole(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise ValueError unless `value` is a whole number in [least, most]. True is none."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    _require_between(name, int(value), least, math.inf if most is None else most)


def require_number(
    name: str, value: object, *, least: float, most: float = math.inf, finite: bool = True
) -> None:
    """Raise ValueError unless `value` is a number in [least, most]. True is none, nor is NaN."""
    if not isinstance(value, Real) or isinstance(value, bool) or math.isnan(value):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if finite and math.isinf(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    _require_between(name, value, least, most)


def require_text(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {value!r}")


def require_texts(
    name: str, value: object, kind: type[frozenset[str]] | type[tuple[str, ...]]
) -> None:
    """Raise ValueError unless `value` is such a collection of strings; a string alone is none."""
    if not isinstance(value, kind) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} must be a {kind.__name__} of strings, got {value!r}")


def require_instance(name: str, value: object, kind: type) -> None:
    """Raise ValueError unless `value` is of this class."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {value!r}")


def _require_between(name: str, value: Any, least: float, most: float) -> None:
    if least <= value <= most:  # not as floats: whole numbers can be too large for them
        return
    if most < math.inf:
        bound = f"be between {least} and {most}"
    else:
        bound = f"be at least {least}" if least else "not be negative"
    raise ValueError(f"{name} must {bound}, got {value!r}")
