"""Prices, in cents: floats would lose some."""

from __future__ import annotations


def total(prices: list[int], discount_percent: int = 0) -> int:
    """Return the sum less a discount, rounded in favour of the customer."""
    return sum(prices) * (100 - discount_percent) // 100
