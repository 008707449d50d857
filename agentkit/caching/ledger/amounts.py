"""Sums of amounts of which some may be unknown: `at least X, of n nothing is known`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit.blocks import Json


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A sum, and how many of its parts are missing in it. Exact, so order does not matter."""

    known: Decimal = Decimal(0)
    """The sum of all parts that are known."""
    unknown: int = 0
    """Parts that are not."""

    @staticmethod
    def of(parts: Iterable[Decimal | int | None]) -> AtLeast:
        """Add up parts; None is an unknown one.

        Raises:
            decimal.Inexact: the sum has more than 100 digits.
        """
        exact, known, unknown = _exact(), Decimal(0), 0
        for part in parts:
            if part is None:
                unknown += 1
            else:
                known = exact.add(known, Decimal(part))
        return AtLeast(known, unknown)

    @property
    def exact(self) -> Decimal | None:
        """The sum; None if a part of it is unknown."""
        return None if self.unknown else self.known

    def plus(self, other: AtLeast) -> AtLeast:
        """Return both together."""
        return AtLeast(_exact().add(self.known, other.known), self.unknown + other.unknown)

    def minus(self, other: AtLeast) -> Decimal | None:
        """Return the difference; None if either is not exact."""
        if self.exact is None or other.exact is None:
            return None
        return _exact().subtract(self.exact, other.exact)

    def to_json(self) -> dict[str, Json]:
        """Return a JSON object; the amount is text, so that no digit is lost."""
        return {"known": plain(self.known), "unknown": self.unknown}

    def __str__(self) -> str:
        if not self.unknown:
            return plain(self.known)
        requests = "request" if self.unknown == 1 else "requests"
        return f"at least {plain(self.known)} ({self.unknown} {requests} unknown)"


def plain(amount: Decimal) -> str:
    """Return an amount without an exponent and without idle zeros."""
    text = f"{amount:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def _exact() -> Context:
    # The usual 28 digits would round silently, and differently in another order.
    return Context(prec=100, traps=[Inexact])
