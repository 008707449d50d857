"""Sums over requests, by whatever they have in common; and what was lost, by cause."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.caching.verdict import Cause, Shortfall, Verdict

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
                return record.label
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
    """Requests to models that never have a verdict, e.g. in the bundled runtime. In no amount.

    A request without one to a model that has others (its answer broke off) is unknown in all."""

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


def priced_models(records: Iterable[RequestRecord]) -> frozenset[str]:
    """Return the models whose requests cost money: those that have a verdict somewhere."""
    return frozenset(record.model for record in records if record.verdict is not None)


def totals(records: Iterable[RequestRecord], *, priced: frozenset[str] | None = None) -> Totals:
    """Add up requests. No requests at all are known zeros.

    `priced` are the models that cost money, where these records are a part of more; see
    `priced_models`.
    """
    every = list(records)
    if priced is None:
        priced = priced_models(every)
    # What was not judged has cost something, too: how much is unknown.
    verdicts = [r.verdict for r in every if r.verdict is not None or r.model in priced]
    costs = [None if v is None else v.cost for v in verdicts]
    usages = [record.usage for record in every]
    return Totals(
        requests=len(every),
        cost=AtLeast.of(None if cost is None else cost.total for cost in costs),
        uncached=AtLeast.of(None if v is None else v.uncached_cost for v in verdicts),
        planned=AtLeast.of(None if v is None else v.planned_cost for v in verdicts),
        write_premium=AtLeast.of(None if cost is None else cost.write_premium for cost in costs),
        lost=AtLeast.of(_losses(verdicts)),
        input_tokens=AtLeast.of(usage.input_tokens for usage in usages),
        cache_read_tokens=AtLeast.of(usage.cache_read_tokens for usage in usages),
        cache_write_tokens=AtLeast.of(usage.cache_write_tokens for usage in usages),
        output_tokens=AtLeast.of(usage.output_tokens for usage in usages),
        unpriced=len(every) - len(verdicts),
    )


def _losses(verdicts: Iterable[Verdict | None]) -> Iterator[Decimal | None]:
    for verdict in verdicts:
        shortfall = None if verdict is None else verdict.shortfall
        if verdict is None:
            yield None
        elif shortfall is not None and shortfall.lost_tokens:
            yield shortfall.lost_usd


def losses(records: Sequence[RequestRecord]) -> tuple[Loss, ...]:
    """Return the shortfalls by agent and cause, in the order of their first requests."""
    found: dict[tuple[str, Cause], list[Shortfall]] = {}
    for record in records:
        shortfall = None if record.verdict is None else record.verdict.shortfall
        if shortfall is not None:
            found.setdefault((record.label, shortfall.cause), []).append(shortfall)
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
