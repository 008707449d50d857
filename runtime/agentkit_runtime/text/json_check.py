"""Schemas from outside are JSON and of bounded depth before anything recursive sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentkit_runtime.errors import RequestRejected

MAX_JSON_DEPTH = 100
"""How deep objects and lists may nest; templates and the grammar engine recurse over them."""


def check_json(value: object, field: str) -> None:
    """Raise `RequestRejected`, naming `field`, for what is not JSON or nests too deep."""
    pending: list[tuple[object, int]] = [(value, 1)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_JSON_DEPTH:
            raise RequestRejected(
                f"{field} nests deeper than {MAX_JSON_DEPTH} levels; flatten it", field=field
            )
        if isinstance(item, Mapping):
            _check_keys(item, field)
            pending += [(child, depth + 1) for child in item.values()]
        elif isinstance(item, (list, tuple)):
            pending += [(child, depth + 1) for child in item]
        elif isinstance(item, float) and not math.isfinite(item):
            raise RequestRejected(
                f"{field} holds {item!r}, which JSON does not have; use a finite number",
                field=field,
            )
        elif not (item is None or isinstance(item, (str, int, float))):
            raise RequestRejected(
                f"{field} is not JSON: it holds a {type(item).__name__}; "
                "use objects, lists, strings, numbers, booleans and null",
                field=field,
            )


def _check_keys(item: Mapping[object, object], field: str) -> None:
    for key in item:
        if not isinstance(key, str):
            raise RequestRejected(
                f"{field} is not JSON: the key {key!r} is not a string", field=field
            )
