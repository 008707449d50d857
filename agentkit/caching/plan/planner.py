"""The one entry: from a draft, a policy and what was written before to marks, keys and a price."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from agentkit.caching.plan.anthropic import plan_anthropic
from agentkit.caching.plan.compatible import plan_compatible
from agentkit.caching.plan.deepseek import plan_deepseek
from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.gemini import plan_gemini
from agentkit.caching.plan.keys import KeyRates, cache_key, with_key
from agentkit.caching.plan.openai_intervals import plan_openai_intervals
from agentkit.caching.plan.openai_marks import plan_openai_marks
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import (
    AnthropicPolicy,
    CompatiblePolicy,
    DeepSeekPolicy,
    GeminiPolicy,
    OpenAiIntervalPolicy,
    OpenAiMarkPolicy,
    Policy,
)


def plan(
    draft: Draft,
    policy: Policy,
    written: Written,
    now: datetime,
    *,
    rates: KeyRates | None = None,
) -> CachePlan:
    """Return the best plan for a request under a provider's rules. It only computes.

    `written` must be what lives under the request's own cache key: take `with_key(draft, ...)` for
    both. `rates` says how often keys were used lately, and keeps which session has which; None
    spreads nothing.

    Marks of the user's that are left out are in `CachePlan.lost_marks`, with the same words at each
    request.

    Raises:
        ConfigurationError: the provider cannot take what was configured.
    """
    draft = with_key(draft, policy, rates, now)
    planned = _planned(draft, policy, written, now)
    key = cache_key(draft, policy, rates, now)
    if key is None and not planned.lost_marks:
        return planned
    return replace(
        planned,
        key_base=None if key is None else key.base,
        notes=planned.notes + planned.lost_marks,
    )


def _planned(draft: Draft, policy: Policy, written: Written, now: datetime) -> CachePlan:
    match policy:
        case AnthropicPolicy():
            return plan_anthropic(draft, policy, written, now)
        case OpenAiMarkPolicy():
            return plan_openai_marks(draft, policy, written, now)
        case OpenAiIntervalPolicy():
            return plan_openai_intervals(draft, policy, written, now)
        case DeepSeekPolicy():
            return plan_deepseek(draft, policy, written, now)
        case GeminiPolicy():
            return plan_gemini(draft, policy, written, now)
        case CompatiblePolicy():
            return plan_compatible(draft, policy, written, now)
        case _:
            assert_never(policy)
