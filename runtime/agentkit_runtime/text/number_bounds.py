"""Bounds and steps of the numbers that a JSON schema allows."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias

JsonObject: TypeAlias = Mapping[str, object]

MAX_INTEGER = 10**15
MAX_BOUND = 2**63 - 1
"""The grammar engine counts in 64 bits."""
NUMBER_STEP = 0.000_001
"""Numbers are multiples of this, which bounds their digits; exponents are not generated."""
MAX_DECIMALS = 12
"""The grammar engine loses digits of finer steps."""


class UnboundableSchema(ValueError):
    """A schema that no bounded schema can stand for. The message says why."""


def bounded_number(schema: JsonObject) -> dict[str, object]:
    """`schema` of a number or an integer with both bounds, within 64 bits.

    Raises `UnboundableSchema` if no such number is in the range.
    """
    changed = dict(schema)
    lower = _first_number(schema, "minimum", "exclusiveMinimum")
    upper = _first_number(schema, "maximum", "exclusiveMaximum")
    if (lower is not None and lower > MAX_BOUND) or (upper is not None and upper < -MAX_BOUND):
        raise UnboundableSchema(
            f"numbers from {lower!r} to {upper!r} have more than 64 bits; write them as strings"
        )
    # A bound farther out than that is only drawn nearer.
    for key in _BOUND_KEYS:
        value = _first_number(changed, key)
        if value is not None and abs(value) > MAX_BOUND:
            changed[key] = MAX_BOUND if value > 0 else -MAX_BOUND
    if lower is None:
        changed["minimum"] = max(-MAX_BOUND, min(0, int(upper or 0)) - MAX_INTEGER)
    if upper is None:
        changed["maximum"] = min(MAX_BOUND, max(0, int(lower or 0)) + MAX_INTEGER)
    return changed


def with_step(schema: JsonObject) -> dict[str, object]:
    """`schema` of a number as multiples of a step: finer than `NUMBER_STEP` in a narrow range.

    Raises `UnboundableSchema` for ranges that would need more than `MAX_DECIMALS` decimals.
    """
    lower = _first_number(schema, "minimum", "exclusiveMinimum")
    upper = _first_number(schema, "maximum", "exclusiveMaximum")
    if "multipleOf" in schema or lower is None or upper is None or upper - lower > NUMBER_STEP:
        return {"multipleOf": NUMBER_STEP, **schema}
    # With the decimals of the bounds both bounds are multiples; with one more, so is what is next.
    is_open = "exclusiveMinimum" in schema or "exclusiveMaximum" in schema
    n_decimals = max(6, _decimals(lower), _decimals(upper)) + is_open
    if n_decimals > MAX_DECIMALS:
        raise UnboundableSchema(
            f"the numbers from {lower!r} to {upper!r} need more than {MAX_DECIMALS} decimals; "
            "widen the range or use another unit"
        )
    step = Decimal(1).scaleb(-n_decimals)
    changed = {"multipleOf": float(step), **schema}
    # The engine lets 0 pass an exclusive bound of 0 in such ranges, so the bounds become inclusive.
    if changed.pop("exclusiveMinimum", None) is not None:
        changed["minimum"] = float(Decimal(repr(lower)) + step)
    if changed.pop("exclusiveMaximum", None) is not None:
        changed["maximum"] = float(Decimal(repr(upper)) - step)
    return changed


def _decimals(value: int | float) -> int:
    """Digits behind the decimal point."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _first_number(schema: JsonObject, *keys: str) -> int | float | None:
    for key in keys:
        value = schema.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return None


_BOUND_KEYS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
