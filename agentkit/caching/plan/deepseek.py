"""DeepSeek: whole units, found by themselves; a field that keeps tenants apart."""

from __future__ import annotations

from datetime import UTC, datetime

from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.predict import common_read, predicted, whole_blocks_within
from agentkit.caching.plan.prompt import front_is_readable, prompt_of
from agentkit.caching.plan.users import no_marks
from agentkit.caching.policy import DeepSeekPolicy, InputSplit

_SIBLINGS_AHEAD = 2
"""Two requests must have a beginning in common before it becomes a unit of its own."""


def plan_deepseek(
    draft: Draft, policy: DeepSeekPolicy, written: Written, now: datetime
) -> CachePlan:
    """Predict what is read, and say what the hour costs."""
    prompt = prompt_of(draft, written, now_s=now.timestamp(), minimum=0, can_mark=lambda *_: False)
    _, common = common_read(prompt)
    read = common
    if policy.block_tokens is not None:
        read = common // policy.block_tokens * policy.block_tokens
    split = InputSplit(read=read, uncached=prompt.total - read)
    return CachePlan(
        cache_key=draft.request.identity.cache_key,
        openai=draft.request.openai,
        siblings_ahead=0 if front_is_readable(draft, prompt, 0) else _SIBLINGS_AHEAD,
        predicted=predicted(
            policy,
            split,
            hit=whole_blocks_within(prompt, read),
            at=now,
            terms=draft.request.terms,
        ),
        notes=_peak_note(policy, now),
        lost_marks=no_marks(draft, "DeepSeek has no cache marks"),
    )


def _peak_note(policy: DeepSeekPolicy, now: datetime) -> tuple[str, ...]:
    if policy.prices is None or policy.prices.peak is None or not policy.prices.peak.is_peak(now):
        return ()
    peak, at = policy.prices.peak, now.astimezone(UTC).time()
    end = next(end for start, end in peak.windows_utc if start <= at < end)
    return (
        f"peak hours until {end:%H:%M} UTC: input costs {policy.prices.rates.input} USD per "
        f"million tokens, {peak.off_peak.input} after them",
    )
