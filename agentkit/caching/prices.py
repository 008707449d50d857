"""What a request pays for its tokens: the user's own prices, ours, or those of genai-prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from agentkit.caching.package_prices import package_price
from agentkit.caching.policy import (
    Evidence,
    Policy,
    PriceRow,
    Provider,
    Rates,
    Source,
    Terms,
    plain_name,
)
from agentkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The rates of one request, and who says so."""

    rates: Rates
    source: str
    """E.g. `policy (package 2026-11-29)`, `genai-prices 0.2.3 (gpt-6-sol)`, `override`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceBook:
    """Prices by day, prompt length, lifetime and tier. An unknown price is None, never a guess.

    Raises:
        ConfigurationError: an override is no price.
    """

    overrides: Mapping[str, Rates | PriceRow] = field(default_factory=dict)
    """By model, or by `provider:model`, which beats it. They win over everything else.

    `Rates` hold for every request of the model; a `PriceRow` has days, lengths and terms too.
    E.g. `{"vllm:llama-3-70b": Rates(input=Decimal("0.20"), read=Decimal(0), output=Decimal(1))}`.
    """
    package: bool = True
    """Whether genai-prices, if it is installed, is asked where our own rows are silent."""

    def __post_init__(self) -> None:
        for name, price in self.overrides.items():
            if not isinstance(price, Rates | PriceRow):
                raise ConfigurationError(
                    f"the price of {name!r} must be Rates or a PriceRow, got {price!r}"
                )

    def price(
        self,
        policy: Policy,
        n_input_tokens: int,
        at: datetime,
        terms: Terms | None = None,
        *,
        model: str | None = None,
    ) -> Price | None:
        """Return what a request of this length pays at this time; None if nobody knows.

        `model` is the name as it is on the wire; without it the policy's plain name is taken.
        """
        terms = terms or Terms()
        own = self._override(policy.provider, (model or policy.model, policy.model))
        if own is not None:
            return _priced(own, n_input_tokens, at, terms, "override")
        if policy.prices is not None:
            source = f"policy ({policy.prices.source})"
            return _priced(policy.prices, n_input_tokens, at, terms, source)
        if not self.package:
            return None
        found = package_price(
            policy.provider, policy.platform, model or policy.model, n_input_tokens, at, terms
        )
        return None if found is None else Price(rates=found[0], source=found[1])

    def applied(self, policy: Policy) -> Policy:
        """Return the policy with the user's own price in it, so that plans reckon with it too.

        Without an override it is returned as it is.
        """
        own = self._override(policy.provider, (policy.model,))
        if own is None:
            return policy
        if isinstance(own, Rates):
            said = Source(Evidence.USER, policy.on)
            own = PriceRow(models=(policy.model,), rates=own, source=said)
        return replace(policy, prices=own)

    def _override(self, provider: Provider, names: tuple[str, ...]) -> Rates | PriceRow | None:
        if not self.overrides:
            return None
        for prefix in (f"{provider.value}:", ""):
            for name in (*names, *map(plain_name, names)):
                if (price := self.overrides.get(prefix + name)) is not None:
                    return price
        return None


def _priced(
    price: Rates | PriceRow, n_input_tokens: int, at: datetime, terms: Terms, source: str
) -> Price | None:
    if isinstance(price, PriceRow):
        if price.valid_from is not None and at.date() < price.valid_from:
            return None
        rates = price.rates_for(n_input_tokens, at, terms)
    else:
        rates = price
    return None if rates is None else Price(rates=rates, source=source)
