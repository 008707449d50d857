"""One planned request: from the moment it is sent to its verdict, and the pings after it."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from agentkit.caching.difference import Sent
from agentkit.caching.iterations import ModelUsage
from agentkit.caching.judge import judge, remembered
from agentkit.caching.plan.draft import Draft, SharedBy
from agentkit.caching.plan.ends import RunEnds
from agentkit.caching.plan.keep_alive import NextPing, next_ping
from agentkit.caching.plan.needs import PING_MARGIN_S
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import AnthropicPolicy, InputSplit, OpenAiMarkPolicy, Policy
from agentkit.caching.prices import PriceBook
from agentkit.caching.recent import Recent
from agentkit.caching.simulate.cache import InFlight, Known, SimulatedCache
from agentkit.caching.simulate.served import Refused
from agentkit.caching.times import Time
from agentkit.caching.track.flights import Flight, Flights
from agentkit.caching.track.implicit import ImplicitShare
from agentkit.caching.track.scale import Counted, Sized, TokenScale
from agentkit.caching.verdict import Verdict
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.wire import Layout
from agentkit.usage import Usage

RUNS_KEPT = 256
"""Runs of which is remembered what they sent last, to compare the next request with."""


P = ParamSpec("P")
T = TypeVar("T")


class Front(NamedTuple):
    """The front of a request that was sent."""

    sent: Sent
    n_blocks: int
    epoch: int

    @property
    def alone(self) -> Sent:
        """What was sent, as if a cache kept nothing of it but the front."""
        return replace(self.sent, n_cached=self.n_blocks, cached_tokens=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What all requests of a model learn from and add to."""

    shadow: SimulatedCache
    scale: TokenScale
    flights: Flights
    prices: PriceBook
    time: Time
    implicit: ImplicitShare = field(default_factory=ImplicitShare)
    ends: RunEnds = field(default_factory=RunEnds)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held for each step: several event loops may share a model."""
    fronts: Recent[str, Front] = field(default_factory=lambda: Recent(RUNS_KEPT))
    """By agent and key: what its last request shares with all its runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request that is planned and not sent."""

    layout: Layout
    request: ModelRequest
    sized: Sized
    draft: Draft
    known: Known
    """What the shadow cache said of it."""
    policy: Policy
    plan: CachePlan
    at: datetime
    overloaded: bool
    """Whether its cache key is used more often than one machine takes."""

    def tokens(self, n_blocks: int) -> int:
        """Return the estimated tokens of the first blocks."""
        return self.draft.request.tokens(n_blocks)


def _locked(step: Callable[Concatenate[Ticket, P], T]) -> Callable[Concatenate[Ticket, P], T]:
    """Let a step of a ticket hold its model's lock."""

    @functools.wraps(step)
    def locked(ticket: Ticket, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with ticket.memory.lock:
            return step(ticket, *args, **kwargs)

    return locked


class Ticket:
    """A request at the provider."""

    def __init__(
        self, memory: Memory, prepared: Prepared, before: Ticket | None, *, cap_usd: Decimal
    ) -> None:
        """`before`: the answered request that it goes on from."""
        self.memory = memory
        """What it learns from and adds to."""
        # What it goes on from is needed until it is answered; kept longer, whole runs would be.
        self._before = before
        self._prepared = prepared
        self._cap_usd = cap_usd
        self._sent = Sent.of(
            prepared.layout,
            prepared.request,
            prepared.policy,
            cache_request=prepared.draft.request,
            keyed_by=prepared.known.settings,
        )
        self._split: InputSplit | None = None
        self._total: int | None = None
        self._spent_usd = Decimal(0)
        self._used_at = prepared.at
        self._still_writing = _is_coming(prepared)
        # As it is now: until this request is answered, others may have sent the front again.
        self._front = memory.fronts.get(self._front_name) if before is None else None
        self._is_over = False
        self.is_answered = False
        """Whether its answer came to its end."""
        self._shadow = _shadow_flight(memory.shadow, prepared)
        self._flight = Flight(
            keys=prepared.known.keys, writes=_writes(prepared), loop=asyncio.get_running_loop()
        )
        memory.flights.start(self._flight)

    @property
    def plan(self) -> CachePlan:
        """What was planned."""
        return self._prepared.plan

    @property
    def request_id(self) -> str:
        """The name of the request."""
        return self._prepared.request.request_id

    @property
    def at(self) -> datetime:
        """When it was sent."""
        return self._prepared.at

    @property
    def run_id(self) -> str:
        """The run that it is of."""
        return self._prepared.request.run_id

    @property
    def answered(self) -> Ticket | None:
        """This request if it was answered, else the one that it went on from."""
        return self if self.is_answered else self._before

    @property
    def layout(self) -> Layout:
        """Its pieces."""
        return self._prepared.layout

    @property
    def request(self) -> ModelRequest:
        """What was asked."""
        return self._prepared.request

    @property
    def counted(self) -> Counted | None:
        """The prompt with the provider's own count; None if not said, or with volatile text."""
        if self._total is None or self._sent.n_volatile:
            return None
        layout = self._prepared.layout
        return Counted(
            n_blocks=len(layout.blocks),
            estimated=self._estimated,
            actual=self._total,
            sized=self._prepared.sized,
        )

    @property
    def sent(self) -> Sent:
        """What was sent, with what the cache keeps of it once it is answered."""
        return self._sent

    @_locked
    def response_began(self) -> None:
        """The first of its answer came. Idempotent."""
        if self._flight.begun.is_set():
            return
        if self._shadow is not None:
            self._shadow.response_began()
        self.memory.flights.begin(self._flight)

    @_locked
    def finish(
        self, usage: Usage, *, note: str | None = None, parts: Sequence[ModelUsage] = ()
    ) -> Verdict:
        """The answer is complete. Learns from its usage, and says what it cost and why.

        `parts` are what else the provider did within the request: see `UsageEvent`.
        """
        self.response_began()
        if self._shadow is not None:
            self._shadow.close()
        self._is_over = self.is_answered = True
        verdict = self._judged(usage, note, parts)
        self._before = None
        self._split = verdict.actual
        self._total = usage.input_tokens
        self._learn(usage)
        policy = self._prepared.policy
        self._sent = remembered(
            self._sent, plan=self.plan, policy=policy, actual=verdict.actual, at=self.at
        )
        self._remember_front()
        return verdict

    @_locked
    def abandon(self, *, outage: bool = False) -> None:
        """It failed or was cancelled; nothing after `finish`.

        `outage`: the provider failed, so that siblings which waited for it had better not wait for
        the next one.
        """
        if self._is_over:
            return
        self._is_over = True
        self._flight.failed = outage
        if self._shadow is not None:
            self._shadow.abort()
        self.memory.flights.begin(self._flight)

    @property
    def quiet_s(self) -> float:
        """Seconds in which no ping can be due: what the request used lives longer than that."""
        if self._sent.life_s is None:
            return 0.0
        passed_s = (self.memory.time.now() - self.at).total_seconds()
        return max(0.0, self._sent.life_s - PING_MARGIN_S - passed_s)

    @_locked
    def next_ping_s(self) -> float | None:
        """Return in how many seconds the prefix must be touched to live on; None: let it go."""
        if not self.plan.keep_alive:  # something cheaper holds it, or nothing can
            return None
        request = self._prepared.draft.request
        entries = self.memory.shadow.written(request).entries
        alive = ((at, entry) for at in range(len(entries) - 1, -1, -1) if (entry := entries[at]))
        last, entry = next(alive, (None, None))
        if last is None or entry is None:
            return None
        now = self.memory.time.now()
        tokens = self._prepared.tokens(last + 1)
        price = self.memory.prices.price(
            self._prepared.policy, tokens, now, request.terms, model=request.identity.model
        )
        step = next_ping(
            entry,
            tokens=tokens,
            rates=None if price is None else price.rates,
            now=now,
            spent=self._spent_usd,
            cap=self._cap_usd,
        )
        return (step.at - now).total_seconds() if isinstance(step, NextPing) else None

    @_locked
    def pinged(self, usage: Usage, *, at: datetime) -> Verdict:
        """The prefix was touched, by a request that was begun at `at`."""
        self._used_at = at
        self.memory.ends.touched(self._prepared.request.agent, self.request_id, at=at)
        request = replace(
            self.plan.applied(self._prepared.draft.request), prewarm=True, stream=False
        )
        flight = self.memory.shadow.begin(request)
        if not isinstance(flight, Refused):
            flight.close()
        verdict = judge(
            plan=self.plan,
            policy=self._prepared.policy,
            usage=usage,
            at=at,
            now=self._sent,
            terms=self._prepared.draft.request.terms,
            prices=self.memory.prices,
            model=self._prepared.draft.request.identity.model,
            keeps_alive=True,
        )
        if verdict.cost is not None:
            self._spent_usd += verdict.cost.total
        return verdict

    def _judged(self, usage: Usage, note: str | None, parts: Sequence[ModelUsage]) -> Verdict:
        prepared, before = self._prepared, self._before
        request = prepared.request
        front = self._front
        began = front if before is None else before
        epoch = None if began is None else began.epoch
        return judge(
            plan=self.plan,
            policy=prepared.policy,
            usage=usage,
            at=prepared.at,
            now=self._sent,
            before=before.sent if before is not None else None if front is None else front.alone,
            gap_s=None if before is None else (prepared.at - before.used_at).total_seconds(),
            terms=prepared.draft.request.terms,
            epoch_changed=epoch not in (None, request.epoch),
            note=note,
            key_overloaded=prepared.overloaded,
            still_writing=self._still_writing,
            parts=parts,
            prices=self.memory.prices,
            model=prepared.draft.request.identity.model,
        )

    @property
    def used_at(self) -> datetime:
        """When its prefix was sent or touched last."""
        return self._used_at

    @property
    def epoch(self) -> int:
        """The epoch of its context."""
        return self._prepared.request.epoch

    @property
    def _estimated(self) -> int:
        return self._prepared.layout.cache_request.tokens()

    @property
    def _front_name(self) -> str:
        # Tenants, and sessions that were spread over several keys, share no entries. The key itself
        # follows from the front's bytes: it must not hide that they have changed.
        request, plan = self._prepared.request, self.plan
        shard = (plan.cache_key or "").removeprefix(plan.key_base or "")
        return "\n".join((request.tenant, _agent_of(request), shard))

    def _remember_front(self) -> None:
        ends = [each.end for each in self._prepared.layout.shared if each.by is not SharedBy.RUN]
        if ends and ends[-1] <= self._sent.n_cached:
            self.memory.fronts[self._front_name] = Front(self._sent, ends[-1], self.epoch)

    def _learn(self, usage: Usage) -> None:
        layout = self._prepared.layout
        if usage.input_tokens is not None:
            self.memory.scale.learn(
                Counted(
                    n_blocks=len(layout.blocks),
                    estimated=self._estimated,
                    actual=usage.input_tokens,
                )
            )
        if self._split is None or not self._split.total:
            return
        predicted = self.plan.predicted.split
        if self.plan.cached_front is None:
            self.memory.implicit.learn(
                predicted=predicted.read * self._split.total // max(1, predicted.total),
                actual=self._split.read,
            )
        self._correct_shadow(self._split)

    def _correct_shadow(self, actual: InputSplit) -> None:
        """Take in where the provider read less or more than its rules had let expect."""
        prepared = self._prepared
        predicted = self.plan.predicted.split
        read = actual.read * predicted.total // actual.total
        if abs(read - predicted.read) <= max(_SLACK_TOKENS, predicted.read // 10):
            return
        request = self.plan.applied(prepared.draft.request)
        n_read = request.blocks_within(read + _SLACK_TOKENS)
        if read > predicted.read:
            if n_read:
                self.memory.shadow.known(request, n_read - 1, None)
            return
        self.memory.shadow.drop(request, n_read)
        for mark in self.plan.marks:
            if mark.index >= n_read:
                self.memory.shadow.known(request, mark.index, mark.ttl)


_SLACK_TOKENS = 256
"""Estimates are off by this much without anything being wrong."""


def _shadow_flight(shadow: SimulatedCache, prepared: Prepared) -> InFlight | None:
    """Let the shadow see the request; None where it can know nothing of what comes of it."""
    if prepared.plan.cached_front is not None:
        return None  # the object is the adapter's, and the prompt without it caches nothing
    flight = shadow.begin(prepared.plan.applied(prepared.draft.request))
    # What the simulator refuses the provider may still take.
    return None if isinstance(flight, Refused) else flight


def _agent_of(request: ModelRequest) -> str:
    """Return what tells an agent from others; without a name that is its source line."""
    if request.agent != _NO_NAME:
        return request.agent
    segments = request.context.front.segments
    sources = (request.sources.get(segment.digest) for segment in reversed(segments))
    return next((source for source in sources if source), request.agent)


_NO_NAME = "agent"
"""What an `Agent` is called that was given no name and is of no subclass."""


def _writes(prepared: Prepared) -> frozenset[int] | None:
    """Return the blocks behind which the request writes an entry; None: behind each."""
    plan = prepared.plan
    marks = frozenset(mark.index for mark in plan.marks)
    match prepared.policy:
        case AnthropicPolicy():
            return marks
        case OpenAiMarkPolicy():
            last = len(prepared.layout.blocks) - prepared.layout.n_volatile - 1
            return marks | {last} if plan.openai.mode == "implicit" else marks
        case _:
            return None


def _is_coming(prepared: Prepared) -> bool:
    """Whether another request is writing a longer prefix than can be read now."""
    now_s = prepared.at.timestamp()
    entries = prepared.known.written.entries[prepared.plan.predicted.hit :]
    return any(entry is not None and entry.readable_s > now_s for entry in entries)
