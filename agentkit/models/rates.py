"""Rates: what the app bounds, what a provider says, and how long either makes a request wait."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from agentkit.errors import ConfigurationError

Kind: TypeAlias = Literal["requests", "tokens", "input_tokens", "output_tokens"]
"""What is counted. `tokens` are input and output together."""

LONGEST_S = 300.0
"""Who asks for a longer wait is asked all the same: it then refuses, and the run says so."""
EXACT_S = 0.001
"""Shorter waits are none: clocks are not more exact, and one that stands still never ends them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """What may be sent. None is no bound of ours; what the provider says in its headers holds too.

    Raises:
        ConfigurationError: a bound is no int of at least 1.
    """

    max_concurrent: int | None = None
    """Requests at the same time, each from being sent to its last byte."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Input and output together."""
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < 1
            ):
                raise ConfigurationError(
                    f"RateLimits.{item.name} must be an int of at least 1, or None for no bound, "
                    f"got {value!r}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a provider says of one of its limits."""

    kind: Kind
    remaining: float
    reset_s: float
    """Seconds until it is whole again."""


@dataclass(slots=True)
class Window:
    """What the provider has left for us, until a time."""

    remaining: float
    ends_s: float

    def wait_s(self, amount: float, now_s: float) -> float:
        """Return for how long a request that takes so much has to wait."""
        wait_s = self.ends_s - now_s
        return 0.0 if self.remaining >= amount or wait_s > LONGEST_S else max(0.0, wait_s)


@dataclass(slots=True)
class Bucket:
    """A minute's worth, which fills up evenly."""

    per_minute: int
    level: float
    at_s: float

    def wait_s(self, amount: float, now_s: float) -> float:
        """Return for how long a request that takes so much has to wait."""
        self._fill(now_s)
        missing = min(amount, self.per_minute) - self.level
        wait_s = missing * 60 / self.per_minute
        return wait_s if wait_s > EXACT_S else 0.0

    def take(self, amount: float, now_s: float) -> None:
        """Count what a request takes; below 0 gives back."""
        self._fill(now_s)
        self.level -= amount

    def _fill(self, now_s: float) -> None:
        filled = self.level + (now_s - self.at_s) * self.per_minute / 60
        self.level, self.at_s = min(float(self.per_minute), filled), now_s
