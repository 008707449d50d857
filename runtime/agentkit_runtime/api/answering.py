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
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from agentkit_runtime.api.caller import Bounds, Caller
from agentkit_runtime.api.labels import labelled
from agentkit_runtime.chat import ChatEvent, ChatRequest
from agentkit_runtime.reply import ChatStream, abort_all, merged
from agentkit_runtime.types import Priority

if TYPE_CHECKING:
    from agentkit_runtime.service import ChatService

_LOG = logging.getLogger(__name__)

_PREPARED_AT_A_TIME = max(2, min(32, (os.cpu_count() or 1) + 4) // 2)
"""Requests of one tenant: half of asyncio's own threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was let in, as watchers see it. Watchers must not write out its texts."""

    id: str
    """The id in the answer, such as `chatcmpl-...`."""
    endpoint: str
    """The route, such as `/v1/chat/completions`."""
    caller: Caller
    chat: ChatRequest
    n: int
    headers: Mapping[str, str]
    """Of the request, names in lower case. Holds credentials: never to be written out."""
    began_s: float
    """On the server's monotonic clock."""


class Watch(Protocol):
    """Follows one request. Methods are called in the event loop, must not block, and are tried:
    what they raise is logged and changes nothing."""

    def event(self, index: int, event: ChatEvent) -> None:
        """Answer `index` went on; `ChatFinished` is its last event."""

    def closed(self, failure: BaseException | None) -> None:
        """The request is over, also when it never got an answer. Called exactly once.

        `failure` says what ended it early; None when all answers were read to their end, or the
        client went away.
        """


class Watcher(Protocol):
    """Looks at all requests."""

    def asked(self, asked: Asked) -> Watch:
        """A request came. Called before the gate is asked."""


class Ticket(Protocol):
    """A request's place in the server."""

    def opened(self) -> None:
        """The engine has the request. Not called when it was refused on the way there."""

    def event(self, index: int, event: ChatEvent) -> None:
        """Answer `index` went on."""

    def leave(self) -> None:
        """The request is over. Called exactly once."""


class Gate(Protocol):
    """Decides what may run."""

    def enter(self, asked: Asked) -> Ticket:
        """Let a request in.

        Raises:
            ApiError: 429 or 503, with `retry_after_s`.
        """


class OpenGate:
    """Lets everything in."""

    def enter(self, asked: Asked) -> Ticket:
        """Let it in."""
        return _NoTicket()


class _NoTicket:
    def opened(self) -> None:
        pass

    def event(self, index: int, event: ChatEvent) -> None:
        pass

    def leave(self) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """Answers for all dialects of one server."""

    service: ChatService
    gate: Gate = field(default_factory=OpenGate)
    watchers: tuple[Watcher, ...] = ()
    clock: Callable[[], float] = time.monotonic
    _open: set[Answer] = field(default_factory=set, init=False, repr=False, compare=False)
    _turns: WeakValueDictionary[str, asyncio.Semaphore] = field(
        default_factory=WeakValueDictionary, init=False, repr=False, compare=False
    )
    """Of tenants that have requests on their way in; one event loop's."""

    async def open(
        self,
        chat: ChatRequest,
        *,
        id: str,
        endpoint: str,
        caller: Caller,
        headers: Mapping[str, str],
        n: int = 1,
    ) -> Answer:
        """Start `n` answers. Whoever gets the `Answer` closes it.

        The tenant is the caller's, whatever `chat` says, and labels come from `headers` too.

        Raises:
            ApiError: the gate, or a header, says no.
            RequestRejected: the request can never run here.
            EngineStopped: the engine is closed.
        """
        chat = _bounded(labelled(_of(chat, caller), headers), caller.bounds)
        asked = Asked(
            id=id,
            endpoint=endpoint,
            caller=caller,
            chat=chat,
            n=n,
            headers=headers,
            began_s=self.clock(),
        )
        watches = Watches(self.watchers, asked)
        try:
            ticket = self.gate.enter(asked)
        except BaseException as error:
            watches.closed(error)
            raise
        try:
            async with self._turn(caller.tenant):
                streams = await self.service.open_many(chat, n)
        except BaseException as error:
            ticket.leave()
            watches.closed(error)
            raise
        ticket.opened()
        answer = Answer(chat, streams, ticket, watches, self._open.discard)
        self._open.add(answer)
        return answer

    def _turn(self, tenant: str) -> asyncio.Semaphore:
        """Bounds how many of a tenant's requests are rendered and compiled at a time: that runs in
        threads which all share, and a grammar can take seconds."""
        turn = self._turns.get(tenant)
        if turn is None:
            turn = self._turns[tenant] = asyncio.Semaphore(_PREPARED_AT_A_TIME)
        return turn

    def abort_all(self) -> int:
        """Abort all answers that run; each ends with an event that says so. Returns how many."""
        answers = list(self._open)
        for answer in answers:
            answer.abort()
        return len(answers)


class Answer:
    """The answers to one request while they are generated. Close it, however it ends."""

    def __init__(
        self,
        chat: ChatRequest,
        streams: Sequence[ChatStream],
        ticket: Ticket,
        watches: Watches,
        on_close: Callable[[Answer], None],
    ) -> None:
        self.chat = chat
        """What is answered: the caller's, labelled and bounded."""
        self._streams = streams
        self._ticket = ticket
        self._watches = watches
        self._on_close = on_close
        self._closed = False

    @property
    def n(self) -> int:
        """How many answers there are."""
        return len(self._streams)

    @property
    def streams(self) -> Sequence[ChatStream]:
        """The answers themselves, to look at: `events` reads them, `close` ends them."""
        return self._streams

    async def events(self) -> AsyncGenerator[tuple[int, ChatEvent], None]:
        """The events of all answers as they come, each with its answer's rank."""
        try:
            async with aclosing(merged(self._streams)) as events:
                async for index, event in events:
                    self._ticket.event(index, event)
                    self._watches.event(index, event)
                    yield index, event
        except Exception as error:
            self.close(error)
            raise

    async def collect(self) -> list[list[ChatEvent]]:
        """The events of each answer, all at once. Closes the answer, also when it is cancelled."""
        answers: list[list[ChatEvent]] = [[] for _ in self._streams]
        try:
            async with aclosing(self.events()) as events:
                async for index, event in events:
                    answers[index].append(event)
        finally:
            self.close()
        return answers

    def abort(self) -> None:
        """Stop what still runs; who reads the events is told so by their last one."""
        abort_all(self._streams)

    def close(self, failure: BaseException | None = None) -> None:
        """Stop what still runs and give its place back. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._on_close(self)
        abort_all(self._streams)
        self._ticket.leave()
        self._watches.closed(failure)


class Watches:
    """The watches of one request, as one. None of them can fail it."""

    def __init__(self, watchers: Sequence[Watcher], asked: Asked) -> None:
        self._watches: list[Watch] = []
        for watcher in watchers:
            with _logged():
                self._watches.append(watcher.asked(asked))

    def event(self, index: int, event: ChatEvent) -> None:
        """Tell all."""
        for watch in self._watches:
            with _logged():
                watch.event(index, event)

    def closed(self, failure: BaseException | None) -> None:
        """Tell all."""
        for watch in self._watches:
            with _logged():
                watch.closed(failure)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except Exception:  # measuring must not cost anybody an answer
        _LOG.exception("a watcher of requests failed")


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
