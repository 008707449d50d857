"""How much a request uses of each limit, in an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What a request may use at most, or has used most probably, in an estimate."""

    turns: int = 1
    """0 for a summary, which is no turn."""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal = Decimal(0)
    is_free: bool = False
    """Whether the model sends no bill, or its bill is not counted."""

    def amounts(self) -> dict[str, int | Decimal]:
        """Return the amounts by the names of the limits."""
        return {
            "turns": self.turns,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "tokens": self.input_tokens + self.output_tokens,
            "usd": self.usd,
        }
