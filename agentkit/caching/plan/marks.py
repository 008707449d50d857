"""Which marks a request gets, when it is decided how far it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentkit.caching.plan.draft import Draft, SharedBy
from agentkit.caching.plan.lives import Life, Lives
from agentkit.caching.plan.needs import Need
from agentkit.caching.plan.prompt import Prompt, run_ends
from agentkit.caching.plan.span import Span

Reaches = Callable[[Iterable[int], int], bool]
"""Whether one of these marks finds the entry that ends with a block."""


_LAGGING = 4
"""How many earlier ends of the run are thought of: no budget has room for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many marks may be set beside the user's."""

    total: int
    writing: int
    """Of these, how many behind the hit."""


def wanted_marks(
    draft: Draft,
    prompt: Prompt,
    needs: Sequence[Need],
    span: Span,
    *,
    hit: int | None,
    renew: Iterable[int],
    reaches: Reaches,
    fixed: Iterable[int],
) -> list[int]:
    """Return where marks should stand, the most important first.

    1. The ends of what is written. 2. What leads to the hit. 3. `renew`: long-lived entries whose
    time is running out. 4. Where the run's last request ended, if nothing is known of what was
    written. 5. Fronts that others read, the longest first: new ones are written, old ones live on.
    6. The hit itself and earlier ends: should the hit be gone, each of them looks back anew.
    """
    start = -1 if hit is None else hit
    found: list[int | None] = [span.last, span.long]
    ends = [end for end in found if end is not None]
    if hit is not None and not reaches([*ends, *fixed], hit):
        found.append(hit)
    found += renew
    earlier, _ = run_ends(draft)
    lag = [prompt.anchor(end.end) for end in earlier[: -_LAGGING - 1 : -1]]
    if hit is None:
        found += lag[:1]
    found += [need.at for need in reversed(needs) if not need.is_run]
    found += [hit, *lag]
    found += [prompt.anchor(s.end) for s in reversed(draft.shared) if s.by is not SharedBy.RUN]
    limit = max([start, *ends])
    return list(dict.fromkeys(place for place in found if place is not None and place <= limit))


def fit(wanted: Sequence[int], room: Room, *, hit: int | None, taken: Iterable[int]) -> list[int]:
    """Return the marks that there is room for. Blocks that the user marked need none of ours."""
    start = -1 if hit is None else hit
    have = set(taken)
    found: list[int] = []
    writing = 0
    for place in wanted:
        if place in have or len(found) >= room.total:
            continue
        if place > start:
            if writing >= room.writing:
                continue
            writing += 1
        found.append(place)
    return sorted(found)


def lifetimes(
    placed: Sequence[int],
    span: Span,
    lives: Lives,
    prompt: Prompt,
    *,
    hit: int | None,
    users: Mapping[int, Life],
) -> dict[int, Life]:
    """Return a lifetime for each mark of ours, so that no longer one stands behind a shorter one.

    A mark on an entry that is read writes nothing: its lifetime is free, if it fits the others.
    """
    start = -1 if hit is None else hit
    found: dict[int, Life] = {}
    for place in placed:
        entry = prompt.entries[place]
        lasts = span.long is not None and place <= span.long
        if place <= start:
            lasts = entry is not None and entry.ttl is lives.long.ttl
        found[place] = lives.long if lasts else lives.short
    longest_behind = 0.0
    for place in sorted([*found, *users], reverse=True):
        if place in users:
            longest_behind = max(longest_behind, users[place].seconds)
        elif found[place].seconds < longest_behind:
            found[place] = lives.long
        else:
            longest_behind = found[place].seconds
    shortest = min((p for p in users if users[p].seconds < lives.long.seconds), default=None)
    for place in found:
        if shortest is not None and place > shortest:
            found[place] = lives.short
    return found
