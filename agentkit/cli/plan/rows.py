"""What a forecast says, as data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from agentkit.caching.policy import InputSplit, Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """A segment of the first request."""

    name: str
    tier: str
    """`volatile` for what is shown last and not kept; `adapter` for what the wire needs."""
    blocks: int
    tokens: int
    marks: tuple[str, ...]
    """Lifetimes of the marks in it."""
    shared_tokens: int = 0
    """Of a subagent's segment: how much of it the root's requests have at the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """What one request reads, writes and costs."""

    turn: int
    """Counted from 1."""
    split: InputSplit
    output_tokens: int
    n_bytes: int
    """Length of the request's body."""
    cost: Decimal | None
    """USD, with output; None if the price is unknown."""
    uncached_cost: Decimal | None
    price_source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A subagent's first request, where of its team only the root has asked before."""

    path: tuple[str, ...]
    """From the root agent's name to its own."""
    segments: tuple[SegmentRow, ...]
    first_turn: TurnRow
    notes: tuple[str, ...] = ()

    @property
    def shared_tokens(self) -> int:
        """How much of the prompt begins as the root's does."""
        return sum(row.shared_tokens for row in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A run at one provider."""

    label: str
    policy: Policy | None
    segments: tuple[SegmentRow, ...] = ()
    turns: tuple[TurnRow, ...] = ()
    cache_key: str | None = None
    siblings_ahead: int = 0
    """How many requests must go ahead before others that share the front find it."""
    notes: tuple[str, ...] = ()
    below: tuple[MemberRow, ...] = ()
    """All subagents of the team, parents before their children."""
    error: str | None = None
    """Why there is no forecast."""
