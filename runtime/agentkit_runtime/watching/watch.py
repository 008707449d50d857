"""Makes a `RequestRecord` of each request to the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypedDict

from agentkit_runtime.api.failure import ApiError, from_end, from_fault
from agentkit_runtime.chat import ChatEvent, ChatFinished
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.kv.missed import Cause
from agentkit_runtime.types import RequestStats
from agentkit_runtime.watching.exchange import current_exchange
from agentkit_runtime.watching.record import Finish, Outcome, RequestRecord

if TYPE_CHECKING:
    from agentkit_runtime.api.asked import Asked

GONE_STATUS = 499
"""Of a request whose client went away (the number is nginx's)."""


class Sink(Protocol):
    """Takes records. Called in the event loop."""

    def add(self, record: RequestRecord) -> None:
        """A request is over."""


class RequestWatcher:
    """Implements `api.answering.Watcher`."""

    def __init__(
        self,
        sinks: Sequence[Sink],
        gap: Callable[[float], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        """`gap` is told the seconds between each two pieces of an answer."""
        self.sinks = sinks
        self.gap = gap
        self.clock = clock
        self.unix_clock = unix_clock

    def asked(self, asked: Asked) -> RequestWatch:
        """Follow a request."""
        return RequestWatch(self, asked)


class RequestWatch:
    """Implements `api.answering.Watch`."""

    def __init__(self, watcher: RequestWatcher, asked: Asked) -> None:
        self._watcher = watcher
        self._asked = asked
        self._exchange = current_exchange.get()
        self._began_unix_s = watcher.unix_clock()
        self._first_s: float | None = None
        self._last_s: dict[int, float] = {}
        self._ends: dict[int, ChatFinished] = {}
        self._ended_unix_s: float | None = None

    def event(self, index: int, event: ChatEvent) -> None:
        """Note the time."""
        now_s = self._watcher.clock()
        if isinstance(event, ChatFinished):
            self._ends[index] = event
            self._ended_unix_s = self._watcher.unix_clock()
            return
        if self._first_s is None:
            self._first_s = now_s
        before = self._last_s.get(index)
        if before is not None:
            self._watcher.gap(now_s - before)
        self._last_s[index] = now_s

    def closed(self, failure: BaseException | None) -> None:
        """Tell the sinks."""
        record = self._record(failure)
        if self._exchange is not None:
            self._exchange.records.append(record)
        for sink in self._watcher.sinks:
            sink.add(record)

    def _record(self, failure: BaseException | None) -> RequestRecord:
        asked = self._asked
        outcome, status, code = self._outcome(failure)
        return RequestRecord(
            request_id="" if self._exchange is None else self._exchange.request_id,
            id=asked.id,
            endpoint=asked.endpoint,
            tenant=asked.caller.tenant,
            key_id=asked.caller.key_id,
            session=asked.chat.session,
            priority=asked.chat.priority.name.lower(),
            began_unix_s=self._began_unix_s,
            outcome=outcome,
            status=status,
            code=code,
            finish=self._finish(outcome),
            seconds=self._watcher.clock() - asked.began_s,
            ttft_s=None if self._first_s is None else self._first_s - asked.began_s,
            ended_unix_s=self._ended_unix_s,
            completion_tokens=sum(e.stats.completion_tokens for e in self._ends.values()),
            **({} if not self._ends else _of_the_prompt(self._first_end().stats)),
        )

    def _outcome(self, failure: BaseException | None) -> tuple[Outcome, int, str | None]:
        if failure is None:
            if len(self._ends) < self._asked.n:
                return "gone", GONE_STATUS, None
            if all(end.revoked or end.reason == "error" for end in self._ends.values()):
                error = from_end(self._first_end())
                return "failed", error.status, error.code or "engine_error"
            return "done", 200, None
        if isinstance(failure, asyncio.CancelledError):
            return "gone", GONE_STATUS, None
        if isinstance(failure, RuntimeFault):
            failure = from_fault(failure, str)
        if isinstance(failure, ApiError):
            began = self._first_s is not None or bool(self._ends)
            return "failed" if began else "refused", failure.status, failure.code
        return "failed", 500, "internal_error"

    def _finish(self, outcome: Outcome) -> tuple[Finish, ...]:
        if outcome == "refused":
            return ()
        ends = (self._ends.get(index) for index in range(self._asked.n))
        cut_off: Finish = "error" if outcome == "failed" else "abort"
        return tuple(cut_off if end is None else _finish_of(end) for end in ends)

    def _first_end(self) -> ChatFinished:
        return self._ends[min(self._ends)]


def _finish_of(end: ChatFinished) -> Finish:
    return "revoked" if end.revoked else end.reason


class _OfThePrompt(TypedDict, total=False):
    queue_s: float
    prefill_s: float
    decode_s: float | None
    prompt_tokens: int
    cached_tokens: int
    restored_tokens: int
    missed: Cause | None
    lost_tokens: int


def _of_the_prompt(stats: RequestStats) -> _OfThePrompt:
    """What all answers share is said by the first: the others found its prompt in the cache."""
    first_s = stats.total_s if stats.ttft_s is None else stats.ttft_s
    missed = stats.missed
    return {
        "queue_s": stats.queue_s,
        "prefill_s": first_s - stats.queue_s,
        "decode_s": None if stats.ttft_s is None else stats.total_s - stats.ttft_s,
        "prompt_tokens": stats.prompt_tokens,
        "cached_tokens": stats.cached_tokens,
        "restored_tokens": stats.restored_tokens,
        "missed": None if missed is None else missed.cause,
        "lost_tokens": 0 if missed is None else missed.lost_tokens,
    }
