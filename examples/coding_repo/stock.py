"""What the shop has in stock."""

from __future__ import annotations


class OutOfStock(Exception):
    """There is less than was asked for."""


class Stock:
    """Numbers of articles by name."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, name: str, number: int) -> None:
        """Put articles into stock."""
        self._numbers[name] = number

    def take(self, name: str, number: int) -> int:
        """Take articles out of stock; returns how many are left.

        Raises:
            OutOfStock: there are not so many. Nothing is taken then.
        """
        self._numbers[name] -= number
        if self._numbers[name] < 0:
            raise OutOfStock(name)
        return self._numbers[name]
