"""What reading and writing cost, as multiples of plain input, and for how long an entry lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from agentkit.caching.policy import Policy, Rates, Terms, Ttl, TtlChoice

_USUAL_READ = Decimal("0.1")
_USUAL_WRITE = Decimal("1.25")
"""The commonest multipliers, for models without a known price. Only decisions use them; what a
request costs is then said to be unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A lifetime that can be chosen, and what writing with it costs."""

    ttl: Ttl | None
    """None: the provider offers no choice."""
    seconds: float
    write: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """The price of a read, and the shortest and the longest lifetime. Equal if there is one."""

    read: Decimal
    short: Life
    long: Life

    @property
    def differ(self) -> bool:
        """Whether there is anything to choose."""
        return self.long.seconds > self.short.seconds


def lives_of(
    policy: Policy,
    choices: Sequence[TtlChoice],
    *,
    tokens: int,
    at: datetime,
    terms: Terms,
    idle_s: float,
) -> Lives:
    """Return what a request of this length may choose from.

    `idle_s` is how long an entry lives where there is nothing to choose.
    """
    rates = None if policy.prices is None else policy.prices.rates_for(tokens, at, terms)
    read = _USUAL_READ if rates is None else rates.read / rates.input
    lives = sorted((_life(choice, rates) for choice in choices), key=lambda life: life.seconds)
    if not lives:
        lives = [Life(ttl=None, seconds=idle_s, write=_USUAL_WRITE)]
    return Lives(read=read, short=lives[0], long=lives[-1])


def _life(choice: TtlChoice, rates: Rates | None) -> Life:
    price = None if rates is None else rates.write(choice.ttl)
    write = choice.write_multiplier
    if rates is not None and price is not None:
        write = price / rates.input
    return Life(ttl=choice.ttl, seconds=choice.ttl.seconds, write=write)
