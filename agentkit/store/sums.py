"""What the requests of a run come to, step by step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import RowMapping

from agentkit.caching.ledger.amounts import AtLeast, plain
from agentkit.caching.report import RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What the requests of a run come to."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    usd: AtLeast = field(default_factory=AtLeast)
    n_unpriced: int = 0

    def plus(self, requests: Iterable[RequestRecord]) -> Sums:
        """Return the sums with more requests."""
        more = list(requests)
        usages, verdicts = [each.usage for each in more], [each.verdict for each in more]
        costs = [each.cost for each in verdicts if each is not None]
        usd = AtLeast.of(None if cost is None else cost.total for cost in costs)
        return Sums(
            input_tokens=self.input_tokens + sum(each.input_tokens or 0 for each in usages),
            cache_read_tokens=self.cache_read_tokens
            + sum(each.cache_read_tokens or 0 for each in usages),
            output_tokens=self.output_tokens + sum(each.output_tokens or 0 for each in usages),
            usd=self.usd.plus(usd),
            n_unpriced=self.n_unpriced + verdicts.count(None),
        )

    @property
    def columns(self) -> dict[str, Any]:
        """The values of the columns in `runs`."""
        return {
            "input_tokens": self.input_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "output_tokens": self.output_tokens,
            "usd": plain(self.usd.known),
            "n_cost_unknown": self.usd.unknown,
            "n_unpriced": self.n_unpriced,
        }

    @staticmethod
    def of_row(row: RowMapping) -> Sums:
        """Return those of a row of `runs`."""
        return Sums(
            input_tokens=row["input_tokens"],
            cache_read_tokens=row["cache_read_tokens"],
            output_tokens=row["output_tokens"],
            usd=AtLeast(Decimal(row["usd"]), row["n_cost_unknown"]),
            n_unpriced=row["n_unpriced"],
        )
