"""Why less was read than could have been.

What could have been read is what the plan promises, or what the request before has left in the
cache, whichever is more. Our own changes (bytes, settings, a new epoch) explain the tokens behind
the first of them; what is missing before it was lost by time or by the provider. The larger part
names the cause.
"""

from __future__ import annotations

from typing import assert_never

from agentkit.caching.judge.changes import Facts, our_change, unruled_change
from agentkit.caching.judge.vendor import vendor_lost, vendor_says
from agentkit.caching.policy import (
    AnthropicPolicy,
    Change,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Policy,
    Section,
)
from agentkit.caching.verdict import Cause, Difference, Shortfall


def shortfall_of(facts: Facts) -> Shortfall | None:
    """Return the cause; None if all that could be read was read."""
    could, slack = _could(facts)
    lost = could - facts.actual.read
    if lost <= slack:
        return _only_vendor(facts) or _never_long_enough(facts)
    minimum = facts.policy.minimum_tokens
    if minimum is not None and could < minimum:
        return _too_short(facts, could, minimum)
    ours = None if facts.before is None else our_change(facts, facts.before)
    kept = could if ours is None else min(could, _tokens_before(facts, ours.block, could))
    if ours is not None and could - kept >= kept - facts.actual.read:
        return _shortfall(facts, ours.cause, ours.detail, lost, ours.difference)
    cause, detail = _beyond_us(facts, kept)
    if ours is not None and cause is Cause.UNKNOWN:
        # The entry ends behind the change, so what lies before it could not be read either.
        return _shortfall(facts, ours.cause, ours.detail, lost, ours.difference)
    return _shortfall(facts, cause, detail, lost, None)


def _could(facts: Facts) -> tuple[int, int]:
    """Return the tokens that could have been read, and how many less mean nothing."""
    unit = _rounding(facts.policy)
    before, counted = facts.before, facts.counted_left
    exact = counted or 0
    guessed = facts.estimated_left if counted is None else 0
    if facts.expected_read is not None:
        exact = max(exact, facts.expected_read)
    elif before is None or before.n_cached != facts.plan.predicted.hit:
        guessed = max(guessed, facts.planned_read)
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
            return max(policy.interval_tokens or _UNKNOWN_UNIT, policy.reported_multiple)
        case CompatiblePolicy():
            return max(policy.block_tokens or _UNKNOWN_UNIT, _NOISE)
        case GeminiPolicy():
            return _UNKNOWN_UNIT
        case DeepSeekPolicy() | AnthropicPolicy() | OpenAiMarkPolicy():
            return _NOISE
        case _:
            assert_never(policy)


_NOISE = 64
"""Templates add some tokens here and there, and others when the next message follows."""
_UNKNOWN_UNIT = 512
"""No unit is published; a shortfall below this is taken for rounding."""


def _only_vendor(facts: Facts) -> Shortfall | None:
    """Return what the vendor blames where we know of nothing that could have been read."""
    said = vendor_says(facts.note)
    if said is None or facts.before is not None or facts.plan.predicted.split.read:
        return None
    match said:
        case Section():
            cause, what = Cause.SEGMENT_CHANGED, f"{said.value} changed"
        case Change():
            cause, what = Cause.IDENTITY_CHANGED, f"{said.value} changed"
        case Cause():
            cause, what = said, "the context was compacted"
        case _:
            assert_never(said)
    detail = f"the vendor says that {what}; what was sent before is not known here"
    return _shortfall(facts, cause, detail, vendor_lost(facts.note), None)


def _tokens_before(facts: Facts, block: int, could: int) -> int:
    """Return how many of the tokens that could be read lie before a block."""
    if facts.before is None:
        return 0
    whole = facts.before.tokens(facts.before.n_cached)
    return could * facts.before.tokens(min(block, facts.before.n_cached)) // whole if whole else 0


def _beyond_us(facts: Facts, kept: int) -> tuple[Cause, str]:
    """Return what time or the provider did: the same bytes, the same settings, and yet no read."""
    life_s = None if facts.before is None else facts.before.life_s
    if facts.gap_s is not None and life_s is not None and facts.gap_s > life_s:
        return Cause.EXPIRED, (
            f"{facts.gap_s:,.0f} s after the start of the request before, its entry of "
            f"{life_s:,.0f} s was gone; {_remedy(facts.policy, facts.gap_s)}"
        )
    if facts.gap_s is not None and facts.gap_s > _LONG_PAUSE_S and not _is_promised(facts, life_s):
        return Cause.EXPIRED, (
            f"after {facts.gap_s:,.0f} s the prefix was gone; {facts.policy.provider.value} "
            "publishes no lifetime, so it cannot be said whether that is too long or it was "
            "dropped before"
        )
    if facts.still_writing:
        return Cause.NOT_YET_READABLE, (
            "the prefix was still being written, by a neighbour or by the request before; let one "
            "request go ahead until its answer begins"
        )
    if facts.key_overloaded:
        return Cause.ROUTED_ELSEWHERE, (
            "more requests shared the cache key than one machine takes, so this one went to another"
        )
    changed = None if facts.before is None else unruled_change(facts, facts.before)
    if changed is not None:
        return Cause.UNKNOWN, (
            f"{changed}; it is not published whether what {facts.policy.provider.value} passes "
            "requests on to keys its entries by it"
        )
    if kept - facts.planned_read > facts.planned_read - facts.actual.read:
        return _foreseen(facts, life_s)
    return Cause.EVICTED, (
        "the same bytes with the same settings, within the entry's life: the provider dropped it "
        "or sent the request elsewhere; there is nothing to change here"
    )


_LONG_PAUSE_S = 3_600
"""Caches without a published lifetime drop what rests this long as a rule; before, it is open."""


def _is_promised(facts: Facts, life_s: float | None) -> bool:
    """Whether an entry is to live as long as `life_s`, and not at most as long."""
    if isinstance(facts.policy, GeminiPolicy) and facts.plan.cached_front is None:
        return False
    return life_s is not None


def _remedy(policy: Policy, gap_s: float) -> str:
    if isinstance(policy, DeepSeekPolicy | GeminiPolicy | OpenAiIntervalPolicy):
        return "nothing that can be chosen here keeps it that long"
    fitting = [choice.ttl for choice in policy.ttls if choice.ttl.seconds >= gap_s]
    if isinstance(policy, CompatiblePolicy):
        if policy.mark_budget and not policy.ttls:
            return "a breakpoint with a longer lifetime keeps it, if the model's provider has one"
        if not fitting:
            return "nothing that can be chosen here keeps it that long"
        return f"a lifetime of {min(fitting, key=lambda ttl: ttl.seconds).value} would have kept it"
    if not fitting:
        return "no lifetime that can be chosen is that long; only a keep-alive would have helped"
    shortest = min(fitting, key=lambda ttl: ttl.seconds)
    return f"a lifetime of {shortest.value} or a keep-alive would have kept it"


def _foreseen(facts: Facts, life_s: float | None) -> tuple[Cause, str]:
    """Return why the plan already expected to read about as little as was read."""
    if facts.gap_s is None:
        return Cause.UNKNOWN, "it is not known here how long ago the prefix was used"
    if isinstance(facts.policy, DeepSeekPolicy):
        return Cause.NOT_YET_READABLE, _no_unit(facts)
    if life_s is None:
        return Cause.UNKNOWN, (
            f"after {facts.gap_s:,.0f} s it was not expected any more; how long the provider keeps "
            "a prefix is not published"
        )
    without = "what is known of the cache here did not let it expect more"
    if facts.plan.marks:
        without = "its marks do not lead to the entry"
    notes = "; ".join(facts.plan.notes) or without
    return Cause.UNKNOWN, f"the plan did not expect to read what is there: {notes}"


def _no_unit(facts: Facts) -> str:
    if facts.before is not None and facts.before.n_volatile:
        return (
            "DeepSeek reads whole units only, and the unit of the request before ends behind its "
            "volatile text; the beginning that two requests have in common becomes a unit of its "
            "own, and the next one reads it"
        )
    return (
        "DeepSeek reads whole units only, and the beginning in common was no unit of its own yet; "
        "it becomes one when two requests have had it"
    )


def _never_long_enough(facts: Facts) -> Shortfall | None:
    """Say that a prompt is too short to be cached at all, where nothing else is to be said."""
    actual, minimum = facts.actual, facts.policy.minimum_tokens
    if minimum is None or actual.read or actual.written or not 0 < actual.total < minimum:
        return None
    return _too_short(facts, actual.total, minimum)


def _too_short(facts: Facts, n_tokens: int, minimum: int) -> Shortfall:
    known = facts.policy.minimum
    source = "" if known is None else f" ({known.source})"
    detail = f"{n_tokens:,} tokens are fewer than the {minimum:,} that are cached at least{source}"
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
