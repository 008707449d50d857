"""The user's own marks: which of them count, and which give way.

What was sent cannot be changed, so a mark that the API does not take must not end a conversation:
the newest ones count, and what is left out is said. Those that are placed stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentkit.caching.plan.draft import Draft
from agentkit.caching.plan.prompt import Prompt
from agentkit.caching.policy import Ttl
from agentkit.caching.request import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMarks:
    """The marks that are placed, and what is said of the others."""

    marks: Mapping[int, Mark]
    """By rendered block."""
    lost: tuple[str, ...] = ()
    """Why some are left out, or have another lifetime. The same words at each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLimits:
    """What an API takes."""

    name: str
    """The API's name of a mark."""
    budget: int | None = None
    """None: any number."""
    ttls: Sequence[Ttl] = ()
    """Lifetimes that can be chosen; empty: none can."""
    default: Ttl | None = None
    """The lifetime of a mark that names none; None: the shortest of `ttls`."""
    longer_first: bool = False
    """Whether a longer lifetime behind a shorter one is refused."""
    automatic: tuple[int, Ttl] | None = None
    """The mark that the server sets by itself, the last one. It takes a place."""

    def ttl_of(self, mark: Mark) -> Ttl | None:
        """Return the lifetime that a mark gives; None: there is no choice."""
        shortest = min(self.ttls, key=_seconds, default=None)
        return mark.ttl or self.default or shortest


def user_marks(
    draft: Draft, prompt: Prompt, limits: MarkLimits, *, ignored: Iterable[int] = ()
) -> UserMarks:
    """Return the marks that the user set and that count, but those on `ignored` blocks."""
    found, lost = _on_markable(draft, prompt, limits.name, frozenset(ignored))
    for rule in (_with_known_ttls, _newest, _in_order):
        found, said = rule(found, limits)
        lost += said
    return UserMarks(marks=found, lost=tuple(lost))


def no_marks(draft: Draft, why: str) -> tuple[str, ...]:
    """Return what is said of the user's marks where there are none."""
    if not draft.request.marked:
        return ()
    return (f"{why}, so the marks that the user set do nothing",)


_Found = tuple[dict[int, Mark], list[str]]


def _on_markable(draft: Draft, prompt: Prompt, name: str, skip: frozenset[int]) -> _Found:
    found: dict[int, Mark] = {}
    kinds: set[str] = set()
    for index, block in draft.request.marked_places:
        assert block.mark is not None
        shown = prompt.shown_before(index)
        place = shown if prompt.shown_before(index + 1) > shown else None
        if place is not None and place in skip:
            continue
        if place is None or not prompt.markable[place]:
            kinds.add("empty text" if not block.n_tokens else block.kind.value)
        else:
            found[place] = block.mark
    said = [
        f"{kind!r} takes no {name}, so a mark on it is left out; set it on the block before, or "
        "leave it to the planner"
        for kind in sorted(kinds)
    ]
    return found, said


def _with_known_ttls(found: dict[int, Mark], limits: MarkLimits) -> _Found:
    """Take a lifetime that does not exist here as the next longer one, or the longest."""
    ordered = sorted(limits.ttls, key=_seconds)
    said: list[str] = []
    for place, mark in found.items():
        if mark.ttl is None or not ordered or mark.ttl in ordered:
            continue
        wanted = mark.ttl
        fitting = next((ttl for ttl in ordered if ttl.seconds >= wanted.seconds), ordered[-1])
        found[place] = replace(mark, ttl=fitting)
        said.append(
            f"a mark with ttl {wanted.value!r} is taken with {fitting.value!r}; "
            f"{[ttl.value for ttl in ordered]!r} can be chosen"
        )
    return found, list(dict.fromkeys(said))


def _newest(found: dict[int, Mark], limits: MarkLimits) -> _Found:
    if limits.budget is None:
        return found, []
    own = limits.automatic is not None and limits.automatic[0] not in found
    budget = limits.budget - own
    if len(found) <= budget:
        return found, []
    kept = sorted(found)[len(found) - budget :]
    also = ", one of them by the top-level cache_control" if own else ""
    said = (
        f"the user set more marks than the {limits.budget} that are taken{also}: the newest count, "
        "older ones give way"
    )
    return {place: found[place] for place in kept}, [said]


def _in_order(found: dict[int, Mark], limits: MarkLimits) -> _Found:
    if not limits.longer_first:
        return found, []
    kept: dict[int, Mark] = {}
    said: list[str] = []
    least = 0 if limits.automatic is None else limits.automatic[1].seconds
    before: Ttl | None = None
    for place in sorted(found):
        ttl = limits.ttl_of(found[place])
        if ttl is None:
            kept[place] = found[place]
        elif ttl.seconds < least:
            said.append(
                f"a mark with ttl {ttl.value!r} gives way to the longer one of the top-level "
                "cache_control"
            )
        elif before is not None and ttl.seconds > before.seconds:
            kept[place] = replace(found[place], ttl=before)
            said.append(
                f"a mark with ttl {ttl.value!r} behind one with {before.value!r} is taken with the "
                "shorter: a longer one must not come after; give earlier marks the longer lifetime"
            )
        else:
            kept[place], before = found[place], ttl
    return kept, list(dict.fromkeys(said))


def _seconds(ttl: Ttl) -> float:
    return ttl.seconds
