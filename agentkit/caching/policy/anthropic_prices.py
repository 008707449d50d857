"""Anthropic's prices in USD per million tokens.

From genai-prices 0.2.3 and litellm 1.110.2, which agree; older models also from the pricing page.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal as D

from agentkit.caching.policy.money import LengthTier, PriceRow, Rates
from agentkit.caching.policy.source import Source, package
from agentkit.caching.policy.terms import Ttl


def _rates(input_: str, read: str, output: str) -> Rates:
    price = D(input_)
    writes = ((Ttl.FIVE_MINUTES, price * D("1.25")), (Ttl.ONE_HOUR, price * 2))
    return Rates(input=price, read=D(read), output=D(output), writes=writes)


def _row(
    *models: str,
    rates: Rates,
    fast: Rates | None = None,
    valid_from: date | None = None,
    long: LengthTier | None = None,
    us_only: bool = True,
) -> PriceRow:
    return PriceRow(
        models=models,
        rates=rates,
        source=_PACKAGES,
        valid_from=valid_from,
        long=long,
        fast=fast,
        batch_factor=D("0.5"),  # docs 2026-08-21, pricing; multipliers stack
        us_only_factor=D("1.1") if us_only else None,  # docs 2026-08-21: Claude 4.6 and later
        regional_factor=D("1.1"),  # docs 2026-08-21: Bedrock and Google Cloud
    )


_PACKAGES: Source = package("2026-11-29")

PRICES: tuple[PriceRow, ...] = (
    _row(
        "claude-fable-5-2",
        "claude-mythos-5-2",
        rates=_rates("8", "0.20", "40"),
        fast=_rates("16", "0.40", "80"),
        valid_from=date(2026, 11, 9),
    ),
    _row("claude-fable-5-1", "claude-mythos-5-1", rates=_rates("10", "0.25", "50")),
    _row(
        "claude-opus-5-5",
        rates=_rates("4", "0.20", "20"),
        fast=_rates("8", "0.40", "40"),
        valid_from=date(2026, 9, 22),
    ),
    _row(
        "claude-opus-5",
        "claude-opus-4-8",
        rates=_rates("5", "0.50", "25"),
        fast=_rates("10", "1.00", "50"),
    ),
    _row("claude-opus-4-7", "claude-opus-4-6", rates=_rates("5", "0.50", "25")),
    _row("claude-opus-4-5", rates=_rates("5", "0.50", "25"), us_only=False),
    _row("claude-sonnet-5-5", rates=_rates("2", "0.20", "10"), valid_from=date(2026, 9, 28)),
    _row("claude-sonnet-5-5", rates=_rates("2", "0.10", "10"), valid_from=date(2026, 10, 7)),
    _row("claude-sonnet-5", rates=_rates("2", "0.20", "10")),
    _row("claude-sonnet-4-6", rates=_rates("3", "0.30", "15")),
    # Retires on 2026-11-30 (client 2.14.0, DEPRECATED_MODELS).
    _row(
        "claude-sonnet-4-5",
        rates=_rates("3", "0.30", "15"),
        long=LengthTier(above_tokens=200_000, rates=_rates("6", "0.60", "22.5")),
        us_only=False,
    ),
    _row(
        "claude-haiku-5-5",
        rates=_rates("0.10", "0.01", "0.50"),
        long=LengthTier(above_tokens=100_000, rates=_rates("0.50", "0.05", "2.50")),
        valid_from=date(2026, 10, 7),
    ),
    _row("claude-haiku-4-5", rates=_rates("1", "0.10", "5"), us_only=False),
)
