"""GPT-5.6 and later: what a request writes, and which boundaries it looks up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from agentkit.caching.chain import Boundary, Prefixes
from agentkit.caching.policy import (
    BlockKind,
    OpenAiKey,
    OpenAiMarkPolicy,
    Section,
    Ttl,
    TwelveHours,
)
from agentkit.caching.request import CacheRequest, Role
from agentkit.caching.simulate.billing import split_at_marks
from agentkit.caching.simulate.cache import Plan, known_minimum
from agentkit.caching.simulate.diagnose import find_miss
from agentkit.caching.simulate.served import RefusalReason, Refused
from agentkit.caching.simulate.store import Store, Write


def plan_marks(
    request: CacheRequest,
    policy: OpenAiMarkPolicy,
    prefixes: Prefixes,
    store: Store,
    now: datetime,
) -> Plan | Refused:
    """Decide what a request reads and writes."""
    refused = _refuse(request, policy)
    if refused is not None:
        return refused
    minimum = known_minimum(policy)
    points = breakpoints(request, policy, prefixes)
    asks = points is not None
    written = {} if points is None else points.written
    written = {i: ttl for i, ttl in written.items() if prefixes[i].n_tokens >= minimum}
    now_s = now.timestamp()
    hits = [
        index
        for index in (() if points is None else points.looked_up)
        if prefixes[index].n_tokens >= minimum and store.is_readable(prefixes[index].key, now_s)
    ]
    hit = max(hits, default=None)
    hit_tokens = 0 if hit is None else prefixes[hit].n_tokens
    return Plan(
        request=request,
        policy=policy,
        at=now,
        prefixes=prefixes,
        split=split_at_marks(
            prefixes[-1].n_tokens if prefixes else 0,
            hit_tokens,
            [(prefixes[index].n_tokens, ttl) for index, ttl in written.items()],
        ),
        miss=find_miss(
            prefixes,
            hit_tokens=hit_tokens,
            store=store,
            now_s=now_s,
            asks=asks,
            minimum=minimum,
        ),
        # Not documented which entries a reuse refreshes: the one read, and those named again.
        touched=()
        if hit is None
        else tuple(prefixes[index].key for index in {hit, *(i for i in written if i < hit)}),
        writes=tuple(
            Write(key=prefixes[index].key, ttl_s=ttl.seconds)
            for index, ttl in written.items()
            if hit is None or index > hit
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakpoints:
    """What a request writes, whatever its length, and what it looks up, by block."""

    written: Mapping[int, Ttl]
    looked_up: Set[int]


def breakpoints(
    request: CacheRequest, policy: OpenAiMarkPolicy, prefixes: Sequence[Boundary]
) -> Breakpoints | None:
    """Return the breakpoints of a request; None if it asks for no caching."""
    explicit = _explicit(request, policy, prefixes)
    endings = _endings(prefixes) if request.openai.mode == "implicit" else []
    written = _written(request, policy, explicit, endings)
    key_is_missing = (
        policy.switches.openai_key is OpenAiKey.REQUIRED and request.identity.cache_key is None
    )
    if not written or key_is_missing:
        return None
    return Breakpoints(written=written, looked_up=_candidates(policy, prefixes, explicit, endings))


def _explicit(
    request: CacheRequest, policy: OpenAiMarkPolicy, prefixes: Sequence[Boundary]
) -> dict[int, Ttl]:
    """The explicit breakpoints, in order: index and lifetime."""
    default = request.openai.ttl or policy.default_ttl
    return {
        place: block.mark.ttl or default
        for place, block in request.marked_places
        if block.mark is not None and not is_ignored(request, prefixes[place].role)
    }


def _endings(prefixes: Sequence[Boundary]) -> list[int]:
    """Ends of eligible messages, in order.

    Eligible are user messages, the last of consecutive tool results, and the last developer
    message of the block that begins the input.
    """
    found: list[int] = []
    system = [i for i, prefix in enumerate(prefixes) if prefix.section is Section.SYSTEM]
    if system and prefixes[system[-1]].block.kind is not BlockKind.INSTRUCTIONS:
        found.append(system[-1])
    for index, prefix in enumerate(prefixes):
        following = prefixes[index + 1] if index + 1 < len(prefixes) else None
        ends = following is None or following.message != prefix.message
        if prefix.message is None or not ends:
            continue
        is_tool = _is_tool(prefix)
        if is_tool and following is not None and _is_tool(following):
            continue
        if is_tool or prefix.role is Role.USER:
            found.append(index)
    return found


def _written(
    request: CacheRequest,
    policy: OpenAiMarkPolicy,
    explicit: dict[int, Ttl],
    endings: Sequence[int],
) -> dict[int, Ttl]:
    """What is written: the latest breakpoints within the cap; the rest is dropped silently."""
    if request.openai.mode == "explicit":
        return dict(list(explicit.items())[-policy.explicit_writes :])
    implicit = {endings[-1]: request.openai.ttl or policy.default_ttl} if endings else {}
    return implicit | dict(list(explicit.items())[-policy.implicit_explicit_writes :])


def _candidates(
    policy: OpenAiMarkPolicy,
    prefixes: Sequence[Boundary],
    explicit: dict[int, Ttl],
    endings: Sequence[int],
) -> set[int]:
    """The boundaries that are looked up."""
    marked = list(explicit)
    found = set(marked[: policy.lookup_first]) | set(marked[-policy.lookup_latest :])
    if endings:
        found.add(endings[-1])
    if policy.lookup_endings:
        earlier = [i for i in endings[:-1] if prefixes[i].section is Section.MESSAGES]
        found |= set(earlier[-policy.lookup_endings :])
        # The end of the developer block counts beside them, so a long thread does not lose it.
        found |= {i for i in endings[:1] if prefixes[i].section is Section.SYSTEM}
    return found


def _refuse(request: CacheRequest, policy: OpenAiMarkPolicy) -> Refused | None:
    allowed = allowed_ttls(request, policy)
    wanted = [request.openai.ttl] if request.openai.ttl is not None else []
    for block in request.tools + request.system:
        if block.mark is not None and block.kind not in policy.markable:
            return _unmarkable(block.kind.value)
    for message in (request.messages[number] for number in request.messages.marked):
        for block in message.blocks:
            if block.mark is None or is_ignored(request, message.role):
                continue
            if block.kind not in policy.markable or message.role is Role.ASSISTANT:
                return _unmarkable(f"{message.role.value} {block.kind.value}")
    wanted += [
        block.mark.ttl for block in request.marked if block.mark and block.mark.ttl is not None
    ]
    for ttl in wanted:
        if ttl not in allowed:
            return Refused(
                reason=RefusalReason.UNKNOWN_TTL,
                message=f"ttl {ttl.value!r} is not accepted by the {request.openai.api} API; it "
                f"takes {[ttl.value for ttl in allowed]!r}",
            )
    return None


def allowed_ttls(request: CacheRequest, policy: OpenAiMarkPolicy) -> list[Ttl]:
    """Return the lifetimes that the request's API takes."""
    twelve = policy.switches.openai_twelve_hours
    long = twelve is TwelveHours.EVERYWHERE or (
        twelve is TwelveHours.RESPONSES_ONLY and request.openai.api == "responses"
    )
    return [choice.ttl for choice in policy.ttls if long or choice.ttl is not Ttl.TWELVE_HOURS]


def is_ignored(request: CacheRequest, role: Role | None) -> bool:
    """Return whether breakpoints on a message of this role do nothing."""
    # measured: on Chat, breakpoints on assistant parts do nothing
    return request.openai.api == "chat" and role is Role.ASSISTANT


def _is_tool(prefix: Boundary) -> bool:
    return prefix.role is Role.TOOL or prefix.block.kind is BlockKind.TOOL_RESULT


def _unmarkable(what: str) -> Refused:
    return Refused(
        reason=RefusalReason.UNMARKABLE,
        message=f"prompt_cache_breakpoint on {what!r} is not accepted; put reusable text into a "
        "developer message and mark that",
    )
