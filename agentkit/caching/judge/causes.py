"""Why less was read than could have been.

What could have been read is what the plan promises, or what the request before has left in the
cache, whichever is more. Our own changes (bytes, settings, a new epoch) explain the tokens behind
the first of them; what is missing before it was lost by time or by the provider. The larger part
names the cause.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.caching.difference import Sent, changed_identity, compare
from agentkit.caching.judge.vendor import Said, vendor_says
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import (
    Change,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    InputSplit,
    OpenAiIntervalPolicy,
    Policy,
    Section,
)
from agentkit.caching.verdict import Cause, Difference, Shortfall


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
    def tokens_per_estimate(self) -> float:
        """The provider's tokens for one of our estimated ones."""
        estimated = self.now.tokens(len(self.now.wire))
        return self.actual.total / estimated if estimated else 1.0


def shortfall_of(facts: Facts) -> Shortfall | None:
    """Return the cause; None if all that could be read was read."""
    could, slack = _could(facts)
    lost = could - facts.actual.read
    if lost <= slack:
        return _never_long_enough(facts)
    minimum = facts.policy.minimum_tokens
    if minimum is not None and could < minimum:
        return _too_short(facts, could, minimum)
    ours = _our_change(facts)
    kept = could if ours is None else min(could, _tokens_before(facts, ours.block, could))
    if ours is not None and could - kept >= kept - facts.actual.read:
        return _shortfall(facts, ours.cause, ours.detail, lost, ours.difference)
    cause, detail = _beyond_us(facts, kept, slack)
    return _shortfall(facts, cause, detail, lost, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OurChange:
    cause: Cause
    detail: str
    block: int | None
    """First block that is lost by it; None: only the vendor knows."""
    difference: Difference | None = None


def _could(facts: Facts) -> tuple[int, int]:
    """Return the tokens that could have been read, and how many less mean nothing."""
    unit = _rounding(facts.policy)
    exact, guessed = 0, 0
    before, planned = facts.before, facts.plan.predicted
    if before is not None and before.cached_tokens is not None:
        exact = before.cached_tokens
    elif before is not None:
        guessed = int(before.tokens(before.n_cached) * facts.tokens_per_estimate)
    if facts.expected_read is not None:
        exact = max(exact, facts.expected_read)
    elif before is None or before.n_cached != planned.hit:
        guessed = max(guessed, int(planned.split.read * facts.tokens_per_estimate))
    # An estimate must exceed what is known by much before it is believed.
    if guessed - _guess_slack(guessed, unit) > exact:
        return guessed, _guess_slack(guessed, unit)
    return exact, unit


def _guess_slack(guessed: int, unit: int) -> int:
    return max(unit, 256, guessed // 4)


def _rounding(policy: Policy) -> int:
    """Return by how many tokens a read may fall short only because caches work in units."""
    match policy:
        case OpenAiIntervalPolicy():
            return max(policy.interval_tokens or 0, policy.reported_multiple)
        case CompatiblePolicy():
            return policy.block_tokens or _UNKNOWN_UNIT
        case DeepSeekPolicy():
            return policy.block_tokens or 0
        case GeminiPolicy():
            return _UNKNOWN_UNIT
        case _:
            return 0


_UNKNOWN_UNIT = 512
"""No unit is published; a shortfall below this is taken for rounding."""


def _our_change(facts: Facts) -> _OurChange | None:
    """Return the first change of ours that loses blocks; the vendor's word decides between two."""
    said = vendor_says(facts.note)
    if facts.before is None:
        return _only_said(said)
    changed = _changed_bytes(facts, facts.before)
    setting = _changed_setting(facts, facts.before, said)
    if facts.epoch_changed and changed is not None:
        return _OurChange(
            cause=Cause.COMPACTED,
            detail="the context was begun anew on purpose (a new epoch); "
            f"from {changed.detail} on nothing could be read",
            block=changed.block,
            difference=changed.difference,
        )
    if changed is None or setting is None:
        return changed or setting
    if isinstance(said, Section):
        return changed
    if isinstance(said, Change) and said.value in setting.detail:
        return setting
    return setting if (setting.block or 0) <= (changed.block or 0) else changed


def _changed_bytes(facts: Facts, before: Sent) -> _OurChange | None:
    difference = compare(before, facts.now)
    if difference is None:
        return None
    where = f"{difference.segment} ({difference.section}, block {difference.block})"
    source = f", supplied by {difference.source}" if difference.source else ""
    return _OurChange(
        cause=Cause.SEGMENT_CHANGED,
        detail=where
        if facts.epoch_changed
        else f"{where} differs from byte {difference.byte} on{source}: it was "
        f"{_short(difference.before)} and is {_short(difference.after)}; "
        "keep what changes out of the prefix, or append it",
        block=difference.block,
        difference=difference,
    )


def _changed_setting(facts: Facts, before: Sent, said: Said | None) -> _OurChange | None:
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
    names = ", ".join(change.value for change in places)
    was, has = dict(before.settings), dict(facts.now.settings)
    values = "; ".join(f"{c.value} was {was.get(c, '?')} and is {has[c]}" for c in places)
    return _OurChange(
        cause=Cause.IDENTITY_CHANGED,
        detail=f"entries are keyed by {names}: {values}; keep it the same within a run",
        block=min(places.values()),
    )


def _only_said(said: Said | None) -> _OurChange | None:
    """Return what the vendor blames where we have nothing to compare with."""
    match said:
        case None:
            return None
        case Section():
            return _OurChange(
                cause=Cause.SEGMENT_CHANGED,
                detail=f"the vendor says that {said.value} changed; what was sent before is not "
                "known here, so the place is not",
                block=None,
            )
        case Change():
            detail = f"the vendor says that {said.value} changed"
            return _OurChange(cause=Cause.IDENTITY_CHANGED, detail=detail, block=None)
        case Cause():
            detail = "the vendor says that the context was compacted"
            return _OurChange(cause=said, detail=detail, block=None)


def _tokens_before(facts: Facts, block: int | None, could: int) -> int:
    """Return how many of the tokens that could be read lie before a block."""
    if block is None or facts.before is None:
        return facts.actual.read
    whole = facts.before.tokens(facts.before.n_cached)
    return could * facts.before.tokens(min(block, facts.before.n_cached)) // whole if whole else 0


def _beyond_us(facts: Facts, kept: int, slack: int) -> tuple[Cause, str]:
    """Return what time or the provider did: the same bytes, the same settings, and yet no read."""
    life_s = None if facts.before is None else facts.before.life_s
    if facts.gap_s is not None and life_s is not None and facts.gap_s > life_s:
        return Cause.EXPIRED, (
            f"{facts.gap_s:,.0f} s after the start of the request before, its entry of "
            f"{life_s:,.0f} s was gone; a longer lifetime or a keep-alive would have kept it"
        )
    if facts.still_writing:
        return Cause.NOT_YET_READABLE, (
            "another request was still writing the prefix; let one go ahead until its answer begins"
        )
    if facts.key_overloaded:
        return Cause.ROUTED_ELSEWHERE, (
            "more requests shared the cache key than one machine takes, so this one went to another"
        )
    planned = int(facts.plan.predicted.split.read * facts.tokens_per_estimate)
    reachable = facts.expected_read or planned
    if facts.before is not None and reachable + max(slack, _guess_slack(kept, 0)) < kept:
        notes = "; ".join(facts.plan.notes) or "its marks do not lead to the entry"
        return Cause.UNKNOWN, f"the plan did not expect to read what is there: {notes}"
    if facts.before is None or facts.gap_s is None:
        return Cause.UNKNOWN, "what was sent before, or when, is not known here"
    return Cause.EVICTED, (
        "the same bytes with the same settings, within the entry's life: the provider dropped it "
        "or sent the request elsewhere; there is nothing to change here"
        if life_s is not None
        else "the same bytes with the same settings; how long the provider keeps them is not "
        "published, and it dropped them or sent the request elsewhere"
    )


def _never_long_enough(facts: Facts) -> Shortfall | None:
    """Say that a prompt is too short to be cached at all, where nothing else is to be said."""
    actual, minimum = facts.actual, facts.policy.minimum_tokens
    if minimum is None or actual.read or actual.written or not 0 < actual.total < minimum:
        return None
    return _too_short(facts, actual.total, minimum)


def _too_short(facts: Facts, n_tokens: int, minimum: int) -> Shortfall:
    detail = f"{n_tokens:,} tokens are fewer than the minimum of {minimum:,} that is cached"
    return _shortfall(facts, Cause.TOO_SHORT, detail, 0, None)


def _shortfall(
    facts: Facts, cause: Cause, detail: str, lost: int, difference: Difference | None
) -> Shortfall:
    disagrees = ""
    if vendor_says(facts.note) is not None and cause in _PROVIDERS_OWN:
        disagrees = "; the vendor blames a change that what was sent does not have"
    return Shortfall(
        cause=cause,
        detail=detail + disagrees,
        lost_tokens=min(lost, facts.actual.total - facts.actual.read),
        difference=difference,
        vendor=facts.note,
    )


_PROVIDERS_OWN = (Cause.EVICTED, Cause.ROUTED_ELSEWHERE)


def _short(text: str) -> str:
    return repr(text) if text else "nothing"
