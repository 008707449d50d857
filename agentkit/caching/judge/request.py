"""One answered request, judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from agentkit.caching.difference import Sent
from agentkit.caching.iterations import ModelUsage
from agentkit.caching.judge.bill import Bill, lost_usd, parts_bill
from agentkit.caching.judge.causes import shortfall_of
from agentkit.caching.judge.changes import Facts
from agentkit.caching.judge.split import NoSplit, split_of
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import (
    AnthropicPolicy,
    CompatiblePolicy,
    Cost,
    DeepSeekPolicy,
    GeminiPolicy,
    InputSplit,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Policy,
    Terms,
    Ttl,
)
from agentkit.caching.prices import PriceBook
from agentkit.caching.verdict import Cause, Shortfall, Verdict
from agentkit.usage import Usage

_OUTPUT_SHARE = Decimal("0.8")
"""From this share of the bill on, free input would hardly make it smaller."""


def judge(
    *,
    plan: CachePlan,
    policy: Policy,
    usage: Usage,
    at: datetime,
    now: Sent,
    before: Sent | None = None,
    gap_s: float | None = None,
    terms: Terms | None = None,
    epoch_changed: bool = False,
    note: str | None = None,
    key_overloaded: bool = False,
    still_writing: bool = False,
    expected_read: int | None = None,
    prices: PriceBook | None = None,
    model: str | None = None,
    parts: Sequence[ModelUsage] = (),
    keeps_alive: bool = False,
) -> Verdict:
    """Return what a request cost, and why it was not less. Pure.

    Args:
        plan: What was planned for it.
        policy: The rules of the day.
        usage: The provider's counts of what was planned, inclusive. Without `parts`.
        at: When it was sent, with a time zone: prices depend on it.
        now: What was sent.
        before: What it should extend: the request before of the same run, as `remembered` has it.
            For the first one of a run, what all runs of the agent share; None: nothing.
        gap_s: Seconds between the starts of the two; None: from `before.at` to `at`.
        terms: What changes the price beside tokens.
        epoch_changed: Whether the context was begun anew on purpose since `before`.
        note: What the vendor's own diagnostics said.
        key_overloaded: Whether more requests shared the cache key than one machine takes.
        still_writing: Whether another request was writing the prefix when this one was sent.
        expected_read: What the plan meant to be read, by the provider's own count, if known.
        prices: Where prices come from.
        model: The name on the wire; None: the policy's.
        parts: What else the provider did within the request, see `usage_of_iterations`.
        keeps_alive: Whether it was sent only to keep entries alive. Without a cache nobody would
            have sent it, so its uncached cost is 0, and what it cost is what was planned.
    """
    if gap_s is None and before is not None and before.at is not None:
        gap_s = (at - before.at).total_seconds()
    book, terms = prices or PriceBook(), terms or Terms()
    split = split_of(usage, policy, plan)
    actual = None if isinstance(split, NoSplit) else split
    price = book.price(policy, usage.input_tokens or 0, at, terms, model=model)
    bill = Bill.of(price, actual, plan, usage)
    if isinstance(split, NoSplit):
        shortfall: Shortfall | None = Shortfall(
            cause=split.cause, detail=split.detail, lost_tokens=0, vendor=note
        )
    else:
        facts = Facts(
            policy=policy,
            plan=plan,
            actual=split,
            now=now,
            before=before,
            gap_s=gap_s,
            epoch_changed=epoch_changed,
            note=note,
            key_overloaded=key_overloaded,
            still_writing=still_writing,
            expected_read=expected_read,
        )
        shortfall = shortfall_of(facts) or _output_dominates(bill.paid)
        if shortfall is not None and shortfall.lost_tokens:
            rates = None if price is None else price.rates
            lost = lost_usd(split, shortfall.lost_tokens, rates)
            shortfall = replace(shortfall, lost_usd=lost)
    whole = parts_bill(parts, policy, book, at, terms)
    total = bill if whole is None else bill.plus(whole)
    if keeps_alive:
        total = total.of_a_ping()
    return Verdict(
        at=at,
        model=f"{policy.provider.value}:{model or policy.model}",
        predicted=plan.predicted,
        actual=actual,
        cost=total.paid,
        uncached_cost=total.uncached,
        planned_cost=total.planned,
        price_source=None if price is None else price.source,
        shortfall=shortfall,
    )


def remembered(
    sent: Sent,
    *,
    plan: CachePlan,
    policy: Policy,
    actual: InputSplit | None,
    at: datetime | None = None,
) -> Sent:
    """Return what was sent, with what the cache keeps of it now that it is answered.

    This is the `before` of the next request. `actual` is that of the verdict; `at` is when it was
    sent, so that the judge knows the gap by itself.
    """
    if isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy):
        n_cached, tokens = _kept_by_marks(sent, plan, actual)
    else:
        # Caches without marks keep whole prompts.
        tokens = None if actual is None or sent.n_volatile else actual.total
        n_cached = sent.n_stable
    life_s = _life_s(policy, plan)
    return replace(sent, life_s=life_s, at=at, n_cached=n_cached, cached_tokens=tokens)


def _kept_by_marks(
    sent: Sent, plan: CachePlan, actual: InputSplit | None
) -> tuple[int, int | None]:
    """Return how many blocks are kept, and how many tokens these have if that is known."""
    cached = plan.predicted.split.read + plan.predicted.split.written
    known = None if actual is None else actual.read + actual.written
    if known == 0:
        return 0, None
    return min(sent.n_stable, sent.request.blocks_within(cached)), known


def _life_s(policy: Policy, plan: CachePlan) -> float | None:
    """Return the shortest life among what the plan keeps, in seconds; None if not published."""
    match policy:
        case AnthropicPolicy():
            ttls = [mark.ttl or policy.default_ttl for mark in plan.marks]
            return min((ttl.seconds for ttl in ttls), default=policy.default_ttl.seconds)
        case OpenAiMarkPolicy():
            default = plan.openai.ttl or policy.default_ttl
            ttls = [mark.ttl or default for mark in plan.marks]
            return min((ttl.seconds for ttl in ttls), default=default.seconds)
        case OpenAiIntervalPolicy():
            kept = [r for r in policy.retentions if r.name == plan.openai.retention]
            return (kept or policy.retentions)[0].idle_s
        case GeminiPolicy():
            if plan.cached_front is not None:
                return plan.cached_front.ttl_s
            return policy.implicit_max_age_s
        case CompatiblePolicy():
            return _compatible_life_s(policy, plan)
        case DeepSeekPolicy():
            return None


def _compatible_life_s(policy: CompatiblePolicy, plan: CachePlan) -> float | None:
    choices = [choice.ttl for choice in policy.ttls]
    shortest = min(choices, key=lambda ttl: ttl.seconds, default=Ttl.FIVE_MINUTES)
    if plan.marks:
        # What a gateway passes on lives as long as the provider behind it lets it by default.
        return min((mark.ttl or shortest).seconds for mark in plan.marks)
    if choices:
        return (plan.openai.ttl or shortest).seconds
    return policy.idle_s


def _output_dominates(paid: Cost | None) -> Shortfall | None:
    if paid is None or not paid.total or paid.output < paid.total * _OUTPUT_SHARE:
        return None
    share = paid.output / paid.total
    return Shortfall(
        cause=Cause.OUTPUT_DOMINATES,
        detail=f"{share:.0%} of the bill is what the model wrote; no cache makes that cheaper",
        lost_tokens=0,
    )
