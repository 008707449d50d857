"""How much of what it should read an implicit cache really reads, learned as it happens."""

from __future__ import annotations

from decimal import Decimal

_WEIGHT = Decimal("0.3")
"""Of the latest request: a cache that works again is trusted again after a few."""


class ImplicitShare:
    """One model's implicit cache. Trusted until it falls short."""

    def __init__(self) -> None:
        self._share = Decimal(1)

    def learn(self, *, predicted: int, actual: int) -> None:
        """Take in one request: tokens that should have been read, and that were."""
        if predicted > 0:
            kept = min(Decimal(1), Decimal(actual) / predicted)
            self._share = self._share * (1 - _WEIGHT) + kept * _WEIGHT

    @property
    def share(self) -> Decimal:
        """What to expect, 0 to 1."""
        return self._share
