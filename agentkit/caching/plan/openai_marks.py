"""GPT-5.6 and later: breakpoints in explicit mode, the latest four of which are written.

Explicit mode is preferred, because implicit mode always writes at the end of the last message,
also behind text that nobody will send again. It stays where explicit mode cannot say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import takewhile

from agentkit.caching.chain import Boundary
from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.lives import Life, Lives, lives_of
from agentkit.caching.plan.marks import Room
from agentkit.caching.plan.needs import needs_of, pays
from agentkit.caching.plan.notes import mark_notes, siblings_ahead
from agentkit.caching.plan.placing import MarkRules, place_marks, placed_marks
from agentkit.caching.plan.plan import CachePlan, Prediction
from agentkit.caching.plan.predict import blocks_read, predicted
from agentkit.caching.plan.prompt import Prompt, prompt_of, run_ends
from agentkit.caching.plan.users import MarkLimits, UserMarks, user_marks
from agentkit.caching.policy import OpenAiKey, OpenAiMarkPolicy, Section, Ttl
from agentkit.caching.request import Block, CacheRequest, Mark, Role
from agentkit.caching.simulate.billing import split_at_marks
from agentkit.caching.simulate.openai_marks import allowed_ttls, breakpoints, is_ignored


def plan_openai_marks(
    draft: Draft, policy: OpenAiMarkPolicy, written: Written, now: datetime
) -> CachePlan:
    """Place the breakpoints."""
    # Only the Responses API has a request that answers nothing (`prewarm`).
    if draft.keep_alive and draft.request.openai.api != "responses":
        draft = replace(draft, keep_alive=False)
    prompt = prompt_of(
        draft,
        written,
        now_s=now.timestamp(),
        minimum=policy.minimum_tokens or 0,
        can_mark=lambda block, role: _takes_breakpoint(block, role, policy),
    )
    found = _user_marks(draft, policy, prompt)
    users = found.marks
    lives = _lives(draft, policy, prompt, now)
    needs = needs_of(draft, prompt, lives)
    acting = {place: mark for place, mark in users.items() if prompt.markable[place]}
    rules = _rules(policy, prompt, lives, acting, now)
    placed = place_marks(draft, prompt, needs, rules)
    marks = {place: mark.ttl or policy.default_ttl for place, mark in acting.items()}
    marks |= {place: life.ttl or policy.default_ttl for place, life in placed.marks.items()}
    planned = CachePlan(
        marks=placed_marks(prompt, users, placed.marks, policy.default_ttl),
        cache_key=draft.request.identity.cache_key,
        openai=replace(draft.request.openai, mode="explicit", ttl=None),
        mask=draft.mask,
        keep_alive=placed.keep_alive,
        siblings_ahead=siblings_ahead(prompt, needs),
        predicted=_predict(draft, policy, prompt, marks, now),
        notes=mark_notes(draft, policy, prompt, needs, n_marks=len(marks)),
        lost_marks=found.lost,
    )
    return _in_implicit_mode(planned, draft, policy, prompt, now) or planned


def _takes_breakpoint(block: Block, role: Role | None, policy: OpenAiMarkPolicy) -> bool:
    return block.kind in policy.markable and role is not Role.ASSISTANT and block.n_tokens > 0


def _user_marks(draft: Draft, policy: OpenAiMarkPolicy, prompt: Prompt) -> UserMarks:
    allowed = allowed_ttls(draft.request, policy)
    ignored = {
        # A lifetime that does not exist is refused here, too.
        place: block.mark if block.mark.ttl in allowed else Mark()
        for place, block in draft.request.marked_places  # every block is rendered
        if block.mark is not None and is_ignored(draft.request, prompt.roles[place])
    }
    limits = MarkLimits(
        name="prompt_cache_breakpoint",
        ttls=allowed,
        default=policy.default_ttl,
    )
    # What the API ignores is left where it is; everything else must be acceptable.
    found = user_marks(draft, prompt, limits, ignored=ignored)
    return replace(found, marks={**found.marks, **ignored})


def _lives(draft: Draft, policy: OpenAiMarkPolicy, prompt: Prompt, now: datetime) -> Lives:
    allowed = allowed_ttls(draft.request, policy)
    return lives_of(
        policy,
        [choice for choice in policy.ttls if choice.ttl in allowed],
        tokens=prompt.total,
        at=now,
        terms=draft.request.terms,
        idle_s=policy.default_ttl.seconds,
    )


def _rules(
    policy: OpenAiMarkPolicy,
    prompt: Prompt,
    lives: Lives,
    users: Mapping[int, Mark],
    now: datetime,
) -> MarkRules:
    hit = prompt.n_read
    start = -1 if hit is None else hit

    def reaches(marks: Iterable[int], place: int) -> bool:
        return place in set(marks)

    ttls = {place: mark.ttl or policy.default_ttl for place, mark in users.items()}
    return MarkRules(
        lives=lives,
        room=Room(
            # More would be looked up, but would push the fronts out of what is written and renewed.
            total=policy.explicit_writes,
            writing=max(0, policy.explicit_writes - sum(1 for place in users if place > start)),
        ),
        fixed={
            place: Life(ttl=ttl, seconds=ttl.seconds, write=lives.short.write)
            for place, ttl in ttls.items()
        },
        hit=hit,
        reaches=reaches,
        now_s=now.timestamp(),
    )


def _predict(
    draft: Draft,
    policy: OpenAiMarkPolicy,
    prompt: Prompt,
    marks: Mapping[int, Ttl],
    now: datetime,
) -> Prediction:
    places = sorted(marks)
    if policy.switches.openai_key is OpenAiKey.REQUIRED and not draft.request.identity.cache_key:
        places = []
    return _split(
        draft,
        policy,
        prompt,
        {place: marks[place] for place in places[-policy.explicit_writes :]},
        {*places[: policy.lookup_first], *places[-policy.lookup_latest :]},
        now,
    )


def _split(
    draft: Draft,
    policy: OpenAiMarkPolicy,
    prompt: Prompt,
    written: Mapping[int, Ttl],
    looked_up: Iterable[int],
    now: datetime,
) -> Prediction:
    minimum = policy.minimum_tokens or 0
    hit = max((place for place in looked_up if prompt.readable[place]), default=None)
    lengths = [(prompt.tokens[place], ttl) for place, ttl in written.items()]
    split = split_at_marks(
        prompt.total,
        prompt.length(hit),
        [(n_tokens, ttl) for n_tokens, ttl in lengths if n_tokens >= minimum],
    )
    terms = draft.request.terms
    return predicted(policy, split, hit=blocks_read(prompt, hit), at=now, terms=terms)


def _in_implicit_mode(
    planned: CachePlan, draft: Draft, policy: OpenAiMarkPolicy, prompt: Prompt, now: datetime
) -> CachePlan | None:
    """Return the plan in implicit mode, where explicit mode cannot say the same.

    Implicit mode has a breakpoint of its own at the end of the last message. It is needed where
    that end takes no explicit one, and to read what was written at such an end before.
    """
    _, own = run_ends(draft)
    last = len(prompt.blocks) - 1
    if own is None or draft.n_volatile or last < 0 or prompt.total < (policy.minimum_tokens or 0):
        return None
    read = prompt.length(prompt.n_read)
    behind = takewhile(lambda place: prompt.tokens[place] > read, range(last, -1, -1))
    longer = any(prompt.readable[place] and not prompt.markable[place] for place in behind)
    cut = not prompt.markable[last] and prompt.blocks[last].n_tokens > 0
    if not (longer or cut) or not pays(own.reads, _lives(draft, policy, prompt, now)):
        return None
    implicit = replace(planned, openai=replace(planned.openai, mode="implicit"))
    applied = implicit.applied(draft.request)
    points = breakpoints(applied, policy, _unhashed(applied))
    if points is None or (cut and last not in points.written):
        return None
    prediction = _split(draft, policy, prompt, points.written, points.looked_up, now)
    if not cut and prediction.split.read <= read:
        return None
    return replace(implicit, predicted=prediction)


def _unhashed(request: CacheRequest) -> list[Boundary]:
    """Return the request's prefixes as far as breakpoints depend on them: without hashes."""
    found: list[Boundary] = []
    sections = [
        (Section.TOOLS, None, None, request.tools),
        (Section.SYSTEM, None, None, request.system),
        *(
            (Section.MESSAGES, number, message.role, message.blocks)
            for number, message in enumerate(request.messages)
        ),
    ]
    for section, number, role, blocks in sections:
        found += [
            Boundary(
                key=b"",
                content=b"",
                n_tokens=0,
                block=block,
                section=section,
                message=number,
                role=role,
            )
            for block in blocks
        ]
    return found
