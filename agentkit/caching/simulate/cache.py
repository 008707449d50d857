"""The life of a request at a simulated cache; what differs between providers is in subclasses."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentkit.blocks import Json
from agentkit.caching.chain import Prefixes, PrefixMemory, boundaries
from agentkit.caching.plan.draft import LiveEntry, Written
from agentkit.caching.policy import Change, InputSplit, Invalidation, Policy, Ttl
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate.billing import bill
from agentkit.caching.simulate.clock import Clock
from agentkit.caching.simulate.served import Miss, Refused, Served
from agentkit.caching.simulate.store import Store, Write
from agentkit.errors import UnknownModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What was decided when a request arrived."""

    request: CacheRequest
    policy: Policy
    at: datetime
    prefixes: Prefixes
    split: InputSplit
    miss: Miss | None
    touched: tuple[bytes, ...] = ()
    """Entries whose life begins anew with this request."""
    writes: tuple[Write, ...] = ()
    """Entries that it leaves behind."""
    route: bytes | None = None
    """What its machine is chosen by, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a cache can say of a request before it arrives."""

    written: Written
    keys: Sequence[bytes]
    """Names its prefixes, block by block, those of blocks that are not in the prompt too."""
    settings: tuple[tuple[Change, str], ...]
    """What its entries are keyed by, beside the blocks."""


class SimulatedCache(ABC):
    """A provider's cache. Pure but for its clock: the same requests give the same answers.

    Not for use from several threads at once.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._store = Store()
        self._prefix_memory = PrefixMemory()

    def begin(self, request: CacheRequest) -> InFlight | Refused:
        """Let a request arrive. What it reads is decided now; what it writes is not readable yet.

        Raises:
            UnknownModel: the rules of this model are not known.
        """
        plan = self._plan(request, self._clock())
        if isinstance(plan, Refused):
            return plan
        self._arrived(plan)
        now_s = plan.at.timestamp()
        for key in plan.touched:
            self._store.touch(key, now_s)
        for write in plan.writes:
            self._store.expect(write)
        return InFlight(self, plan)

    def request(
        self, request: CacheRequest, *, output_tokens: int = 0, output: Iterable[Block] = ()
    ) -> Served | Refused:
        """Serve a request from its arrival to its end, at one moment of the clock."""
        flight = self.begin(request)
        if isinstance(flight, Refused):
            return flight
        return flight.end(output_tokens=output_tokens, output=output)

    def preview(self, request: CacheRequest) -> Served | Refused:
        """Return what the request would be answered now, without output. Nothing changes by it."""
        plan = self._plan(request, self._clock())
        return plan if isinstance(plan, Refused) else self._served(plan, 0)

    def written(self, request: CacheRequest) -> Written:
        """Return what lives now of the request's own prefixes, whatever marks it has.

        Aligned with `request.blocks`; blocks that are not in the prompt have no entry.
        """
        return self._aligned(request)[0]

    def known_of(self, request: CacheRequest, rules: Iterable[Invalidation]) -> Known:
        """Return what `written` does, with the names of the request's prefixes.

        `rules`: by which settings blocks are named that are not in the prompt.
        """
        written, prefixes = self._aligned(request)
        keys = prefixes.keys
        if len(keys) != request.n_blocks:
            memory = self._prefix_memory
            keys = boundaries(request, scope=(), invalidations=rules, memory=memory).keys
        return Known(written=written, keys=keys, settings=prefixes.settings)

    def _aligned(self, request: CacheRequest) -> tuple[Written, Prefixes]:
        now = self._clock()
        places, prefixes = self._located(request, now)
        lives = self._store.lives(prefixes.keys, now.timestamp())
        if len(places) == request.n_blocks:
            return Written(entries=lives), prefixes
        found: list[LiveEntry | None] = [None] * request.n_blocks
        for index, live in zip(places, lives, strict=True):
            found[index] = live
        return Written(entries=found), prefixes

    def known(self, request: CacheRequest, block: int, ttl: Ttl | None) -> None:
        """Take in that an entry ends with a block, as the provider's answer has shown.

        Its life begins now. `ttl` None is the provider's default lifetime, or for an entry that
        lives already the one it has.
        """
        now = self._clock()
        now_s = now.timestamp()
        places, prefixes = self._located(request, now)
        if block not in places:
            return
        key = prefixes.keys[places.index(block)]
        if ttl is None and self._store.is_readable(key, now_s):
            self._store.touch(key, now_s)
        else:
            ttl_s = self._default_life_s(request, now) if ttl is None else ttl.seconds
            self._store.put(Write(key=key, ttl_s=ttl_s), used_s=now_s, readable_s=now_s)

    def drop(self, request: CacheRequest, from_block: int) -> None:
        """Take in that no entry ends with this block or one behind it: the provider read less."""
        places, prefixes = self._located(request, self._clock())
        for key in prefixes.keys[bisect_left(places, from_block) :]:
            self._store.drop(key)

    @abstractmethod
    def _located(self, request: CacheRequest, now: datetime) -> tuple[Sequence[int], Prefixes]:
        """Return the index of the last block of each of the request's prefixes, and these."""
        ...

    @abstractmethod
    def _default_life_s(self, request: CacheRequest, now: datetime) -> float:
        """Return how long an entry lives without use, if nothing else is asked for."""
        ...

    def _arrived(self, plan: Plan) -> None:
        """Remember what only a request that really came leaves behind."""
        del plan

    @abstractmethod
    def _plan(self, request: CacheRequest, now: datetime) -> Plan | Refused: ...

    @abstractmethod
    def _usage(self, plan: Plan, output_tokens: int) -> Mapping[str, Json]: ...

    def _response_began(self, plan: Plan) -> None:
        """The first byte of the response: what the request writes becomes readable."""
        self._publish(plan)

    def _ended(self, plan: Plan, output: tuple[Block, ...]) -> None:
        """The response is complete."""
        del plan, output  # only some caches keep what was generated

    def _aborted(self, plan: Plan, *, responding: bool) -> None:
        """The request failed, before its response began or in its middle."""
        if not responding:
            self._abandon(plan)

    def _publish(self, plan: Plan, *, readable_s: float | None = None) -> None:
        started_s, now_s = plan.at.timestamp(), self._clock().timestamp()
        contents = _contents(plan)
        for write in plan.writes:
            self._store.forget(write)
            # Life counts from the start of the request, so a long response eats into it.
            readable = now_s if readable_s is None else readable_s
            self._store.put(write, used_s=started_s, readable_s=readable)
            self._store.remember(contents[write.key], plan.prefixes.settings)

    def _abandon(self, plan: Plan) -> None:
        for write in plan.writes:
            self._store.forget(write)

    def _served(self, plan: Plan, output_tokens: int) -> Served:
        return Served(
            split=plan.split,
            output_tokens=output_tokens,
            usage_json=self._usage(plan, output_tokens),
            cost=bill(
                plan.policy,
                plan.split,
                at=plan.at,
                terms=plan.request.terms,
                output_tokens=output_tokens,
            ),
            miss=plan.miss,
        )


def _contents(plan: Plan) -> dict[bytes, bytes]:
    """Return what the plan's writes hold, by key. They are at the end, mostly."""
    left, found = {write.key for write in plan.writes}, {}
    for prefix in reversed(plan.prefixes):
        if not left:
            break
        if prefix.key in left:
            left.remove(prefix.key)
            found[prefix.key] = prefix.content
    return found


class _State(enum.Enum):
    WAITING = "waiting for its response"
    RESPONDING = "responding"
    OVER = "over"


class InFlight:
    """A request between its arrival and its end."""

    def __init__(self, cache: SimulatedCache, plan: Plan) -> None:
        self._cache = cache
        self._plan = plan
        self._state = _State.WAITING

    @property
    def served(self) -> Served:
        """What is known from the start: reads, writes and their cost, without output."""
        return self._cache._served(self._plan, 0)

    def response_began(self) -> None:
        """The first byte of the response came.

        Raises:
            ValueError: it came before, or the request is over.
        """
        self._expect(_State.WAITING)
        self._state = _State.RESPONDING
        if not self._plan.request.prewarm:  # nothing is sent before the end of a prewarm
            self._cache._response_began(self._plan)

    def end(self, *, output_tokens: int = 0, output: Iterable[Block] = ()) -> Served:
        """The response is complete. `output` are its blocks, where a cache keeps those too.

        Raises:
            ValueError: the request is over.
        """
        self.close(output)
        return self._cache._served(self._plan, 0 if self._plan.request.prewarm else output_tokens)

    def close(self, output: Iterable[Block] = ()) -> None:
        """Do as `end`, where nobody wants to know what was served.

        Raises:
            ValueError: the request is over.
        """
        self._expect(_State.WAITING, _State.RESPONDING)
        if self._state is _State.WAITING:
            self.response_began()
        self._state = _State.OVER
        if self._plan.request.prewarm:
            self._cache._response_began(self._plan)
        self._cache._ended(self._plan, tuple(output))

    def abort(self) -> None:
        """The request failed. Before its response began nothing is written (not documented).

        Raises:
            ValueError: the request is over.
        """
        self._expect(_State.WAITING, _State.RESPONDING)
        responding = self._state is _State.RESPONDING and not self._plan.request.prewarm
        self._cache._aborted(self._plan, responding=responding)
        self._state = _State.OVER

    def _expect(self, *states: _State) -> None:
        if self._state not in states:
            raise ValueError(f"the request is {self._state.value}; begin() a new one")


def known_minimum(policy: Policy) -> int:
    """Return the policy's minimum prefix length.

    Raises:
        UnknownModel: it is not known.
    """
    if policy.minimum_tokens is None:
        raise UnknownModel(
            f"the shortest prefix that {policy.provider.value} caches is not known for "
            f"{policy.model!r}; pass policy_of=... with a policy that has a minimum"
        )
    return policy.minimum_tokens
