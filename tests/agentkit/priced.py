"""Requests that cost money, for tests of limits and fallbacks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from agentkit.caching.plan.plan import Prediction
from agentkit.caching.policy import Cost, InputSplit, PriceRow, Rates
from agentkit.caching.policy.source import Evidence, Source
from agentkit.caching.report import RequestRecord
from agentkit.caching.verdict import Verdict
from agentkit.context.prices import Prices
from agentkit.events import CacheEvent, ModelEnd, ModelEvent
from agentkit.models.base import ModelRequest
from agentkit.testing import ScriptedModel
from agentkit.usage import Timing, Usage

_AT = datetime(2026, 11, 27, 12, tzinfo=UTC)
RATES = Rates(input=Decimal(3), read=Decimal("0.3"), output=Decimal(5_000))
"""An answer of a hundred tokens costs half a dollar at most."""


def verdict(usd: str | None, model: str = "priced") -> Verdict:
    """Return what one request has cost; None: not known."""
    zero = Decimal(0)
    cost = None
    if usd is not None:
        cost = Cost(read=zero, write=zero, uncached=zero, output=Decimal(usd), write_premium=zero)
    return Verdict(
        at=_AT,
        model=model,
        predicted=Prediction(split=InputSplit(read=0, uncached=0), hit=0, cost=None, uncached=None),
        actual=None,
        cost=cost,
        uncached_cost=None,
        planned_cost=None,
        price_source=None,
    )


def record(usd: str | None = None, *, n_input: int | None = 0, n_output: int | None = 0) -> Any:
    """Return the record of one request."""
    return RequestRecord(
        path=("a",),
        model="priced",
        usage=Usage(input_tokens=n_input, output_tokens=n_output),
        timing=Timing(),
        verdict=None if usd is None else verdict(usd),
    )


class PricedModel(ScriptedModel):
    """A scripted model whose every answer costs the same."""

    def __init__(self, script: Any, *, usd: str | None = "0.10", **more: Any) -> None:
        super().__init__(script, **more)
        self._usd = usd

    @property
    def costs_nothing(self) -> bool:
        """False."""
        return False

    def prices(self) -> Prices:
        """Return what tokens cost."""
        source = Source(Evidence.USER, date(2026, 11, 27))
        row = PriceRow(models=(self.label,), rates=RATES, source=source)
        return Prices(row=row, at=_AT)

    def context_edits(self) -> tuple[Any, ...]:
        """None."""
        return ()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Replay the next step, and say what it cost."""
        async for event in super().stream(request):
            if isinstance(event, ModelEnd):
                yield CacheEvent(verdict(self._usd, self.label))
            yield event


class UnpricedModel(ScriptedModel):
    """A model that somebody wants money for; nobody knows how much."""

    @property
    def costs_nothing(self) -> bool:
        """False."""
        return False
