"""Anthropic: up to four marks, shared with the user's; a lookback of 20; two lifetimes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.lives import Life, lives_of
from agentkit.caching.plan.marks import Room
from agentkit.caching.plan.needs import needs_of
from agentkit.caching.plan.notes import mark_notes, siblings_ahead
from agentkit.caching.plan.placing import MarkRules, place_marks, placed_marks
from agentkit.caching.plan.plan import CachePlan, Prediction
from agentkit.caching.plan.predict import blocks_read, predicted
from agentkit.caching.plan.prompt import Prompt, prompt_of
from agentkit.caching.plan.users import MarkLimits, user_marks
from agentkit.caching.policy import AnthropicPolicy, Ttl
from agentkit.caching.simulate.anthropic_checks import (
    automatic_mark,
    is_markable,
    rendered,
    shown_indexes,
    takes_prewarm,
)
from agentkit.caching.simulate.anthropic_reach import Positions, acting_marks, found_entry
from agentkit.caching.simulate.billing import split_at_marks
from agentkit.caching.simulate.served import Refused
from agentkit.errors import ConfigurationError


def plan_anthropic(
    draft: Draft, policy: AnthropicPolicy, written: Written, now: datetime
) -> CachePlan:
    """Place the marks.

    Raises:
        ConfigurationError: the top-level `cache_control` cannot be used here.
    """
    if draft.keep_alive and not takes_prewarm(draft.request, policy):
        draft = replace(draft, keep_alive=False)
    prompt = prompt_of(
        draft,
        written,
        now_s=now.timestamp(),
        minimum=policy.minimum_tokens or 0,
        can_mark=lambda block, _: is_markable(block, policy),
        shown=shown_indexes(draft.request, policy),
    )
    automatic = _automatic(draft, policy)
    users = user_marks(draft, prompt, _limits(policy, automatic))
    fixed = {place: mark.ttl or policy.default_ttl for place, mark in users.marks.items()}
    fixed |= automatic
    positions = Positions(prompt.blocks, policy.lookback.unit)
    rules = _rules(draft, policy, prompt, fixed, positions, now)
    needs = needs_of(draft, prompt, rules.lives)
    placed = place_marks(draft, prompt, needs, rules)
    marks = fixed | {place: life.ttl or policy.default_ttl for place, life in placed.marks.items()}
    return CachePlan(
        marks=placed_marks(prompt, users.marks, placed.marks, policy.default_ttl),
        cache_key=draft.request.identity.cache_key,
        openai=draft.request.openai,
        keep_alive=placed.keep_alive,
        siblings_ahead=siblings_ahead(prompt, needs),
        predicted=_predict(draft, policy, prompt, marks, positions, now),
        notes=mark_notes(
            draft,
            policy,
            prompt,
            needs,
            n_marks=len(marks),
            n_free=policy.mark_budget - len(fixed),
        ),
        lost_marks=users.lost,
    )


def _rules(
    draft: Draft,
    policy: AnthropicPolicy,
    prompt: Prompt,
    fixed: Mapping[int, Ttl],
    positions: Positions,
    now: datetime,
) -> MarkRules:
    lives = lives_of(
        policy,
        policy.ttls,
        tokens=prompt.total,
        at=now,
        terms=draft.request.terms,
        idle_s=policy.default_ttl.seconds,
    )
    size = policy.lookback.size
    n_free = policy.mark_budget - len(fixed)
    # Without a mark of our own only what the user's marks find is read.
    readable = prompt.readable.__getitem__
    theirs = list(acting_marks(prompt.blocks, fixed, policy, kinds=draft.request.kinds))

    def reaches(marks: Iterable[int], place: int) -> bool:
        return any(place in positions.back(mark, size) for mark in marks if mark >= place)

    return MarkRules(
        lives=lives,
        room=Room(total=n_free, writing=n_free),
        fixed={
            place: Life(ttl=ttl, seconds=ttl.seconds, write=lives.short.write)
            for place, ttl in fixed.items()
        },
        hit=prompt.n_read if n_free else found_entry(theirs, positions, size, readable),
        reaches=reaches,
        now_s=now.timestamp(),
    )


def _predict(
    draft: Draft,
    policy: AnthropicPolicy,
    prompt: Prompt,
    marks: Mapping[int, Ttl],
    positions: Positions,
    now: datetime,
) -> Prediction:
    acting = acting_marks(prompt.blocks, marks, policy, kinds=draft.request.kinds)
    readable = prompt.readable.__getitem__
    hit = found_entry(list(acting), positions, policy.lookback.size, readable)
    minimum = policy.minimum_tokens or 0
    lengths = [(prompt.tokens[place], ttl) for place, ttl in acting.items()]
    split = split_at_marks(
        prompt.total,
        prompt.length(hit),
        [(n_tokens, ttl) for n_tokens, ttl in lengths if n_tokens >= minimum],
    )
    return predicted(policy, split, hit=blocks_read(prompt, hit), at=now, terms=draft.request.terms)


def _automatic(draft: Draft, policy: AnthropicPolicy) -> dict[int, Ttl]:
    """The mark of the user's top-level `cache_control`, which takes a place too."""
    if draft.request.automatic is None:
        return {}
    found = automatic_mark(rendered(draft.request, policy), policy)
    if isinstance(found, Refused):
        raise ConfigurationError(found.message)
    return {} if found is None else dict([found])


def _limits(policy: AnthropicPolicy, automatic: Mapping[int, Ttl]) -> MarkLimits:
    return MarkLimits(
        name="cache_control",
        budget=policy.mark_budget,
        ttls=[choice.ttl for choice in policy.ttls],
        default=policy.default_ttl,
        longer_first=policy.longer_ttl_first,
        automatic=next(iter(automatic.items()), None),
    )
