"""Prices of OpenAI-compatible hosts in USD per million tokens, from genai-prices 0.2.3."""

from __future__ import annotations

from decimal import Decimal as D

from agentkit.caching.policy.money import LengthTier, PriceRow, Rates
from agentkit.caching.policy.source import package
from agentkit.caching.policy.terms import Provider, Ttl


def _grok(model: str, input_: str, read: str, output: str) -> tuple[Provider, PriceRow]:
    rates = Rates(input=D(input_), read=D(read), output=D(output))
    doubled = LengthTier(above_tokens=200_000, inclusive=True, rates=rates.scaled(D(2)))
    return Provider.XAI, PriceRow(models=(model,), rates=rates, source=_SOURCE, long=doubled)


def _kimi(*models: str, input_: str, read: str, output: str) -> tuple[Provider, PriceRow]:
    price = D(input_)
    rates = Rates(
        input=price,
        read=D(read),
        output=D(output),
        writes=((Ttl.FIVE_MINUTES, price), (Ttl.ONE_HOUR, price * 2)),
    )
    return Provider.MOONSHOT, PriceRow(models=models, rates=rates, source=_SOURCE)


def _plain(
    provider: Provider, model: str, input_: str, read: str, output: str
) -> tuple[Provider, PriceRow]:
    rates = Rates(input=D(input_), read=D(read), output=D(output))
    return provider, PriceRow(models=(model,), rates=rates, source=_SOURCE)


_SOURCE = package("2026-11-29")

PRICES: tuple[tuple[Provider, PriceRow], ...] = (
    _grok("grok-4.7", "2", "0.50", "6"),
    _grok("grok-4.5", "2", "0.30", "6"),
    _grok("grok-4.3", "1.25", "0.20", "2.5"),
    _kimi("kimi-k3", input_="3", read="0.30", output="15"),
    _kimi("kimi-k3.1-pro", input_="2", read="0.20", output="10"),
    _plain(Provider.MISTRAL, "mistral-large-4", "0.70", "0.07", "2.1"),
    _plain(Provider.GROQ, "gpt-oss-120b", "0.15", "0.075", "0.60"),
)
