"""One way from a decoded request to its events, for all dialects.

    endpoint --- Answering.open --- gate (may it run now?) --- ChatService --- Answer
                                                                                 |
                      watchers (metrics, traces, logs, last requests) -----------+

A dialect decodes a body into a `ChatRequest` and encodes `ChatEvent`s. Everything between is here,
so that quotas, limits and measurements hold for every endpoint alike.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.asked import Asked, Gate, NotYet, OpenGate, Ticket, Watcher
from agentkit_runtime.api.caller import Bounds, Caller
from agentkit_runtime.api.estimate import prompts_tokens
from agentkit_runtime.api.labels import labelled
from agentkit_runtime.api.standing import Seat, Standings
from agentkit_runtime.api.turns import Turns
from agentkit_runtime.api.watches import Watches
from agentkit_runtime.chat import ChatEvent, ChatRequest
from agentkit_runtime.types import Priority

if TYPE_CHECKING:
    from agentkit_runtime.reply import ChatStream
    from agentkit_runtime.service import ChatService


SETTLING_S = 0.5
"""A request waits at the gate for so long at most: what comes before it is tokenised, and looked up
in the cache, in milliseconds where the engine's steps are short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """Answers for all dialects of one server."""

    service: ChatService
    gate: Gate = field(default_factory=OpenGate)
    watchers: tuple[Watcher, ...] = ()
    clock: Callable[[], float] = time.monotonic
    standings: Standings = field(default_factory=Standings)
    """The keys of what is under way."""
    _open: set[Answer] = field(default_factory=set, init=False, repr=False, compare=False)
    _turns: Turns = field(default_factory=Turns, init=False, repr=False, compare=False)

    async def open(
        self,
        chats: Sequence[ChatRequest],
        *,
        id: str,
        endpoint: str,
        caller: Caller,
        headers: Mapping[str, str],
        n: int = 1,
        caller_now: Callable[[], Caller] | None = None,
        large: bool = False,
    ) -> list[Answer]:
        """Start `n` answers to each chat of a request. Whoever gets the `Answer`s closes them.

        The tenant is the caller's, whatever `chats` say, and labels come from `headers` too. The
        gate is asked once for all: what is let in does not wait for itself.

        Args:
            chats: at least one.
            id: the id in the answer.
            endpoint: the route.
            caller: who asks.
            headers: of the request, names in lower case.
            n: answers to each chat.
            caller_now: authenticates once more; answers end when it raises.
            large: the event loop must not go through the texts.

        Raises:
            ApiError: the gate, or a header, says no.
            RequestRejected: the request can never run here.
            EngineStopped: the engine is closed.
        """
        bounds, began_s = caller.bounds, self.clock()
        asked = [
            Asked(
                id=id,
                endpoint=endpoint,
                caller=caller,
                chat=_bounded(labelled(_of(chat, caller), headers), bounds),
                n=n,
                headers=headers,
                began_s=began_s,
            )
            for chat in chats
        ]
        watches = [Watches(self.watchers, asked[0])]
        try:
            n_tokens = await self._estimated(chats, caller) if large else None
            place = _Place(await self._entered(asked, n_tokens), len(asked))
        except BaseException as error:
            watches[0].closed(error)
            raise
        watches += (Watches(self.watchers, one) for one in asked[1:])
        join = None if caller_now is None else partial(self.standings.join, caller, caller_now)
        return await self._opened(asked, place, watches, join)

    async def _estimated(self, chats: Sequence[ChatRequest], caller: Caller) -> int:
        async with self.turn(caller):
            return await asyncio.to_thread(prompts_tokens, chats)

    async def _entered(self, asked: Sequence[Asked], n_tokens: int | None) -> Ticket:
        """Enter; where that hangs on what is not known yet, once it is, or after `SETTLING_S`."""
        until_s = self.clock() + SETTLING_S
        while True:
            try:
                return self._enter(asked, n_tokens)
            except NotYet as refusal:
                try:
                    async with asyncio.timeout(max(0.0, until_s - self.clock())):
                        await refusal.more_known()
                except TimeoutError:
                    raise refusal from None

    def _enter(self, asked: Sequence[Asked], n_tokens: int | None) -> Ticket:
        first, *others = asked
        more = tuple(one.chat for one in others)
        return self.gate.enter(
            dataclasses.replace(first, more=more, n=first.n * len(asked), prompt_tokens=n_tokens)
        )

    async def _opened(
        self,
        asked: Sequence[Asked],
        place: _Place,
        watches: Sequence[Watches],
        join: Callable[[Callable[[], None]], Seat] | None,
    ) -> list[Answer]:
        opened: list[Answer] = []
        try:
            for one, watch in zip(asked, watches, strict=True):
                async with self._turns.of(one.caller.tenant):
                    streams = await self.service.open_many(one.chat, one.n)
                place.opened()
                answer = Answer(one.chat, streams, place, watch, self._open.discard, join)
                self._open.add(answer)
                opened.append(answer)
                place.costs(partial(self._left_to_compute, streams))
        except BaseException as error:
            for answer in opened:
                answer.close(error)
            for watch in watches[len(opened) :]:
                place.leave()
                watch.closed(error)
            raise
        return opened

    def _left_to_compute(self, streams: Sequence[ChatStream]) -> Future[int]:
        """Of the prompt that they share: the first one computes it."""
        return self.service.left_to_compute(streams[0])

    @asynccontextmanager
    async def looking(self, caller: Caller) -> AsyncIterator[None]:
        """Let a request in that wants no answer, and give it a turn to be worked on.

        Raises:
            ApiError: the gate says no, or too many of the tenant's requests wait already.
        """
        self.gate.look(caller)
        async with self.turn(caller):
            yield

    @asynccontextmanager
    async def turn(self, caller: Caller) -> AsyncIterator[None]:
        """A turn for work in threads on a request that the gate will see later."""
        async with self._turns.of(caller.tenant):
            yield

    def abort_all(self) -> int:
        """Abort all answers that run; each ends with an event that says so. Returns how many."""
        answers = list(self._open)
        for answer in answers:
            answer.abort()
        return len(answers)


class _Place:
    """The place of a request behind the gate, until the last of its prompts leaves it."""

    def __init__(self, ticket: Ticket, n: int) -> None:
        self._ticket = ticket
        self._n_coming = self._n_inside = n

    def opened(self) -> None:
        self._n_coming -= 1
        if not self._n_coming:
            self._ticket.opened()

    def costs(self, left: Callable[[], Future[int]]) -> None:
        self._ticket.costs(left)

    def event(self, index: int, event: ChatEvent) -> None:
        self._ticket.event(index, event)

    def leave(self) -> None:
        self._n_inside -= 1
        if not self._n_inside:
            self._ticket.leave()


def _of(chat: ChatRequest, caller: Caller) -> ChatRequest:
    return dataclasses.replace(chat, tenant=caller.tenant)


def _bounded(chat: ChatRequest, bounds: Bounds) -> ChatRequest:
    """Lower what is above its bounds. INTERACTIVE stays: nobody has it without asking for it, and
    the gate tells who may not."""
    if chat.priority is Priority.NORMAL > bounds.priority:
        chat = dataclasses.replace(chat, priority=bounds.priority)
    wanted = chat.sampling.max_tokens
    if bounds.max_tokens is None or (wanted is not None and wanted <= bounds.max_tokens):
        return chat
    sampling = dataclasses.replace(chat.sampling, max_tokens=bounds.max_tokens)
    return dataclasses.replace(chat, sampling=sampling)
