"""Gemini: an implicit cache that promises nothing, and an object that is paid by the hour."""

from __future__ import annotations

import math
from datetime import datetime

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix, Written
from agentkit.caching.plan.notes import front_notes
from agentkit.caching.plan.plan import CachedFront, CachePlan, Prediction
from agentkit.caching.plan.predict import common_read, predicted, whole_blocks_within
from agentkit.caching.plan.prompt import Prompt, front_is_readable, prompt_of, run_ends
from agentkit.caching.plan.users import no_marks
from agentkit.caching.policy import GeminiPolicy, InputSplit

_SHORTEST_TTL_S = 300
"""An object is asked for at least this long: to renew it more often is not worth a request."""


def plan_gemini(draft: Draft, policy: GeminiPolicy, written: Written, now: datetime) -> CachePlan:
    """Decide whether an object of the shared front pays.

    With one, the prediction is that of a request that uses it; what its creation and storage cost
    is not in it, because no request is billed for them.
    """
    minimum = policy.minimum_tokens or 0
    prompt = prompt_of(
        draft, written, now_s=now.timestamp(), minimum=minimum, can_mark=lambda *_: False
    )
    front = _cached_front(draft, policy, prompt, now)
    return CachePlan(
        cache_key=draft.request.identity.cache_key,
        openai=draft.request.openai,
        cached_front=front,
        mask=draft.mask,
        siblings_ahead=0 if front or front_is_readable(draft, prompt, minimum) else 1,
        predicted=_predict(draft, policy, prompt, front, now),
        notes=front_notes(draft, policy, prompt),
        lost_marks=no_marks(draft, "Gemini has no cache marks"),
    )


def _predict(
    draft: Draft, policy: GeminiPolicy, prompt: Prompt, front: CachedFront | None, now: datetime
) -> Prediction:
    _, read = common_read(prompt)
    if front is not None:
        read = prompt.length(front.end - 1)
    split = InputSplit(read=read, uncached=prompt.total - read)
    return predicted(
        policy,
        split,
        hit=whole_blocks_within(prompt, read),
        at=now,
        terms=draft.request.terms,
    )


def _cached_front(
    draft: Draft, policy: GeminiPolicy, prompt: Prompt, now: datetime
) -> CachedFront | None:
    """Return the object that pays: its reads save more than its creation and storage cost.

    And more than the implicit cache saves for nothing, as far as that has kept its word. None where
    the implicit cache has the front already.
    """
    front = _front(draft)
    if not policy.explicit or policy.minimum_tokens is None or front is None:
        return None
    if policy.prices is None or draft.request.cached_content is not None:
        return None
    place = front.end - 1
    tokens = prompt.length(place)
    if tokens < policy.minimum_tokens or _implicit_has(prompt, place):
        return None
    rates = policy.prices.rates_for(prompt.total, now, draft.request.terms)
    if rates is None or rates.storage_hour is None:
        return None
    _, own = run_ends(draft)
    reads = front.reads + (own.reads if own is not None else 0)
    ttl_s = _ttl_s(draft, front, policy)
    saved = (1 + reads) * (rates.input - rates.read) * tokens
    spent = (rates.input + rates.storage_hour * ttl_s / 3_600) * tokens
    # The implicit cache costs nothing and reads the history, too; this request finds it empty.
    implicit = draft.implicit_share * reads * (rates.input - rates.read) * prompt.total
    return CachedFront(end=front.end, ttl_s=ttl_s) if saved - spent > implicit else None


def _front(draft: Draft) -> SharedPrefix | None:
    """The longest front that other runs of the agent have; tools and system must all be in it."""
    least = len(draft.request.tools) + len(draft.request.system)
    fronts = [s for s in draft.shared if s.by is not SharedBy.RUN and s.end >= max(1, least)]
    return fronts[-1] if fronts else None


def _implicit_has(prompt: Prompt, place: int) -> bool:
    return any(prompt.readable[at] for at in prompt.written if at >= place)


def _ttl_s(draft: Draft, front: SharedPrefix, policy: GeminiPolicy) -> int:
    """As long as twice the expected gap: storage is paid for all of it, and it can be renewed."""
    gap_s = draft.gap_s if front.gap_s is None else front.gap_s
    if draft.slow_chance > 0:
        gap_s = max(gap_s, draft.slow_gap_s)
    wanted = max(_SHORTEST_TTL_S, math.ceil(2 * gap_s), policy.explicit_minimum_ttl_s)
    return min(wanted, max(policy.explicit_default_ttl_s, policy.explicit_minimum_ttl_s))
