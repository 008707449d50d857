"""What is known about one request, and which of our own changes lost part of its prefix."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentkit.caching.difference import Sent, changed_identity, compare
from agentkit.caching.judge.split import scaled
from agentkit.caching.judge.vendor import Said, vendor_says
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import (
    Change,
    CompatiblePolicy,
    InputSplit,
    Policy,
    Section,
)
from agentkit.caching.verdict import Cause, Difference

_PLAUSIBLE = 1.5
"""Estimates, corrected by what was counted before, are not off by more than half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that is known about one answered request."""

    policy: Policy
    plan: CachePlan
    actual: InputSplit
    now: Sent
    before: Sent | None
    gap_s: float | None
    """Seconds from the start of the request before; None: unknown."""
    epoch_changed: bool
    note: str | None
    key_overloaded: bool
    still_writing: bool
    expected_read: int | None
    """What the plan meant to be read, by the provider's own count; None: only estimated."""

    @property
    def planned_read(self) -> int:
        """What the plan expected to be read, as a part of what the provider counted."""
        if self.expected_read is not None:
            return self.expected_read
        return scaled(self.plan.predicted.split, self.actual.total).read

    @property
    def estimated_left(self) -> int:
        """What the request before left in the cache, about, in the provider's tokens."""
        if self.before is None:
            return 0
        estimated = self.now.tokens(len(self.now.wire))
        left = self.before.tokens(self.before.n_cached)
        return left * self.actual.total // estimated if estimated else left

    @property
    def counted_left(self) -> int | None:
        """The same by the provider's count; None if it is not known, or cannot be true.

        A server that asked the model several times within one request reports their sum.
        """
        counted = None if self.before is None else self.before.cached_tokens
        if counted is None or counted > _PLAUSIBLE * self.estimated_left:
            return None
        return counted


@dataclass(frozen=True, slots=True, kw_only=True)
class OurChange:
    """The first thing that we sent otherwise, and that entries depend on."""

    cause: Cause
    detail: str
    block: int
    """First block that is lost by it."""
    difference: Difference | None = None


def our_change(facts: Facts, before: Sent) -> OurChange | None:
    """Return the first change of ours that loses blocks; the vendor's word decides between two."""
    said = vendor_says(facts.note)
    changed = _changed_bytes(facts, before)
    setting = _changed_setting(facts, before, said)
    if facts.epoch_changed and changed is not None:
        return OurChange(
            cause=Cause.COMPACTED,
            detail="the context was begun anew on purpose (a new epoch); "
            f"from {changed.detail} on nothing could be read",
            block=changed.block,
            difference=changed.difference,
        )
    if changed is None or setting is None:
        return changed or setting
    settings = changed_identity(before, facts.now)
    setting_first = setting.block <= changed.block
    if isinstance(said, Section) or settings == (Change.CACHE_KEY,):
        setting_first = False  # our keys follow from the bytes
    elif isinstance(said, Change) and said in settings:
        setting_first = True
    # Whichever is named, both have lost what they lose.
    return replace(setting if setting_first else changed, block=min(setting.block, changed.block))


def _changed_bytes(facts: Facts, before: Sent) -> OurChange | None:
    difference = compare(before, facts.now)
    if difference is None:
        return None
    where = f"{difference.segment} ({difference.section}, block {difference.block})"
    source = f", supplied by {difference.source}" if difference.source else ""
    return OurChange(
        cause=Cause.SEGMENT_CHANGED,
        detail=where
        if facts.epoch_changed
        else f"{where} differs from byte {difference.byte} on{source}: it was "
        f"{_short(difference.before)} and is {_short(difference.after)}; "
        "keep what changes out of the prefix, or append it",
        block=difference.block,
        difference=difference,
    )


def _changed_setting(facts: Facts, before: Sent, said: Said | None) -> OurChange | None:
    changed = changed_identity(before, facts.now)
    if not changed:
        return None
    places: dict[Change, int] = {}
    for rule in facts.policy.invalidations:
        if rule.change in changed:
            lost_from = rule.or_from if said is rule.change and rule.or_from else rule.lost_from
            places[rule.change] = facts.now.begin_of(lost_from)
    if not places:
        return None
    was, has = dict(before.settings), dict(facts.now.settings)
    block = min(places.values())
    if tuple(places) == (Change.CACHE_KEY,) and _is_spread(
        facts, was.get(Change.CACHE_KEY, ""), has[Change.CACHE_KEY]
    ):
        return OurChange(cause=Cause.ROUTED_ELSEWHERE, detail=_SPREAD, block=block)
    names = ", ".join(change.value for change in places)
    values = "; ".join(f"{c.value} was {was.get(c, '?')} and is {has[c]}" for c in places)
    advice = "keep it the same within a run"
    if Change.OUTPUT_FORMAT in places:
        advice = "a request for a summary has another one on purpose; keep it the same elsewhere"
    return OurChange(
        cause=Cause.IDENTITY_CHANGED,
        detail=f"entries are keyed by {names}: {values}; {advice}",
        block=block,
    )


def _is_spread(facts: Facts, was: str, has: str) -> bool:
    """Whether both are keys that we made of one: settings are told as Python shows their values."""
    base = facts.plan.key_base
    if base is None or facts.plan.cache_key is None:
        return False
    keys = [key.strip("'") for key in (was, has)]
    return all(key == base or key.startswith(f"{base}-") for key in keys)


_SPREAD = (
    "sessions were spread over several cache keys, because more requests a minute share their "
    "prefix than one machine takes; this one went to another key than the one before, and there is "
    "nothing to do"
)


def unruled_change(facts: Facts, before: Sent) -> str | None:
    """Return what was set otherwise, where it is not published whether entries depend on it."""
    if not isinstance(facts.policy, CompatiblePolicy):
        return None
    ruled = {rule.change for rule in facts.policy.invalidations}
    was, has = before.request, facts.now.request
    changed = [
        f"{change.value} was {was.value_of(change)} and is {has.value_of(change)}"
        for change in Change
        if change not in ruled and was.value_of(change) != has.value_of(change)
    ]
    return "; ".join(changed) or None


def _short(text: str) -> str:
    return repr(text) if text else "nothing"
