"""How often the end of an agent's request is read again, learned as it happens."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.recent import Recent

_PRIOR_WEIGHT = 2
"""Outcomes that the first expectation counts for: after six of the other kind it is given up."""
_REMEMBERED = 32
_OPEN = 256
_AGENTS_KEPT = 1_024


@dataclass(slots=True)
class _Ends:
    open: Recent[str, datetime] = field(default_factory=lambda: Recent(_OPEN))
    """By conversation: its last request, of which it is not known yet whether one follows."""
    followed: deque[bool] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class RunEnds:
    """Whether requests of an agent are followed by one that extends them, within a lifetime.

    An agent that answers in one request, and whose users never go on, need not write the end of its
    prompt: nobody will read it. A follower is seen by what it goes on from, also where nothing was
    written, so that what was learned can change again.
    """

    def __init__(self) -> None:
        self._agents: Recent[str, _Ends] = Recent(_AGENTS_KEPT)

    def asks(
        self, agent: str, request: str, *, goes_on_from: str | None, at: datetime, life_s: float
    ) -> None:
        """A request is sent.

        Args:
            agent: Whose it is.
            request: Its name.
            goes_on_from: The name of the request that it extends, if it extends one.
            at: When it is sent.
            life_s: The longest time that an entry can live: who comes later reads nothing.
        """
        ends = self._of(agent)
        self._close(ends, at, life_s)
        if goes_on_from is not None and ends.open.pop(goes_on_from, None) is not None:
            ends.followed.append(True)
        ends.open[request] = at

    def touched(self, agent: str, request: str, *, at: datetime) -> None:
        """A request's entry was kept alive: it lives on from now."""
        ends = self._of(agent)
        if request in ends.open:
            ends.open[request] = at

    def expected(
        self, shared: Sequence[SharedPrefix], agent: str, *, at: datetime, life_s: float
    ) -> tuple[SharedPrefix, ...]:
        """Return the prefixes, with the chance that the last of the run's own is read again."""
        own = shared[-1] if shared else None
        if own is None or own.by is not SharedBy.RUN or not 0 < own.reads < 1:
            return tuple(shared)
        ends = self._of(agent)
        self._close(ends, at, life_s)
        seen = len(ends.followed)
        chance = (own.reads * _PRIOR_WEIGHT + sum(ends.followed)) / (_PRIOR_WEIGHT + seen)
        # 1 would mean one read; below it, a chance that comes again after each request.
        reads = min(chance, _NEARLY_SURE)
        last = SharedPrefix(end=own.end, by=own.by, reads=reads, gap_s=own.gap_s, gaps_s=own.gaps_s)
        return (*shared[:-1], last)

    def _of(self, agent: str) -> _Ends:
        ends = self._agents.get(agent) or _Ends()
        self._agents[agent] = ends
        return ends

    def _close(self, ends: _Ends, at: datetime, life_s: float) -> None:
        """Take those for the last of their conversation that nobody can read any more."""
        while ends.open:
            name, sent_at = next(iter(ends.open.items()))
            if (at - sent_at).total_seconds() < life_s:
                return
            del ends.open[name]
            ends.followed.append(False)


_NEARLY_SURE = Decimal("0.95")
