"""OpenAI-compatible servers: they cache by themselves, and take hints of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from agentkit.caching.plan.draft import Draft, Written
from agentkit.caching.plan.keys import KEY_FIELD, session_key, tenant_salt
from agentkit.caching.plan.lives import Life, Lives, lives_of
from agentkit.caching.plan.marks import Room
from agentkit.caching.plan.needs import needs_of
from agentkit.caching.plan.notes import front_notes
from agentkit.caching.plan.placing import MarkRules, Placed, place_marks, placed_marks
from agentkit.caching.plan.plan import CachePlan, Hints
from agentkit.caching.plan.predict import common_read, predicted, whole_blocks_within
from agentkit.caching.plan.prompt import (
    Prompt,
    front_is_readable,
    prompt_of,
    run_ends,
)
from agentkit.caching.plan.users import MarkLimits, UserMarks, no_marks, user_marks
from agentkit.caching.policy import (
    BlockKind,
    CompatiblePolicy,
    InputSplit,
    ReadableWhen,
    Salt,
    Ttl,
)
from agentkit.caching.request import Block, OpenAiOptions, Role
from agentkit.caching.simulate.compatible import whole_blocks
from agentkit.errors import ConfigurationError

_IDLE_S = 300.0
"""Where a policy has no lifetime for marked entries: the shortest that any provider gives."""
_MARKABLE = frozenset([BlockKind.TEXT, BlockKind.IMAGE, BlockKind.DOCUMENT, BlockKind.TOOL_RESULT])
"""Parts of message contents: what gateways pass `cache_control` on for."""
_DEFAULT_TTL = Ttl.FIVE_MINUTES
"""Of a mark that names none: that of every provider behind a gateway."""
_LOOKBACK = 20
"""Blocks before a mark that are looked at: Anthropic's, and Alibaba's page of 2026-10-11."""


def plan_compatible(
    draft: Draft, policy: CompatiblePolicy, written: Written, now: datetime
) -> CachePlan:
    """Choose hints, and marks where they are passed on.

    Raises:
        ConfigurationError: no salt fits what the server takes.
    """
    draft = replace(draft, keep_alive=False)  # there is no request that answers nothing
    minimum = policy.minimum_tokens or 0
    prompt = prompt_of(draft, written, now_s=now.timestamp(), minimum=minimum, can_mark=_takes_mark)
    lives = lives_of(
        policy,
        policy.ttls,
        tokens=prompt.total,
        at=now,
        terms=draft.request.terms,
        idle_s=policy.idle_s or _IDLE_S,
    )
    found = _user_marks(draft, policy, prompt)
    users = found.marks
    fixed = {
        place: Life(
            ttl=mark.ttl,
            seconds=lives.short.seconds if mark.ttl is None else mark.ttl.seconds,
            write=lives.short.write,
        )
        for place, mark in users.items()
    }
    placed = _place(draft, policy, prompt, lives, fixed, now)
    _, common = common_read(prompt)
    read = whole_blocks(common, prompt.total, policy)
    split = InputSplit(read=read, uncached=prompt.total - read)
    shares_work = policy.readable is ReadableWhen.COMPUTED
    warm = shares_work or front_is_readable(draft, prompt, minimum)
    return CachePlan(
        marks=placed_marks(prompt, users, placed.marks, lives.short.ttl),
        cache_key=draft.request.identity.cache_key,
        openai=_options(draft, lives, policy, total=prompt.total, read=read),
        hints=hints_of(draft, policy),
        mask=draft.mask,
        siblings_ahead=0 if warm else 1,
        predicted=predicted(
            policy,
            split,
            hit=whole_blocks_within(prompt, read),
            at=now,
            terms=draft.request.terms,
        ),
        notes=front_notes(draft, policy, prompt),
        lost_marks=found.lost,
    )


def hints_of(draft: Draft, policy: CompatiblePolicy) -> Hints:
    """Return what the server is told: whose caches, which conversation, how urgent.

    Raises:
        ConfigurationError: no salt fits what the server takes.
    """
    body: dict[str, str | int] = {}
    headers: dict[str, str] = {}
    salt = tenant_salt(draft)
    if policy.salt is not None and salt is not None:
        body[policy.salt.field] = _checked(salt, policy.salt)
    if policy.affinity is not None:
        name = session_key(draft, policy)
        fields = [each for each in policy.affinity.body_fields if each != KEY_FIELD]
        # A header passes servers and proxies that refuse fields they do not know.
        if policy.affinity.headers:
            headers = dict.fromkeys(policy.affinity.headers, name)
        else:
            body |= dict.fromkeys(fields, name)
    if policy.priority_sign is not None and draft.priority:
        lower_first = policy.priority_sign == "lower_first"
        body["priority"] = -draft.priority if lower_first else draft.priority
    return Hints(body=body, headers=headers)


def _checked(salt: str, rule: Salt) -> str:
    if rule.max_chars is not None and len(salt) > rule.max_chars:
        raise ConfigurationError(
            f"{rule.field} may have {rule.max_chars} characters, ours has {len(salt)}; raise "
            "vllm_salt_max_chars in Switches to what the server takes"
        )
    wrong = sorted(set(salt) & set(rule.forbidden))
    if wrong:
        raise ConfigurationError(f"{rule.field} may not contain {wrong!r}, got {salt!r}")
    return salt


def _user_marks(draft: Draft, policy: CompatiblePolicy, prompt: Prompt) -> UserMarks:
    if not policy.mark_budget:
        return UserMarks(
            marks={}, lost=no_marks(draft, f"{policy.provider.value} passes on no cache marks")
        )
    limits = MarkLimits(
        name="cache_control",
        budget=policy.mark_budget,
        ttls=[choice.ttl for choice in policy.ttls],
        default=_DEFAULT_TTL,
        # The providers behind a gateway have the rule of Anthropic's API.
        longer_first=True,
    )
    return user_marks(draft, prompt, limits)


def _takes_mark(block: Block, _: Role | None) -> bool:
    return block.kind in _MARKABLE and block.n_tokens > 0


def _place(
    draft: Draft,
    policy: CompatiblePolicy,
    prompt: Prompt,
    lives: Lives,
    fixed: dict[int, Life],
    now: datetime,
) -> Placed:
    if not policy.mark_budget:
        return Placed(marks={}, keep_alive=False)

    def reaches(marks: Iterable[int], place: int) -> bool:
        return any(0 <= mark - place < _LOOKBACK for mark in marks)

    n_free = policy.mark_budget - len(fixed)
    rules = MarkRules(
        lives=lives,
        room=Room(total=n_free, writing=n_free),
        fixed=fixed,
        hit=prompt.n_read,
        reaches=reaches,
        now_s=now.timestamp(),
    )
    placed = place_marks(draft, prompt, needs_of(draft, prompt, lives), rules)
    return replace(placed, marks=_in_order(placed.marks, fixed))


def _in_order(ours: Mapping[int, Life], users: Mapping[int, Life]) -> dict[int, Life]:
    """Give marks of ours that stand before a longer one of the user's that lifetime, too.

    Also where the planner has no lifetimes to choose from: the user may know one.
    """
    found: dict[int, Life] = {}
    for place, life in ours.items():
        behind = [each.ttl for at, each in users.items() if at > place and each.ttl is not None]
        longest = max(behind, key=lambda ttl: ttl.seconds, default=_DEFAULT_TTL)
        is_longer = longest.seconds > (life.ttl or _DEFAULT_TTL).seconds
        found[place] = replace(life, ttl=longest, seconds=longest.seconds) if is_longer else life
    return found


def _options(
    draft: Draft, lives: Lives, policy: CompatiblePolicy, *, total: int, read: int
) -> OpenAiOptions:
    """Return the options, with the lifetime where one is chosen for the whole request.

    The longer one is paid for what is written now. It pays if that premium is less than what a
    slow gap is expected to lose, which is the whole prefix.
    """
    options = draft.request.openai
    if policy.mark_budget or not lives.differ or options.ttl is not None:
        return options
    _, own = run_ends(draft)
    if own is None or draft.slow_gap_s >= lives.long.seconds:
        return options
    slow = draft.slow_chance if draft.gap_s < lives.short.seconds else Decimal(1)
    lost = slow * min(own.reads, Decimal(1)) * (lives.short.write - lives.read) * total
    premium = (lives.long.write - lives.short.write) * (total - read)
    return replace(options, ttl=lives.long.ttl if lost > premium else None)
