"""Which later requests will want an entry of this prompt, and what each of them will pay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix
from agentkit.caching.plan.lives import Lives
from agentkit.caching.plan.prompt import Prompt, run_ends

PING_MARGIN_S = 20
"""How long before an entry's end it is read to be kept alive: a ping takes time to arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Later requests whose longest common prefix with this one is the same."""

    at: int
    """The block whose entry they would read."""
    tokens: int
    """Tokens of the prefix that they need."""
    reads: Decimal
    short_lives: Decimal
    """Chance that an entry of the shortest lifetime is still there when it is needed."""
    long_lives: Decimal
    missing: Decimal
    """What a token that they do not find costs them: plain, or written again where that pays."""
    ping: Decimal | None = None
    """Price of keeping a token alive over a slow gap by reads alone; None: nobody does it."""
    long_outlasts: bool = False
    """Whether an entry of the longest lifetime lives through a slow gap."""
    is_run: bool = False

    def cost(self, entry: int, long_entry: int, lives: Lives) -> Decimal:
        """Return what one of them pays, if the longest entry for it holds `entry` tokens.

        `long_entry`: the same among the entries of the longest lifetime.
        """
        alive = self._with(entry, lives)
        if self.short_lives == 1:
            return alive
        outlived = self._with(long_entry, lives)
        lost = self.tokens * self.missing
        if self.ping is not None:
            pinged = alive + entry * self.ping
            outlived, lost = min(outlived, pinged), min(lost, pinged)
        return (
            self.short_lives * alive
            + (self.long_lives - self.short_lives) * outlived
            + (1 - self.long_lives) * lost
        )

    def wants_pings(self, entry: int, long_entry: int, lives: Lives) -> bool:
        """Whether reading the entry in between is the cheapest way over a slow gap."""
        if self.ping is None or not entry:
            return False
        otherwise = self.tokens * self.missing
        if self.long_outlasts:
            otherwise = min(otherwise, self._with(long_entry, lives))
        return self._with(entry, lives) + entry * self.ping < otherwise

    def _with(self, entry: int, lives: Lives) -> Decimal:
        return entry * lives.read + (self.tokens - entry) * self.missing


def needs_of(draft: Draft, prompt: Prompt, lives: Lives) -> list[Need]:
    """Return the needs, in the order of their prefixes. Those that no entry can serve are left out.

    Of the run's own ends only the last counts: who needs an earlier one needs this one too.
    """
    _, own = run_ends(draft)
    found: dict[int, Need] = {}
    for shared in draft.shared:
        is_run = shared.by is SharedBy.RUN
        if shared.reads <= 0 or (is_run and shared is not own):
            continue
        anchor = prompt.anchor(shared.end)
        if anchor is None:
            continue
        gaps = _gaps(draft, shared, lives)
        long_lives = _chance(gaps, lives.long.seconds)
        if not is_run and not long_lives:
            continue  # whoever comes, no entry is left
        need = Need(
            at=anchor,
            tokens=prompt.length(prompt.shown_before(shared.end) - 1),
            reads=shared.reads,
            short_lives=_chance(gaps, lives.short.seconds),
            long_lives=long_lives,
            missing=_missing(shared.reads, lives),
            ping=_ping(draft, lives) if is_run and draft.keep_alive else None,
            long_outlasts=draft.slow_gap_s < lives.long.seconds,
            is_run=is_run,
        )
        before = found.get(anchor)
        found[anchor] = need if before is None else _more(need, before)
    return [found[anchor] for anchor in sorted(found)]


_Gaps = tuple[tuple[Decimal, Decimal], ...]
"""Seconds, and the chance of them."""


def _gaps(draft: Draft, shared: SharedPrefix, lives: Lives) -> _Gaps:
    gap_s = shared.gap_s
    if shared.by is not SharedBy.RUN:
        longest = Decimal(0) if gap_s is None else gap_s
        # Where a lifetime outlasts the longest gap, one write serves all that come: each renews it.
        seen = shared.gaps_s if longest >= lives.long.seconds else ()
        seen = seen or (longest,)
        return tuple((gap, Decimal(1) / len(seen)) for gap in seen)
    usual = draft.gap_s if gap_s is None else gap_s
    return ((usual, 1 - draft.slow_chance), (draft.slow_gap_s, draft.slow_chance))


def _chance(gaps: _Gaps, seconds: float) -> Decimal:
    if all(gap < seconds for gap, _ in gaps):
        return Decimal(1)  # a third three times is less
    return sum((chance for gap, chance in gaps if gap < seconds), Decimal(0))


def _ping(draft: Draft, lives: Lives) -> Decimal:
    """Return the price of the pings that a slow gap takes, and at least of one."""
    every = Decimal(lives.short.seconds) - PING_MARGIN_S
    return lives.read * max(1, math.floor(draft.slow_gap_s / every))


def pays(reads: Decimal, lives: Lives) -> bool:
    """Whether a write of the shortest lifetime pays for itself, with this many reads expected.

    A chance below 1 comes again after each request; then it pays above (w - 1) / (w - r), which is
    0.22 for 1.25 and 0.1. A number pays above (w - 1) / (1 - r).
    """
    expected = reads / (1 - reads) if reads < 1 else reads
    return expected * (1 - lives.read) > lives.short.write - 1


def _missing(reads: Decimal, lives: Lives) -> Decimal:
    """Return what a missing token costs its next reader, who writes it again if that pays then."""
    again = pays(reads if reads < 1 else reads - 1, lives)
    return lives.short.write if again else Decimal(1)


def _more(need: Need, other: Need) -> Need:
    """Two needs at one place: that of the run decides on time, both are counted."""
    first = need if need.is_run else other
    second = other if first is need else need
    return Need(
        at=first.at,
        tokens=max(need.tokens, other.tokens),
        reads=need.reads + other.reads,
        short_lives=min(first.short_lives, second.short_lives),
        long_lives=min(first.long_lives, second.long_lives),
        missing=max(first.missing, second.missing),
        ping=first.ping,
        long_outlasts=first.long_outlasts,
        is_run=first.is_run,
    )
