"""Sums over requests, by whatever they have in common; and what was lost, by cause."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.caching.verdict import Cause, Shortfall

if TYPE_CHECKING:
    from agentkit.blocks import Json
    from agentkit.caching.report import RequestRecord


class By(enum.StrEnum):
    """What requests are put together by."""

    AGENT = "agent"
    """The path of names from the root agent to the one that asked."""
    TEAM = "team"
    """The root agent: its own requests and those of all agents below it."""
    TENANT = "tenant"
    SESSION = "session"
    """One conversation, over many runs."""
    RUN = "run"
    EPOCH = "epoch"
    """The part of a session between two fresh starts of its context."""
    MODEL = "model"
    PROVIDER = "provider"

    def name_of(self, record: RequestRecord) -> str:
        """Return what the request is counted under."""
        match self:
            case By.AGENT:
                return "/".join(record.path)
            case By.TEAM:
                return record.path[0] if record.path else ""
            case By.TENANT:
                return record.tenant
            case By.SESSION:
                return _conversation(record)
            case By.RUN:
                return record.run_id
            case By.EPOCH:
                return f"{_conversation(record)}#{record.epoch}"
            case By.MODEL:
                return record.model
            case By.PROVIDER:
                return record.model.split(":", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What some requests have cost together, in USD, and in tokens."""

    requests: int
    cost: AtLeast
    """What was paid, with output."""
    uncached: AtLeast
    """What the same requests would have cost without any cache."""
    planned: AtLeast
    """What they would have cost if every plan had come true."""
    write_premium: AtLeast
    """The part of `cost` that writing cost beyond plain input."""
    lost: AtLeast
    """What lost tokens cost more than reads; the part of `cost` that has a cause."""
    input_tokens: AtLeast
    cache_read_tokens: AtLeast
    cache_write_tokens: AtLeast
    output_tokens: AtLeast
    unpriced: int
    """Requests to models without a verdict, e.g. in the bundled runtime. In no amount above."""

    @property
    def saved(self) -> Decimal | None:
        """What the cache saved; negative where writing cost more. None if a part is unknown."""
        return self.uncached.minus(self.cost)

    def to_json(self) -> dict[str, Json]:
        """Return a JSON object; amounts are text, what is unknown is counted beside them."""
        saved = self.saved
        amounts = {name: getattr(self, name).to_json() for name in _AMOUNTS}
        return {
            "requests": self.requests,
            "unpriced_requests": self.unpriced,
            **amounts,
            "saved": None if saved is None else f"{saved:f}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """All shortfalls of one cause at one agent."""

    agent: str
    cause: Cause
    requests: int
    lost_tokens: int
    lost_usd: AtLeast
    first: Shortfall
    """The first of them, in words."""

    def to_json(self) -> dict[str, Json]:
        """Return a JSON object."""
        return {
            "agent": self.agent,
            "cause": self.cause.value,
            "requests": self.requests,
            "lost_tokens": self.lost_tokens,
            "lost_usd": self.lost_usd.to_json(),
            "detail": self.first.detail,
            "source": None if self.first.difference is None else self.first.difference.source,
        }


def totals(records: Iterable[RequestRecord]) -> Totals:
    """Add up requests. No requests at all are known zeros."""
    every = list(records)
    verdicts = [record.verdict for record in every if record.verdict is not None]
    usages = [record.usage for record in every]
    shortfalls = [verdict.shortfall for verdict in verdicts if verdict.shortfall is not None]
    return Totals(
        requests=len(every),
        cost=AtLeast.of(None if v.cost is None else v.cost.total for v in verdicts),
        uncached=AtLeast.of(v.uncached_cost for v in verdicts),
        planned=AtLeast.of(v.planned_cost for v in verdicts),
        write_premium=AtLeast.of(
            None if v.cost is None else v.cost.write_premium for v in verdicts
        ),
        lost=AtLeast.of(s.lost_usd for s in shortfalls if s.lost_tokens),
        input_tokens=AtLeast.of(usage.input_tokens for usage in usages),
        cache_read_tokens=AtLeast.of(usage.cache_read_tokens for usage in usages),
        cache_write_tokens=AtLeast.of(usage.cache_write_tokens for usage in usages),
        output_tokens=AtLeast.of(usage.output_tokens for usage in usages),
        unpriced=len(every) - len(verdicts),
    )


def losses(records: Sequence[RequestRecord]) -> tuple[Loss, ...]:
    """Return the shortfalls by agent and cause, in the order of their first requests."""
    found: dict[tuple[str, Cause], list[Shortfall]] = {}
    for record in records:
        shortfall = None if record.verdict is None else record.verdict.shortfall
        if shortfall is not None:
            found.setdefault(("/".join(record.path), shortfall.cause), []).append(shortfall)
    return tuple(
        Loss(
            agent=agent,
            cause=cause,
            requests=len(group),
            lost_tokens=sum(shortfall.lost_tokens for shortfall in group),
            lost_usd=AtLeast.of(s.lost_usd for s in group if s.lost_tokens),
            first=group[0],
        )
        for (agent, cause), group in found.items()
    )


_AMOUNTS = (
    "cost",
    "uncached",
    "planned",
    "write_premium",
    "lost",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
)


def _conversation(record: RequestRecord) -> str:
    return record.session or record.run_id
