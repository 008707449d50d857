"""OpenAI's prices in USD per million tokens, from genai-prices 0.2.3 and litellm 1.110.2."""

from __future__ import annotations

from datetime import date
from decimal import Decimal as D

from agentkit.caching.policy.money import LengthTier, PriceRow, Rates
from agentkit.caching.policy.source import Source, note, package
from agentkit.caching.policy.terms import Ttl


def _row(
    model: str,
    input_: str,
    read: str,
    output: str,
    *,
    writes: bool = True,
    long: bool = True,
    fast: str = "2",
    valid_from: date | None = None,
    source: Source | None = None,
) -> PriceRow:
    price = D(input_)
    rates = Rates(
        input=price,
        read=D(read),
        output=D(output),
        writes=(
            (Ttl.THIRTY_MINUTES, price * D("1.25")),
            (Ttl.TWELVE_HOURS, price * D("2.5")),
        )
        if writes
        else (),
    )
    # From GPT-5.4 on, a request over 272k pays double input and 1.5 times output, all of it.
    tier = LengthTier(above_tokens=272_000, rates=rates.scaled(D(2), output=D("1.5")))
    return PriceRow(
        models=(model,),
        rates=rates,
        source=source or _PACKAGES,
        valid_from=valid_from,
        long=tier if long else None,
        fast=rates.scaled(D(fast)),
        batch_factor=D("0.5"),
    )


_PACKAGES = package("2026-11-29")

PRICES: tuple[PriceRow, ...] = (
    # The 12h price of the 6.2 models is assumed to be 2.5 times input like that of all others.
    _row(
        "gpt-6.2-astra",
        "8",
        "0.40",
        "40",
        valid_from=date(2026, 11, 17),
        source=note("2026-11-18"),
    ),
    _row("gpt-6.2-sol", "2", "0.10", "10", source=note("2026-11-18")),
    _row("gpt-6.1-sol", "2", "0.10", "10"),
    _row("gpt-6.1-terra", "1", "0.05", "5", valid_from=date(2026, 10, 26)),
    _row("gpt-6-astra", "10", "1", "50"),
    _row("gpt-6-sol", "2", "0.20", "10"),
    _row("gpt-6-luna", "0.10", "0.01", "0.50"),
    # A promotion "through at least 2026-11-21"; no later price is published.
    _row("gpt-5.6-sol", "4", "0.40", "20"),
    _row("gpt-5.6-terra", "2", "0.20", "12"),
    _row("gpt-5.6-luna", "0.20", "0.02", "1.20"),
    _row("gpt-5.5", "5", "0.50", "30", writes=False, fast="2.5"),
    _row("gpt-5.4", "2.5", "0.25", "15", writes=False),
    _row("gpt-5.4-mini", "0.75", "0.075", "4.5", writes=False, long=False),
    _row("gpt-5", "1.25", "0.125", "10", writes=False, long=False),
    _row("gpt-4.1", "2", "0.50", "8", writes=False, long=False, fast="1.75"),
    _row("gpt-4o", "2.5", "1.25", "10", writes=False, long=False, fast="1.7"),
)
