"""What each agent's requests read from the cache. Data; `agentkit.observe.report` renders it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit.caching.ledger.totals import Loss, Totals, losses, priced_models, totals
from agentkit.quote import Quote
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.blocks import Json
    from agentkit.caching.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request to a model."""

    path: tuple[str, ...]
    """From the root agent's name to that of the agent that asked."""
    model: str
    usage: Usage
    timing: Timing
    verdict: Verdict | None = None
    """What it cost against what was planned; None for models without a planned cache."""
    run_id: str = ""
    session: str = ""
    tenant: str = ""
    epoch: int = 0
    """How often its conversation was begun anew before it, as far as the agent's object knows."""
    agent: str = ""
    """Who asked, if the conversation was handed over to another agent than the path names."""
    is_turn: bool = False
    """Whether a turn of its run came of it. Summaries and answers that broke off are none."""
    guess: Quote | None = None
    """What limits count of it where the provider is silent; None: the provider says everything, or
    it did not begin to answer."""

    @property
    def label(self) -> str:
        """The path as text, and who asked in its place."""
        return label_of(self.path, self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRow:
    """The requests of one agent, or of all."""

    path: tuple[str, ...]
    """Empty for the total."""
    agent: str = ""
    """Who asked, after a handoff."""
    requests: int
    usage: Usage
    ttft_first_s: float | None
    """Time to first token of the first request, in seconds: cold, if nobody warmed its prefix."""
    ttft_median_s: float | None
    """Median over all requests whose time is known."""
    money: Totals | None = None
    """What they cost; None if no model of theirs has money, as in the bundled runtime."""

    @property
    def label(self) -> str:
        """The path as text, and who asked in its place; or `total`."""
        return label_of(self.path, self.agent) or "total"

    def to_json(self) -> dict[str, Json]:
        """Return the row as a JSON object; unknown values are null."""
        row: dict[str, Json] = {
            "agent": self.label,
            "requests": self.requests,
            "input_tokens": self.usage.input_tokens,
            "cache_read_tokens": self.usage.cache_read_tokens,
            "cache_write_tokens": self.usage.cache_write_tokens,
            "output_tokens": self.usage.output_tokens,
            "hit_ratio": self.usage.hit_ratio,
            "ttft_first_s": self.ttft_first_s,
            "ttft_median_s": self.ttft_median_s,
        }
        return row if self.money is None else {**row, "money_usd": money_to_json(self.money)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReport:
    """What the cache did for a run and all runs below it."""

    rows: tuple[CacheRow, ...]
    """One row for each agent, in the order in which the runs were started; the root comes first."""
    total: CacheRow
    losses: tuple[Loss, ...] = ()
    """Why it was not less: shortfalls by agent and cause."""

    @staticmethod
    def of(records: Iterable[RequestRecord]) -> CacheReport:
        """Add up the records, which are run by run, as `RunRecord.requests` has them."""
        groups: dict[tuple[tuple[str, ...], str], list[RequestRecord]] = {}
        for record in records:
            groups.setdefault((record.path, record.agent), []).append(record)
        everything = [record for group in groups.values() for record in group]
        priced = priced_models(everything)
        return CacheReport(
            rows=tuple(_row(*key, group, priced) for key, group in groups.items()),
            total=_row((), "", everything, priced),
            losses=losses(everything),
        )

    @property
    def hit_ratio(self) -> float | None:
        """Share of all input tokens that was read from the cache; None if unknown."""
        return self.total.usage.hit_ratio

    def to_json(self) -> dict[str, Json]:
        """Return the report as a JSON object; unknown values are null."""
        report: dict[str, Json] = {
            "rows": [row.to_json() for row in self.rows],
            "total": self.total.to_json(),
        }
        if self.losses:
            report["losses"] = [loss.to_json() for loss in self.losses]
        return report

    def __str__(self) -> str:
        from agentkit.observe.report import render_text

        return render_text(self)


def money_to_json(money: Totals) -> dict[str, Json]:
    """Return amounts in USD as a JSON object: text, so that no digit is lost."""
    saved = money.saved
    return {
        "cost": money.cost.to_json(),
        "uncached": money.uncached.to_json(),
        "planned": money.planned.to_json(),
        "lost": money.lost.to_json(),
        "saved": None if saved is None else f"{saved:f}",
        "unpriced_requests": money.unpriced,
    }


def label_of(path: tuple[str, ...], agent: str) -> str:
    """Return `desk/clerk`, or `desk (refunds)` where another agent has taken over."""
    return "/".join(path) + (f" ({agent})" if agent else "")


def _row(
    path: tuple[str, ...], agent: str, records: list[RequestRecord], priced: frozenset[str]
) -> CacheRow:
    has_money = any(record.model in priced for record in records)
    times = [record.timing.ttft_s for record in records if record.timing.ttft_s is not None]
    return CacheRow(
        path=path,
        agent=agent,
        requests=len(records),
        usage=Usage.total(record.usage for record in records),
        ttft_first_s=records[0].timing.ttft_s if records else None,
        ttft_median_s=statistics.median(times) if times else None,
        money=totals(records, priced=priced) if has_money else None,
    )
