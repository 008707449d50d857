"""From needs and prices to marks, for every provider that has marks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentkit.caching.plan.draft import Draft, LiveEntry
from agentkit.caching.plan.lives import Life, Lives
from agentkit.caching.plan.marks import Reaches, Room, fit, lifetimes, wanted_marks
from agentkit.caching.plan.needs import Need
from agentkit.caching.plan.plan import PlacedMark
from agentkit.caching.plan.prompt import Prompt
from agentkit.caching.plan.span import Bounds, choose_span
from agentkit.caching.policy import Ttl
from agentkit.caching.request import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRules:
    """What of a provider's rules decides where marks go."""

    lives: Lives
    room: Room
    fixed: Mapping[int, Life]
    """The user's marks that act."""
    hit: int | None
    """The entry that the request is to read."""
    reaches: Reaches
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The planner's own marks, by rendered block."""

    marks: Mapping[int, Life]
    keep_alive: bool


def place_marks(draft: Draft, prompt: Prompt, needs: Sequence[Need], rules: MarkRules) -> Placed:
    """Choose how far is written and with which lifetimes, and set the marks for it."""
    renew, also_long = _long_lived(draft, prompt, rules)
    span = choose_span(
        prompt, needs, rules.lives, hit=rules.hit, bounds=_bounds(rules), also_long=also_long
    )
    wanted = wanted_marks(
        draft,
        prompt,
        needs,
        span,
        hit=rules.hit,
        renew=renew,
        reaches=rules.reaches,
        fixed=rules.fixed,
    )
    places = fit(wanted, rules.room, hit=rules.hit, taken=rules.fixed)
    marks = lifetimes(places, span, rules.lives, prompt, hit=rules.hit, users=rules.fixed)
    return Placed(marks=marks, keep_alive=span.pings)


def placed_marks(
    prompt: Prompt, users: Mapping[int, Mark], ours: Mapping[int, Life], default: Ttl | None
) -> tuple[PlacedMark, ...]:
    """Return all marks in wire order. The provider's default lifetime is not named."""
    marks = [
        PlacedMark(index=prompt.index[place], ttl=mark.ttl, by_user=True)
        for place, mark in users.items()
    ]
    marks += [
        PlacedMark(index=prompt.index[place], ttl=None if life.ttl is default else life.ttl)
        for place, life in ours.items()
    ]
    return tuple(sorted(marks, key=lambda mark: mark.index))


def _bounds(rules: MarkRules) -> Bounds:
    start = -1 if rules.hit is None else rules.hit
    long = rules.lives.long.ttl
    behind = {place: life for place, life in rules.fixed.items() if place > start}
    shorter = [place for place, life in rules.fixed.items() if life.ttl is not long]
    return Bounds(
        least_last=max(behind, default=-1),
        least_long=max((p for p, life in behind.items() if life.ttl is long), default=-1),
        long_before=min(shorter, default=None),
        one_mark=rules.room.writing <= 1,
    )


def _long_lived(draft: Draft, prompt: Prompt, rules: MarkRules) -> tuple[list[int], list[int]]:
    """The longest entry of the longest lifetime before the hit: to be renewed, and to count on."""
    if rules.hit is None or not rules.lives.differ:
        return [], []
    entries, longest = prompt.entries, rules.lives.long.ttl
    written = prompt.written if longest is None else prompt.written_for(longest)
    for place in reversed(written[: bisect_left(written, rules.hit)]):
        entry = entries[place]
        if entry is not None and entry.ttl is longest and prompt.readable[place]:
            return _outlook(draft, prompt, rules, place, entry)
    return [], []


def _outlook(
    draft: Draft, prompt: Prompt, rules: MarkRules, place: int, entry: LiveEntry
) -> tuple[list[int], list[int]]:
    left = entry.expires_s - rules.now_s
    if left < rules.lives.long.seconds / 2 and prompt.anchors[place] == place:
        return [place], [place]
    return [], [place] if left > draft.slow_gap_s else []
