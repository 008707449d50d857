"""Gemini's prices in USD per million tokens, from genai-prices 0.2.3. Storage is by the hour."""

from __future__ import annotations

from datetime import date
from decimal import Decimal as D

from agentkit.caching.policy.money import LengthTier, PriceRow, Rates
from agentkit.caching.policy.source import package


def prices(*, half_batch_reads: bool) -> tuple[PriceRow, ...]:
    """Return the rows. In a batch, reads cost what they always do, or half of it."""
    read_factor = D("0.5") if half_batch_reads else D(1)
    return tuple(
        PriceRow(
            models=models,
            rates=rates,
            source=package("2026-11-29"),
            valid_from=valid_from,
            long=long,
            batch_factor=D("0.5"),
            batch_read_factor=read_factor,
        )
        for models, valid_from, rates, long in _ROWS
    )


def _rates(input_: str, read: str, output: str, storage: str | None = None) -> Rates:
    return Rates(
        input=D(input_),
        read=D(read),
        output=D(output),
        storage_hour=None if storage is None else D(storage),
    )


_FLASH = ("gemini-3.8-flash", "gemini-3.7-flash")
_PRO = ("gemini-3.1-pro-preview",)

_ROWS: tuple[tuple[tuple[str, ...], date | None, Rates, LengthTier | None], ...] = (
    (("gemini-4-argon",), None, _rates("2", "0.10", "10"), None),
    (("gemini-4-argon",), date(2026, 12, 1), _rates("4", "0.20", "20"), None),
    (("gemini-4-neon",), None, _rates("3", "0.15", "15"), None),
    (("gemini-4-hydrogen",), None, _rates("1.5", "0.075", "7.5"), None),
    (_FLASH, None, _rates("0.75", "0.075", "3.75", "0.50"), None),
    (_FLASH, date(2027, 1, 1), _rates("1.5", "0.15", "7.5", "1.00"), None),
    (
        _PRO,
        None,
        _rates("2", "0.20", "12", "4.50"),
        LengthTier(above_tokens=200_000, rates=_rates("4", "0.40", "18", "4.50")),
    ),
)
