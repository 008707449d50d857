"""GPT-5.5 and earlier: nothing to mark; a key, and how long entries are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Literal

from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.notes import front_notes
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.predict import common_read, predicted, whole_blocks_within
from agentkit.caching.plan.prompt import front_is_readable, prompt_of
from agentkit.caching.plan.users import no_marks
from agentkit.caching.policy import InputSplit, OpenAiIntervalPolicy
from agentkit.caching.simulate.openai_intervals import reported_tokens


def plan_openai_intervals(
    draft: Draft, policy: OpenAiIntervalPolicy, written: Written, now: datetime
) -> CachePlan:
    """Choose the retention; all else is the provider's."""
    minimum = policy.minimum_tokens or 0
    prompt = prompt_of(
        draft, written, now_s=now.timestamp(), minimum=minimum, can_mark=lambda *_: False
    )
    _, common = common_read(prompt)
    read = reported_tokens(common, policy, 0, minimum)
    split = InputSplit(read=read, uncached=prompt.total - read)
    return CachePlan(
        cache_key=draft.request.identity.cache_key,
        openai=replace(draft.request.openai, mode="implicit", retention=_retention(draft, policy)),
        mask=draft.mask,
        siblings_ahead=0 if front_is_readable(draft, prompt, minimum) else 1,
        predicted=predicted(
            policy,
            split,
            hit=whole_blocks_within(prompt, read),
            at=now,
            terms=draft.request.terms,
        ),
        notes=front_notes(draft, policy, prompt),
        lost_marks=no_marks(
            draft, f"{policy.model!r} takes no breakpoints; they came with GPT-5.6"
        ),
    )


def _retention(draft: Draft, policy: OpenAiIntervalPolicy) -> Literal["in_memory", "24h"] | None:
    """Return the retention to ask for; None is the default.

    A longer one costs nothing, but keeps data longer: it is asked for only if a gap needs it.
    """
    if draft.request.openai.retention is not None:
        return draft.request.openai.retention
    default = policy.retentions[0]
    gap_s = max(draft.gap_s, draft.slow_gap_s if draft.slow_chance >= _LIKELY else Decimal(0))
    if gap_s < default.idle_s:
        return None
    longest = max(policy.retentions, key=lambda retention: retention.idle_s)
    return longest.name if longest.idle_s > default.idle_s else None


_LIKELY = Decimal("0.2")
"""A slow gap that is as likely as this is planned for."""
