"""Whether a result is so large that reading it would hold up the event loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

_MOST_VALUES = 1_000
_MOST_CHARS = 100_000


def is_large(result: Mapping[str, object]) -> bool:
    """Return whether a result has more than 1,000 values or 100,000 characters. Quick itself."""
    left: list[object] = [result]
    n_values = n_chars = 0
    while left:
        value = left.pop()
        n_values += 1
        match value:
            case str():
                n_chars += len(value)
            case Mapping():
                n_values += len(value)  # its keys
                left += _some(value.values())
            case list():
                left += _some(value)
            case _:
                pass
        if n_values + len(left) > _MOST_VALUES or n_chars > _MOST_CHARS:
            return True
    return False


def _some(values: Collection[object]) -> list[object]:
    return list(islice(values, _MOST_VALUES + 1))
