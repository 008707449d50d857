"""What an app may say about caching. The defaults are meant to be right."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from agentkit.caching.policy import Platform, Switches
from agentkit.caching.prices import PriceBook
from agentkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """How a hosted model's cache is used.

    Raises:
        ConfigurationError: an amount is negative.
    """

    enabled: bool = True
    """False: no marks and no keep-alives. Keys stay, because they keep tenants apart; what happens
    is still reported."""
    platform: Platform = Platform.DIRECT
    """Where the model is hosted: minimums, prices and isolation differ."""
    switches: Switches = field(default_factory=Switches)
    """Which of two contradicting sources is believed, see `agentkit.caching.policy.REASONS`."""
    keep_alive_usd: Decimal = Decimal("0.25")
    """Most that may be spent to keep a prefix alive over one wait for tools; 0: never."""
    prices: PriceBook = field(default_factory=PriceBook)
    """Where prices come from; give `PriceBook(overrides=...)` for models of your own."""
    priority: int = 0
    """Higher is served sooner, at servers that can be asked for it (vLLM, SGLang)."""
    wait_for_siblings: bool = True
    """Whether a request waits while another writes the prefix that both have."""

    def __post_init__(self) -> None:
        if self.keep_alive_usd < 0:
            raise ConfigurationError(
                f"keep_alive_usd must be at least 0, got {self.keep_alive_usd!r}; 0 is off"
            )
