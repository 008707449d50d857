"""Recorded sessions of coding agents, planned by agentkit and served by simulated caches.

One session a line: {id, tool_tokens, system_tokens, requests[{t, type, in, out, same_prefix_blocks,
then}]}, blocks of 64 tokens; a request's blocks are the first `same_prefix_blocks` of the request
before it in the same branch, and `then`. Sub-agents are nested requests of their own.
A recording goes straight to the planner and the simulator: its texts are not known, only which
blocks are equal.
"""

from __future__ import annotations

import heapq
import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentkit.blocks import UserMessage
from agentkit.caching.options import CacheOptions
from agentkit.caching.plan.draft import SharedBy, SharedPrefix
from agentkit.caching.plan.expect import expected_reads
from agentkit.caching.policy import BlockKind, Policy, Provider
from agentkit.caching.request import Block, CacheRequest, Identity, Message, Messages, Role
from agentkit.caching.simulate import Served
from agentkit.caching.simulate.cache import SimulatedCache
from agentkit.caching.simulate.oracle import Use, least_cost
from agentkit.caching.times import VirtualTime
from agentkit.caching.track.shadow import PolicyBook, shadow_of
from agentkit.caching.track.tracker import CacheTracker
from agentkit.context import Context
from agentkit.models import ModelRequest
from agentkit.models.hosted.wire import Layout, WireBlock
from agentkit.toolset import Toolset
from agentkit.usage import Usage

BLOCK_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request of a session."""

    at_s: float
    branch: str
    """The main conversation, or a sub-agent."""
    agent: str
    blocks: tuple[int, ...]
    ends: tuple[int, ...]
    """How many blocks each earlier request of the branch had that this one extends, and its own."""
    n_tools: int
    n_system: int
    seconds: float
    out: int


def read_sessions(path: Path, *, n_sessions: int) -> Iterator[list[Recorded]]:
    """Yield the first sessions of a file, each request in the order of its time."""
    with lzma.open(path, "rt") as lines:
        for number, line in enumerate(lines):
            if number == n_sessions:
                return
            session = json.loads(line)
            found = [*_branch(session, "main", "main", 0.0)]
            yield sorted(found, key=lambda each: each.at_s)


def _branch(owner: dict[str, Any], branch: str, agent: str, start_s: float) -> Iterator[Recorded]:
    n_tools = owner["tool_tokens"] // BLOCK_TOKENS
    n_system = owner["system_tokens"] // BLOCK_TOKENS
    blocks: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    for request in owner["requests"]:
        at_s = start_s + float(request["t"])
        if request["type"] == "subagent":
            name = f"{branch}/{request['agent_id']}"
            yield from _branch(request, name, str(request["subagent_type"]), at_s)
            continue
        n_same = request["same_prefix_blocks"]
        blocks = blocks[:n_same] + tuple(request["then"])
        ends = (*(end for end in ends if end <= n_same), len(blocks))
        yield Recorded(
            at_s=at_s,
            branch=branch,
            agent=agent,
            blocks=blocks,
            ends=ends,
            n_tools=n_tools,
            n_system=n_system,
            seconds=float(request.get("api_time") or 5.0),
            out=int(request["out"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a session's input cost, in USD."""

    paid: Decimal
    ideal: Decimal
    uncached: Decimal
    requests: int


async def replay(session: Sequence[Recorded], provider: Provider, model: str) -> Bill:
    """Plan a session and serve it."""
    time = VirtualTime()
    # A recording has no program that could ping while its user thinks.
    options = CacheOptions(keep_alive_usd=Decimal(0))
    policies = PolicyBook(provider, model, platform=options.platform, switches=options.switches)
    cache = shadow_of(policies, clock=time.now)
    tracker = CacheTracker(
        provider=provider, model=model, label="bench", options=options, time=time
    )
    run = _Replay(time, tracker, cache, model)
    paid = await run.all(session)
    policy = policies.on(time.now().date())
    return Bill(
        paid=paid,
        ideal=least_cost(run.uses, policy),
        uncached=sum((_uncached(use, policy) for use in run.uses), Decimal(0)),
        requests=len(run.uses),
    )


class _Replay:
    """One session, request by request, as they overlapped."""

    def __init__(
        self,
        time: VirtualTime,
        tracker: CacheTracker,
        cache: SimulatedCache,
        model: str,
    ) -> None:
        self._time = time
        self._start = time.now()
        self._tracker = tracker
        self._cache = cache
        self._model = model
        self.uses: list[Use] = []

    async def all(self, session: Sequence[Recorded]) -> Decimal:
        """Serve all requests; ends come between starts where they did so."""
        paid = Decimal(0)
        open_ends: list[tuple[float, int, Any]] = []
        for number, recorded in enumerate(session):
            while open_ends and open_ends[0][0] <= recorded.at_s:
                self._end(heapq.heappop(open_ends)[2])
            self._go_to(recorded.at_s)
            layout = _layout(recorded, self._model)
            ticket = await self._tracker.enter(layout, _request(recorded, number))
            request = ticket.plan.applied(layout.cache_request)
            self.uses.append(Use(at=self._time.now(), request=request))
            flight = self._cache.begin(request)
            served = getattr(flight, "served", None)
            assert isinstance(served, Served), f"refused: {flight}"
            assert served.cost is not None
            paid += served.cost.total
            flight.response_began()  # type: ignore[union-attr]
            ticket.response_began()
            heapq.heappush(
                open_ends, (recorded.at_s + recorded.seconds, number, (flight, ticket, recorded))
            )
        for _, _, ending in sorted(open_ends, key=lambda each: each[:2]):
            self._end(ending)
        return paid

    def _end(self, ending: Any) -> None:
        flight, ticket, recorded = ending
        self._go_to(recorded.at_s + recorded.seconds)
        served = flight.end(output_tokens=recorded.out)
        split = served.split
        ticket.finish(
            Usage(
                input_tokens=split.total,
                cache_read_tokens=split.read,
                cache_write_tokens=split.written,
                output_tokens=recorded.out,
            )
        )

    def _go_to(self, at_s: float) -> None:
        self._time.jump(max(self._time.now(), self._start + timedelta(seconds=at_s)))


def _uncached(use: Use, policy: Policy) -> Decimal:
    n_tokens = sum(block.n_tokens for block in use.request.blocks)
    rates = None if policy.prices is None else policy.prices.rates_for(n_tokens, use.at)
    assert rates is not None, "the models of the benchmark have prices"
    return n_tokens * rates.input / 1_000_000


def _layout(recorded: Recorded, model: str) -> Layout:
    """One block for each stretch between two ends: nothing parts inside of one."""
    n_front = recorded.n_tools + recorded.n_system
    blocks = recorded.blocks
    n_front = min(n_front, len(blocks))
    front = [_block(blocks[: recorded.n_tools], BlockKind.TOOL)] if recorded.n_tools else []
    system = [_block(blocks[recorded.n_tools : n_front], BlockKind.TEXT)]
    cuts = sorted({end for end in recorded.ends if end > n_front} | {len(blocks)})
    messages, before = [], n_front
    for cut in cuts:
        if cut > before:
            messages.append(Message(Role.USER, (_block(blocks[before:cut], BlockKind.TEXT),)))
            before = cut
    request = CacheRequest(
        identity=Identity(model=model),
        tools=tuple(front),
        system=tuple(system),
        messages=Messages(messages),
    )
    n_fronts = len(front) + len(system)
    reuse = _request(recorded, 0).reuse
    shared = [
        SharedPrefix(end=n_fronts, by=SharedBy.AGENT, reads=expected_reads(SharedBy.AGENT, reuse))
    ]
    shared += [
        SharedPrefix(
            end=n_fronts + number + 1, by=SharedBy.RUN, reads=expected_reads(SharedBy.RUN, reuse)
        )
        for number in range(len(messages))
    ]
    wire = tuple(WireBlock(block=block, data=b"", segment=None) for block in request.blocks)
    return Layout(blocks=wire, cache_request=request, shared=tuple(shared))


def _block(ids: Sequence[int], kind: BlockKind) -> Block:
    data = b",".join(str(each).encode() for each in ids)
    return Block(kind=kind, digest=data, n_tokens=BLOCK_TOKENS * len(ids))


def _request(recorded: Recorded, number: int) -> ModelRequest:
    return ModelRequest(
        context=Context(UserMessage.of("recorded")),
        toolset=Toolset(),
        agent=recorded.agent,
        run_id=recorded.branch,
        request_id=f"{recorded.branch}-{number}",
    )
