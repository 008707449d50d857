"""What tokens cost, for decisions about a context: prices by length and day, or relative weights.

Where no price is known the decisions are still made, in units of one token of plain input: what
counts is only how dear reading is beside writing. The money is then said to be unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from agentkit.caching.policy import PriceRow, Rates, Terms, Ttl
from agentkit.caching.policy.money import MILLION

_RELATIVE = Rates(input=Decimal(1), read=Decimal("0.1"), output=Decimal(5))
"""The most common ratios; our assumption, for models without a known price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of one model at one time."""

    row: PriceRow | None
    """`policy.prices`; None: not known."""
    at: datetime
    """When the requests are made, with a time zone: some prices depend on the hour."""
    terms: Terms = field(default_factory=Terms)
    ttl: Ttl | None = None
    """The lifetime that is written; None: the cheapest."""

    @property
    def is_known(self) -> bool:
        """Whether costs are money."""
        return self._rates(0) is not None

    def request(
        self, *, read: int = 0, written: int = 0, output: int = 0, n_input: int | None = None
    ) -> Decimal:
        """Return what one request costs, in USD, or in tokens of plain input if not known.

        Args:
            read: input tokens that are read from the cache.
            written: input tokens that are computed and kept.
            output: tokens that the model writes.
            n_input: its whole input, which may set the price; by default read + written.
        """
        rates = self._rates(read + written if n_input is None else n_input)
        scale = MILLION if rates is not None else Decimal(1)
        rates = rates or _RELATIVE
        total = read * rates.read + written * self._write(rates) + output * rates.output
        return total / scale

    def _rates(self, n_input: int) -> Rates | None:
        return None if self.row is None else self.row.rates_for(n_input, self.at, self.terms)

    def _write(self, rates: Rates) -> Decimal:
        if not rates.writes:
            return rates.input
        chosen = None if self.ttl is None else rates.write(self.ttl)
        return min(price for _, price in rates.writes) if chosen is None else chosen
