"""JSON on the wires: bytes that say a value, and whether a model's text is an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NoReturn

from agentkit.blocks import VendorItem
from agentkit.errors import RequestRefused


def compact_json(value: object) -> bytes:
    """Return compact JSON with the keys in the order in which they are, and exact characters."""
    return _ENCODER.encode(value).encode()


def is_json_object(text: str) -> bool:
    """Whether a text is a JSON object: without NaN or infinities, and with a UTF-8 form."""
    try:
        value = _DECODER.decode(text)
        # A lone surrogate has an escape in JSON and no UTF-8 form; APIs refuse it.
        compact_json(value)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def object_of(item: VendorItem) -> Mapping[str, object]:
    """Return a vendor item as an object.

    Raises:
        RequestRefused: it is no JSON object.
    """
    try:
        value = json.loads(item.data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RequestRefused(
            f"a vendor item of {item.source!r} is no JSON object and cannot be replayed: "
            f"{item.data[:100]!r}; leave it out of the context"
        )
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
# `json.loads` and `json.dumps` would make one for each value.
