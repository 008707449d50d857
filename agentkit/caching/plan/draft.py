"""What the planner is given: a request without marks, and what is known about its future."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentkit.caching.policy import Ttl
from agentkit.caching.request import CacheRequest


class SharedBy(enum.StrEnum):
    """Who else sends a prefix, from many to few."""

    ORGANIZATION = "organization"
    """All agents of a team: tools and rules."""
    AGENT = "agent"
    """All runs of one agent: role, examples and knowledge too."""
    RUN = "run"
    """Later requests of the same run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefix:
    """A prefix that other requests will have too."""

    end: int
    """How many of the request's blocks it has, counted over `CacheRequest.blocks`."""
    by: SharedBy
    reads: Decimal
    """How many more requests are expected to need an entry that ends here, and no longer one.

    Below 1 it is a chance, taken to be the same again after each request."""
    gap_s: Decimal | None = None
    """Expected seconds until the next of them. None: an entry of any lifetime is still there; for
    the run's own end, what the draft says."""
    gaps_s: tuple[Decimal, ...] = ()
    """For a front: gaps that were seen, each as likely as the others; `gap_s` is the longest then.
    Where no lifetime outlasts that, they tell whom an entry serves yet. Empty: none were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A request before its marks are placed. Only the marks that the user set are there."""

    request: CacheRequest
    shared: tuple[SharedPrefix, ...]
    """In the order of their ends. The last may be the run's own: everything that is not volatile.

    Earlier ends of the run (where its earlier requests ended) are among them, by `RUN`; the
    planner only looks for entries there, it does not count their reads."""
    n_volatile: int = 0
    """Blocks at the end that no other request has; nothing may be written behind their start."""
    gap_s: Decimal = Decimal(30)
    """Expected seconds until the next request of the run."""
    slow_chance: Decimal = Decimal(0)
    """Chance that the gap is longer than the shortest lifetime, e.g. because of a slow tool."""
    slow_gap_s: Decimal = Decimal(900)
    """How long such a gap is."""
    implicit_share: Decimal = Decimal(1)
    """Share of what an implicit cache should have read that was read lately, 0 to 1. Where a cache
    promises nothing, objects that cost money are worth it only as far as it falls short."""
    keep_alive: bool = False
    """Whether somebody will keep the run's entry alive in a slow gap, see `keep_alive.py`.

    The planner counts on it only where the API has a request for it."""
    priority: int = 0
    """Higher is served sooner, where the server can be asked for it."""
    session: str = ""
    """One conversation; spreads keys whose rate is too high."""
    tenant: str = ""
    mask: frozenset[str] | None = None
    """The tools that may be called now; None allows all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntry:
    """An entry that a cache is believed to hold for a prefix of the request."""

    ttl: Ttl | None
    """The lifetime it was written with; None where there is no choice."""
    expires_s: float
    """Seconds of the epoch."""
    readable_s: float
    """From when it can be read; later than now while its writer has no response yet."""


class LiveEntries(Sequence[LiveEntry | None]):
    """Entries of which most are never looked at, and of which it is known where there are none."""

    @property
    @abstractmethod
    def places(self) -> Sequence[int]:
        """Where there may be entries, in order."""
        ...

    @abstractmethod
    def places_of(self, ttl: Ttl) -> Sequence[int]:
        """Return where there may be entries of a lifetime, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written before: for each block of the request, the entry that ends with it."""

    entries: Sequence[LiveEntry | None] = ()
    """Aligned with `CacheRequest.blocks`; shorter means that the rest has none."""

    def at(self, index: int) -> LiveEntry | None:
        """Return the entry that ends with block `index`."""
        return self.entries[index] if index < len(self.entries) else None
