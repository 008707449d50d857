"""What the planner's tests share: conversations, drafts of their requests, and serving of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from agentkit.caching.plan.draft import Draft, SharedBy, SharedPrefix, Written
from agentkit.caching.plan.keys import with_key
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.plan.planner import plan
from agentkit.caching.policy import BlockKind, Policy, Provider, Switches, Ttl, policy_for
from agentkit.caching.request import Block, CacheRequest, Identity, Mark, Message, Role
from agentkit.caching.simulate import (
    ManualClock,
    Refused,
    Served,
    SimulatedAnthropic,
    SimulatedCache,
    SimulatedDeepSeek,
    SimulatedGemini,
    SimulatedOpenAi,
)

DAY = date(2026, 11, 27)

CLAUDE = "claude-sonnet-5-5"
GPT = "gpt-6.1-sol"


def policy_of(provider: str, model: str, switches: Switches | None = None) -> Policy:
    return policy_for(provider, model, DAY, switches=switches)


def cache_for(
    provider: str, model: str, clock: ManualClock, switches: Switches | None = None
) -> SimulatedCache:
    match provider:
        case Provider.ANTHROPIC:
            return SimulatedAnthropic(clock=clock, switches=switches)
        case Provider.OPENAI:
            return SimulatedOpenAi(clock=clock, switches=switches, spills=False)
        case Provider.DEEPSEEK:
            return SimulatedDeepSeek(clock=clock, switches=switches, build_s=0)
        case Provider.GEMINI:
            return SimulatedGemini(clock=clock, switches=switches)
    raise AssertionError(provider, model)


def block(
    name: str, n_tokens: int = 1000, kind: BlockKind = BlockKind.TEXT, mark: Mark | None = None
) -> Block:
    return Block(kind=kind, digest=name.encode(), n_tokens=n_tokens, mark=mark)


def user(*blocks: Block) -> Message:
    return Message(Role.USER, blocks)


def assistant(*blocks: Block) -> Message:
    return Message(Role.ASSISTANT, blocks)


def request(
    messages: Sequence[Message],
    *,
    model: str = CLAUDE,
    tools: Sequence[Block] = (),
    system: Sequence[Block] = (),
) -> CacheRequest:
    return CacheRequest(
        identity=Identity(model=model),
        tools=tuple(tools),
        system=tuple(system),
        messages=tuple(messages),
    )


def draft_of(
    asked: CacheRequest,
    *,
    run: int | str | Decimal = "0.85",
    agent: int | str | Decimal = 2,
    organization: tuple[int, int] | None = None,
    n_volatile: int = 0,
    **more: Any,
) -> Draft:
    """A draft as adapters make it. `organization`: the end of its front, and its reads."""
    n_front = len(asked.tools) + len(asked.system)
    shared = []
    if organization is not None:
        end, reads = organization
        shared.append(SharedPrefix(end=end, by=SharedBy.ORGANIZATION, reads=Decimal(reads)))
    if n_front:
        shared.append(SharedPrefix(end=n_front, by=SharedBy.AGENT, reads=Decimal(agent)))
    end = n_front
    for message in asked.messages:
        if message.role is Role.ASSISTANT and end > n_front:
            shared.append(SharedPrefix(end=end, by=SharedBy.RUN, reads=Decimal(run)))
        end += len(message.blocks)
    shared.append(SharedPrefix(end=end - n_volatile, by=SharedBy.RUN, reads=Decimal(run)))
    return Draft(
        request=asked,
        shared=tuple(shared),
        n_volatile=n_volatile,
        **more,
    )


@dataclass(frozen=True, slots=True)
class Sent:
    plan: CachePlan
    served: Served


def send(
    cache: SimulatedCache, clock: ManualClock, draft: Draft, policy: Policy, *, knows: bool = True
) -> Sent:
    """Plan a request with what the cache holds, and serve it. It must not be refused."""
    draft = with_key(draft, policy, None, clock())
    written = cache.written(draft.request) if knows else Written()
    planned = plan(draft, policy, written, clock())
    served = cache.request(planned.applied(draft.request))
    assert not isinstance(served, Refused), served.message
    return Sent(planned, served)


KINDS = [
    BlockKind.TEXT,
    BlockKind.IMAGE,
    BlockKind.TOOL_USE,
    BlockKind.THINKING,
    BlockKind.SERVER_TOOL_RESULT,
]


@st.composite
def conversations(
    draw: st.DrawFn, *, model: str, kinds: Sequence[BlockKind] = KINDS, max_turns: int = 8
) -> list[CacheRequest]:
    """The requests of one run: each is the one before with an answer and what follows it."""
    sizes = st.sampled_from([0, 1, 40, 700, 1500, 6000])
    tools = [
        block(
            f"tool{i}",
            draw(sizes),
            draw(st.sampled_from([BlockKind.TOOL, BlockKind.DEFERRED_TOOL])),
        )
        for i in range(draw(st.integers(0, 3)))
    ]
    system = [block(f"system{i}", draw(sizes)) for i in range(draw(st.integers(0, 3)))]
    messages = [user(*[block(f"q{i}", draw(sizes)) for i in range(draw(st.integers(1, 3)))])]
    found = [request(messages, model=model, tools=tools, system=system)]
    for turn in range(draw(st.integers(0, max_turns - 1))):
        answer = [
            block(f"a{turn}.{i}", draw(sizes), draw(st.sampled_from(list(kinds))))
            for i in range(draw(st.integers(1, 4)))
        ]
        kind = draw(st.sampled_from([BlockKind.TOOL_RESULT, BlockKind.TEXT]))
        reply = [block(f"r{turn}.{i}", draw(sizes), kind) for i in range(draw(st.integers(1, 25)))]
        messages = [*messages, assistant(*answer), user(*reply)]
        found.append(request(messages, model=model, tools=tools, system=system))
    return found


def with_user_marks(asked: CacheRequest, places: Sequence[int], ttl: Ttl | None) -> CacheRequest:
    """Mark some blocks as a user would."""
    blocks = list(asked.blocks)
    for place in places:
        blocks[place] = replace(blocks[place], mark=Mark(ttl))
    return asked.with_blocks(blocks)


def with_tail(asked: CacheRequest, name: str, n_tokens: int = 50) -> CacheRequest:
    """Add volatile text at the end."""
    return replace(asked, messages=(*asked.messages, user(block(name, n_tokens))))
