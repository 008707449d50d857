"""What the fake provider has served: reads, writes, cost, and why the cache missed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from agentkit.caching.policy import InputSplit, Provider, Terms, cost_of, policy_for
from agentkit.caching.simulate import Refused, Served
from agentkit.errors import UnknownModel


@dataclass(slots=True, kw_only=True)
class Record:
    """One request: what came in, and how it ended."""

    at: datetime
    provider: Provider
    api: str
    request_id: str
    organization: str
    body: bytes
    """As it arrived."""
    model: str = ""
    terms: Terms = Terms()  # noqa: RUF009 - frozen
    status: int | None = None
    """HTTP status; 499: the client went away. None: it is still being answered."""
    outcome: Served | Refused | None = None
    """None: nothing reached the cache, or nothing came of it."""
    error: str | None = None

    def close(
        self, status: int, outcome: Served | Refused | None, error: str | None = None
    ) -> None:
        """Note how it ended."""
        self.status, self.outcome, self.error = status, outcome, error

    @property
    def uncached_cost(self) -> Decimal | None:
        """What the request would have cost without any cache, in USD; None if unknown."""
        if not isinstance(self.outcome, Served):
            return None
        try:
            prices = policy_for(self.provider, self.model, self.at.date()).prices
        except UnknownModel:
            return None
        total = self.outcome.split.total
        rates = None if prices is None else prices.rates_for(total, self.at, self.terms)
        if rates is None:
            return None
        split = InputSplit(read=0, uncached=total)
        return cost_of(split, rates, output_tokens=self.outcome.output_tokens).total

    def to_json(self) -> dict[str, Any]:
        """Return the request as JSON, without its body. Costs are decimal text; null is unknown."""
        row: dict[str, Any] = {
            "id": self.request_id,
            "at": self.at.isoformat(),
            "provider": self.provider.value,
            "api": self.api,
            "model": self.model,
            "organization": self.organization,
            "status": self.status,
        }
        match self.outcome:
            case Served() as served:
                row |= _served_json(served)
                row["uncached_cost"] = _text(self.uncached_cost)
            case Refused() as refused:
                row |= {"refused": refused.reason.value, "message": refused.message}
            case None:
                row["message"] = self.error
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """All requests to one model."""

    provider: Provider
    model: str
    requests: int
    served: int
    read: int
    written: int
    uncached: int
    output: int
    cost: Decimal | None
    """USD; None if the price is unknown."""
    uncached_cost: Decimal | None
    misses: tuple[tuple[str, int], ...]
    """Reasons, and how many requests had them."""

    @property
    def label(self) -> str:
        """Provider and model."""
        return f"{self.provider.value}:{self.model}"


def totals(records: Iterable[Record]) -> list[Total]:
    """Return the sums by provider and model, in the order in which they were first asked."""
    groups: defaultdict[tuple[Provider, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.provider, record.model or "(not understood)"].append(record)
    return [_total(*key, group) for key, group in groups.items()]


def to_json(records: Sequence[Record], contents_cost: Decimal | None) -> dict[str, Any]:
    """Return the whole ledger as JSON."""
    return {
        "totals": [
            {
                "provider": total.provider.value,
                "model": total.model,
                "requests": total.requests,
                "served": total.served,
                "read": total.read,
                "written": total.written,
                "uncached": total.uncached,
                "output": total.output,
                "cost": _text(total.cost),
                "uncached_cost": _text(total.uncached_cost),
                "misses": dict(total.misses),
            }
            for total in totals(records)
        ],
        "contents_cost": _text(contents_cost),
        "requests": [record.to_json() for record in records],
    }


def to_text(records: Sequence[Record], contents_cost: Decimal | None) -> str:
    """Return the sums as a table for people."""
    if not records:
        return "No request came in."
    sums = totals(records)
    width = max(len("model"), *(len(total.label) for total in sums)) + 1
    lines = [
        f"{'model':<{width}}{'requests':>9}{'read':>12}{'written':>12}{'uncached':>12}"
        f"{'output':>9}{'USD':>14}{'uncached USD':>14}"
    ]
    for total in sums:
        lines.append(
            f"{total.label:<{width}}{total.requests:>9,}{total.read:>12,}{total.written:>12,}"
            f"{total.uncached:>12,}{total.output:>9,}{_money(total.cost):>14}"
            f"{_money(total.uncached_cost):>14}"
        )
        lines += [f"    {reason}: {n_requests:,} requests" for reason, n_requests in total.misses]
    if contents_cost is None or contents_cost:
        lines.append(f"making and keeping cached contents: {_money(contents_cost)} USD")
    return "\n".join(lines)


def _total(provider: Provider, model: str, group: Sequence[Record]) -> Total:
    served = [record.outcome for record in group if isinstance(record.outcome, Served)]
    misses: defaultdict[str, int] = defaultdict(int)
    for record in group:
        if isinstance(record.outcome, Refused):
            misses[f"refused ({record.outcome.reason.value})"] += 1
        elif isinstance(record.outcome, Served) and record.outcome.miss is not None:
            misses[record.outcome.miss.reason.value] += 1
        elif record.outcome is None and record.status is not None:
            misses[f"not served (status {record.status})"] += 1
    return Total(
        provider=provider,
        model=model,
        requests=len(group),
        served=len(served),
        read=sum(each.read for each in served),
        written=sum(each.split.written for each in served),
        uncached=sum(each.uncached for each in served),
        output=sum(each.output_tokens for each in served),
        cost=_sum(None if each.cost is None else each.cost.total for each in served),
        uncached_cost=_sum(
            record.uncached_cost for record in group if isinstance(record.outcome, Served)
        ),
        misses=tuple(misses.items()),
    )


def _served_json(served: Served) -> dict[str, Any]:
    row: dict[str, Any] = {
        "read": served.read,
        "written": {ttl.value: n for ttl, n in served.split.writes},
        "uncached": served.uncached,
        "output": served.output_tokens,
        "cost": None if served.cost is None else _text(served.cost.total),
        "miss": None,
    }
    if served.miss is not None:
        miss = served.miss
        row["miss"] = {
            "reason": miss.reason.value,
            "detail": miss.detail,
            "lost_tokens": miss.lost_tokens,
        }
    return row


def _sum(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """A sum with an unknown part is unknown."""
    found = list(amounts)
    known = [amount for amount in found if amount is not None]
    return sum(known, Decimal(0)) if len(known) == len(found) else None


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"


def _money(amount: Decimal | None) -> str:
    return "unknown" if amount is None else f"{amount:.6f}"
