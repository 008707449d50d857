"""Prices from the optional package genai-prices, as our own rates. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from agentkit.caching.policy import Platform, Provider, Rates, Speed, Terms, Ttl

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


def package_price(
    provider: Provider,
    platform: Platform,
    model: str,
    n_input_tokens: int,
    at: datetime,
    terms: Terms,
) -> tuple[Rates, str] | None:
    """Return the rates of the package's bundled table and their source; None if it has none.

    It has no storage prices, none for OpenAI's 12-hour writes, and none for regional endpoints:
    what would need one of these stays unknown.
    """
    naming = _PROVIDERS.get(provider)
    if naming is None or platform is not Platform.DIRECT or terms.us_only or terms.regional:
        return None
    try:
        import genai_prices
        from genai_prices.data import providers
    except ImportError:
        return None
    listed = next((each for each in providers if each.id == naming.id), None)
    found = None if listed is None else listed.find_model(model, all_providers=providers)
    if found is None:
        return None
    prices = _prices(found, at, naming, terms)
    if prices is None:
        return None
    rates = _rates(prices, n_input_tokens, naming)
    if rates is None:
        return None
    return rates, f"genai-prices {genai_prices.__version__} ({found.id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Naming:
    """How the package names a provider, and its terms."""

    id: str
    short: Ttl | None = None
    """The lifetime of `cache_write_mtok`."""
    long: Ttl | None = None
    """The lifetime of `cache_write_1h_mtok`."""
    fast: tuple[str, str] | None = None


# genai-prices 0.2.3
_PROVIDERS = {
    Provider.ANTHROPIC: _Naming(
        id="anthropic", short=Ttl.FIVE_MINUTES, long=Ttl.ONE_HOUR, fast=("speed", "fast")
    ),
    Provider.OPENAI: _Naming(id="openai", short=Ttl.THIRTY_MINUTES, fast=("service_tier", "fast")),
    Provider.DEEPSEEK: _Naming(id="deepseek"),
    Provider.GEMINI: _Naming(id="google"),
    Provider.OPENROUTER: _Naming(id="openrouter", short=Ttl.FIVE_MINUTES, long=Ttl.ONE_HOUR),
    Provider.XAI: _Naming(id="x-ai"),
    Provider.MISTRAL: _Naming(id="mistral"),
    Provider.GROQ: _Naming(id="groq"),
    Provider.MOONSHOT: _Naming(id="moonshotai", short=Ttl.FIVE_MINUTES, long=Ttl.ONE_HOUR),
}


def _prices(model: ModelInfo, at: datetime, naming: _Naming, terms: Terms) -> ModelPrice | None:
    """Return the prices under the terms; None where the package has none for them."""
    wanted: dict[str, str] = {}
    if terms.batch:
        wanted["processing"] = "batch"
    if terms.speed is Speed.FAST:
        if naming.fast is None:
            return None
        wanted.update((naming.fast,))
    if wanted and not _has_variant(model, at, wanted):
        return None
    return model.get_prices(at, wanted or None)


def _has_variant(model: ModelInfo, at: datetime, wanted: Mapping[str, str]) -> bool:
    # The package answers with the standard price where it has no variant.
    return any(
        dict(variant.when) == dict(wanted)
        and (variant.constraint is None or variant.constraint.active(at))
        for variant in model.price_variants or ()
    )


def _rates(prices: ModelPrice, n_input_tokens: int, naming: _Naming) -> Rates | None:
    def of(name: str) -> Decimal | None:
        return _at_length(getattr(prices, name, None), n_input_tokens)

    input_, output = of("input_mtok"), of("output_mtok")
    if input_ is None or output is None:
        return None
    read = of("cache_read_mtok")
    writes = tuple(
        (ttl, price)
        for ttl, price in (
            (naming.short, of("cache_write_mtok")),
            (naming.long, of("cache_write_1h_mtok")),
        )
        if ttl is not None and price is not None
    )
    # The package bills what has no price of its own as plain input.
    return Rates(input=input_, read=input_ if read is None else read, output=output, writes=writes)


def _at_length(price: object, n_input_tokens: int) -> Decimal | None:
    """Return the price at a prompt length: the highest tier whose start it passes."""
    if price is None or isinstance(price, Decimal):
        return price
    base, tiers = getattr(price, "base", None), getattr(price, "tiers", ())
    for tier in reversed(tiers):
        if n_input_tokens > tier.start:
            base = tier.price
            break
    return base if isinstance(base, Decimal) else None
