"""Prices in US dollars per million tokens, and what a request costs. Exact: Decimal throughout."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal

from agentkit.caching.policy.source import Source
from agentkit.caching.policy.terms import Ttl

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a million tokens cost, in USD."""

    input: Decimal
    read: Decimal
    output: Decimal
    writes: tuple[tuple[Ttl, Decimal], ...] = ()
    """Price by lifetime. Empty where writing costs nothing more than the input it is."""
    storage_hour: Decimal | None = None
    """For a million tokens kept for an hour. None where nothing is stored for money."""

    def write(self, ttl: Ttl) -> Decimal | None:
        """Return the price of writing with this lifetime; None if it cannot be chosen."""
        return dict(self.writes).get(ttl)

    def scaled(self, factor: Decimal, *, output: Decimal | None = None) -> Rates:
        """Return all prices times `factor`; the output price times `output` where it is given.

        Storage is not scaled: no surcharge or discount is documented for it.
        """
        return replace(
            self,
            input=self.input * factor,
            read=self.read * factor,
            output=self.output * (factor if output is None else output),
            writes=tuple((ttl, price * factor) for ttl, price in self.writes),
        )


class Speed(enum.StrEnum):
    """How fast the provider answers, for money."""

    STANDARD = "standard"
    FAST = "fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What changes the price of a request beside its tokens."""

    speed: Speed = Speed.STANDARD
    batch: bool = False
    """Batch, or OpenAI's flex tier at the same price."""
    us_only: bool = False
    """Anthropic's `inference_geo: "us"`."""
    regional: bool = False
    """A regional endpoint of a cloud platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthTier:
    """Other prices for the *whole* request when its input is longer than a bound."""

    above_tokens: int
    rates: Rates
    inclusive: bool = False
    """Whether the bound itself already pays these prices."""

    def holds(self, n_input_tokens: int) -> bool:
        """Return whether an input of this length pays these prices."""
        if self.inclusive:
            return n_input_tokens >= self.above_tokens
        return n_input_tokens > self.above_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakHours:
    """When the full price is due; at other times `off_peak` is."""

    windows_utc: tuple[tuple[time, time], ...]
    """From (inclusive) and to (exclusive), in UTC."""
    weekdays: frozenset[int]
    """Monday is 0."""
    off_peak: Rates
    holidays: frozenset[date] = frozenset()
    """UTC dates without peak hours. Empty in our data: put the public holidays of the year in."""

    def is_peak(self, at: datetime) -> bool:
        """Return whether the full price is due at `at`, which must have a time zone."""
        if at.tzinfo is None:
            raise ValueError(f"{at!r} has no time zone; pass e.g. datetime.now(UTC)")
        moment = at.astimezone(UTC)
        if moment.weekday() not in self.weekdays or moment.date() in self.holidays:
            return False
        return any(start <= moment.time() < end for start, end in self.windows_utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """The prices of some models from a day on, until a later row for the same model."""

    models: tuple[str, ...]
    rates: Rates
    source: Source
    valid_from: date | None = None
    """None: the first day is not recorded, the row holds for any earlier day too."""
    long: LengthTier | None = None
    peak: PeakHours | None = None
    fast: Rates | None = None
    """None: no price is known for the fast mode, which is not the same as no surcharge."""
    batch_factor: Decimal | None = None
    """None: no batch price is known."""
    batch_read_factor: Decimal | None = None
    """For reads in a batch, where they differ from `batch_factor`."""
    us_only_factor: Decimal | None = None
    regional_factor: Decimal | None = None

    def rates_for(
        self, n_input_tokens: int, at: datetime, terms: Terms | None = None
    ) -> Rates | None:
        """Return what this request pays; None if the price under these terms is unknown."""
        terms = terms or Terms()
        is_long = self.long is not None and self.long.holds(n_input_tokens)
        if terms.speed is Speed.FAST:
            rates = self._fast(is_long)
        else:
            rates = self.long.rates if self.long is not None and is_long else self._base(at)
        for wanted, factor in (
            (terms.us_only, self.us_only_factor),
            (terms.regional, self.regional_factor),
        ):
            if wanted:
                rates = _scaled(rates, factor)
        return self._batched(rates) if terms.batch else rates

    def _base(self, at: datetime) -> Rates:
        if self.peak is not None and not self.peak.is_peak(at):
            return self.peak.off_peak
        return self.rates

    def _fast(self, is_long: bool) -> Rates | None:
        if self.fast is None or self.long is None or not is_long:
            return self.fast
        # Where both exist, the fast mode is a factor on all prices.
        return self.long.rates.scaled(self.fast.input / self.rates.input)

    def _batched(self, rates: Rates | None) -> Rates | None:
        scaled = _scaled(rates, self.batch_factor)
        if scaled is None or rates is None or self.batch_read_factor is None:
            return scaled
        return replace(scaled, read=rates.read * self.batch_read_factor)


def row_for(rows: Iterable[PriceRow], model: str, on: date) -> PriceRow | None:
    """Return the row that holds for the model on that day; None if none does, never a guess."""
    valid = [
        row
        for row in rows
        if model in row.models and (row.valid_from is None or row.valid_from <= on)
    ]
    return max(valid, key=lambda row: row.valid_from or date.min, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSplit:
    """The input tokens of one request: each is read, written or neither; never two of these."""

    read: int
    writes: tuple[tuple[Ttl, int], ...] = ()
    """Tokens by lifetime; lifetimes without tokens are left out."""
    uncached: int

    @property
    def written(self) -> int:
        """Tokens written, of all lifetimes."""
        written = 0
        for _, n_tokens in self.writes:
            written += n_tokens
        return written

    @property
    def total(self) -> int:
        """All input tokens."""
        return self.read + self.written + self.uncached

    def wrote(self, ttl: Ttl) -> int:
        """Return the tokens written with this lifetime."""
        return dict(self.writes).get(ttl, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one request costs, in USD."""

    read: Decimal
    write: Decimal
    uncached: Decimal
    output: Decimal
    write_premium: Decimal
    """The part of `write` that is more than plain input would have cost. Not added to the total."""

    @property
    def total(self) -> Decimal:
        """The bill."""
        return self.read + self.write + self.uncached + self.output


def cost_of(split: InputSplit, rates: Rates, *, output_tokens: int = 0) -> Cost:
    """Return the bill of one request.

    Raises:
        ValueError: the split has a lifetime for which the rates, which have others, know no price.
    """
    write = Decimal(0)
    for ttl, n_tokens in split.writes:
        price = rates.write(ttl) if rates.writes else rates.input
        if price is None:
            known = ", ".join(ttl for ttl, _ in rates.writes)
            raise ValueError(f"no write price for the lifetime {ttl.value!r}; there are: {known}")
        write += n_tokens * price / MILLION
    return Cost(
        read=split.read * rates.read / MILLION,
        write=write,
        uncached=split.uncached * rates.input / MILLION,
        output=output_tokens * rates.output / MILLION,
        write_premium=write - split.written * rates.input / MILLION,
    )


def _scaled(rates: Rates | None, factor: Decimal | None) -> Rates | None:
    return None if rates is None or factor is None else rates.scaled(factor)
