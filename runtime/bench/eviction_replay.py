"""Recorded requests through the cache that the runtime uses, one slot for each block.

A request takes no time: it finds its prefix, gets room for the rest, and leaves all of it behind.
Hints are sent when a framework could send them: when an answer has come and says that a tool is
called, the session waits, for as long as the tools of this agent took so far (by the estimate that
agentkit makes); when the last answer of a session has come, it is done; and a session that may
start subagents says so with each of its turns. Nothing looks into the future.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentkit.models.waits import ToolWaits
from agentkit_runtime.errors import PinRefused
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.policy import EvictionPolicy, PolicyName
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import TOKEN_BYTES
from agentkit_runtime.kv.tree import RadixTree
from bench.eviction_traces import After, Request

_NAMESPACE = b"trace"
_HELPERS_WITHIN_S = 60.0
"""What agentkit says of subagents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the framework does for the cache."""

    waits: bool = False
    """Says that a session waits for its tools, and which subagents may follow."""
    done: bool = False
    """Says when a session is closed."""
    pins: bool = False
    """Pins the front of an agent's type, for some time after its last use."""
    pinned_s: float = 60.0


NO_ADVICE = Advice()
ALL_ADVICE = Advice(waits=True, done=True, pins=True)


@dataclass(slots=True)
class _Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(slots=True)
class Framework:
    """What a framework knows at each moment, and tells the cache."""

    cache: KvCache
    clock: _Clock
    advice: Advice
    waits: ToolWaits = field(default_factory=ToolWaits)
    newest: dict[str, Request] = field(default_factory=dict)
    users: dict[str, set[str]] = field(default_factory=dict)
    """Open sessions by type of agent."""

    def asked(self, request: Request) -> None:
        """A request is sent: learn how long the tools took that it waited for."""
        if request.session is None:
            return
        before = self.newest.get(request.session)
        if before is not None and before.after is After.TOOL:
            self.waits.took("", request.agent, max(0.0, request.at_s - before.until_s))
        self.newest[request.session] = request
        self.users.setdefault(request.agent, set()).add(request.session)
        if self.advice.waits and request.helpers:
            self._say(LikelyNext(request.helpers, _HELPERS_WITHIN_S))

    def served(self, request: Request) -> None:
        """The prompt is in the cache: pin its front once several sessions have it in common."""
        if self.advice.pins and request.front and len(self.users[request.agent]) > 1:
            front = request.blocks[: request.front].tobytes()
            if self.cache.peek(_NAMESPACE, front) == request.front:
                try:
                    self.cache.pin(_NAMESPACE, front, ttl_s=self.advice.pinned_s)
                except PinRefused:
                    return  # over the quota: it is cached like all else

    def answered(self, request: Request) -> None:
        """The answer is complete, and says what the session does now."""
        if request.session is None or self.newest[request.session] is not request:
            return  # it goes on already
        if request.after is After.CLOSED:
            self.users[request.agent].discard(request.session)
            if self.advice.done:
                self._say(SessionDone(request.session))
        elif request.after is After.TOOL and self.advice.waits:
            expected_s = self.waits.expected_s("", request.agent)
            self._say(SessionWaits(request.session, expected_s))

    def _say(self, hint: Hint) -> None:
        self.cache.hint(hint)


def replay(
    requests: Sequence[Request],
    n_blocks: int,
    policy: PolicyName | EvictionPolicy,
    advice: Advice = NO_ADVICE,
) -> float:
    """Share of all blocks of the prompts that were in a cache of `n_blocks` blocks."""
    clock = _Clock()
    cache = KvCache(SlotAllocator(n_blocks), RadixTree(policy=policy), eviction_step=1, clock=clock)
    framework = Framework(cache, clock, advice)
    answers: list[tuple[float, int]] = []
    found = wanted = 0
    for number, request in enumerate(requests):
        while answers and answers[0][0] <= request.at_s:
            clock.now_s, answered = heapq.heappop(answers)
            framework.answered(requests[answered])
        clock.now_s = request.at_s
        framework.asked(request)
        found += _serve(cache, request)
        wanted += len(request.blocks)
        framework.served(request)
        heapq.heappush(answers, (request.until_s, number))
    return found / wanted if wanted else 0.0


def _serve(cache: KvCache, request: Request) -> int:
    """Find a prompt, and leave as much of it in the cache as there is room for."""
    tokens = request.blocks.tobytes()
    tags = frozenset({request.agent}) if request.agent else frozenset()
    cache.tick()
    lease = cache.acquire(_NAMESPACE, tokens, scope=Scope(session=request.session, tags=tags))
    n_kept = min(len(request.blocks), lease.capacity + cache.available)
    cache.grow(lease, n_kept)
    cache.commit(lease, tokens[: n_kept * TOKEN_BYTES])
    cache.release(lease)
    return lease.cached
