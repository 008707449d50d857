"""How much a run and everything below it may use. Who counts is `agentkit.budget`."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from decimal import Decimal

from agentkit.caching.ledger.amounts import plain
from agentkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on a run and all runs below it together, also after a resume. None is no limit.

    A limit on tokens or money is passed by no more than one request: near it, requests wait for
    each other. How many run side by side until then depends on the longest answer that they may
    give, so `Settings.max_tokens` lets more of them.

    Raises:
        ConfigurationError: a limit is no number above 0.
    """

    turns: int | None = None
    """Turns of models, also of subagents. `Agent.max_turns` bounds one run by itself."""
    tool_calls: int | None = None
    input_tokens: int | None = None
    """Read from a cache or not; also those of summaries and of keeping a prefix alive."""
    output_tokens: int | None = None
    tokens: int | None = None
    """Input and output together."""
    seconds: float | None = None
    """Wall time of all processes that ran it; what then runs is cancelled. The time between a
    pause and its resume is not counted."""
    usd: Decimal | float | None = None
    """Money. Models whose price is not known are not asked, unless `allow_unpriced`."""
    allow_unpriced: bool = False
    """Whether models without a known price may be asked under `usd`; what they cost is not
    counted."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "allow_unpriced":
                if not isinstance(value, bool):
                    raise ConfigurationError(f"Limits.{item.name} must be a bool, got {value!r}")
                continue
            if value is None:
                continue
            whole = item.name not in ("seconds", "usd")
            is_number = isinstance(value, int if whole else int | float | Decimal)
            if isinstance(value, bool) or not is_number or not 0 < value < math.inf:
                kind = "an int" if whole else "a number"
                raise ConfigurationError(
                    f"Limits.{item.name} must be {kind} above 0, or None for no limit, "
                    f"got {value!r}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """One limit, and what was used of it."""

    name: str
    """As in `Limits`."""
    allowed: Decimal
    used: Decimal
    """With `assumed`."""
    assumed: Decimal = Decimal(0)
    """The part of `used` that is an estimate: of requests whose use the provider did not report."""
    n_unknown: int = 0
    """How many requests these are."""

    @property
    def left(self) -> Decimal:
        """What may still be used; 0 where the last request took more."""
        return max(self.allowed - self.used, Decimal(0))

    @property
    def note(self) -> str:
        """What could not be counted exactly, in words; empty if everything could."""
        if not self.n_unknown:
            return ""
        requests = "one request" if self.n_unknown == 1 else f"{self.n_unknown} requests"
        return f"{plain(self.assumed)} of it estimated, for {requests} of unknown use"
