"""Responses that go on without their client: `background: true`.

One lives in the store of its tenant from the first moment, in its last state afterwards. A client
that goes away ends nothing; a cancellation, the tenant's key when it is let in no more, a flush and
the server's own end do. Its place among those that are answered is like any other's, so the
limits of its tenant hold, and a server that drains waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.responses.running import Running
from agentkit_runtime.api.openai.responses.store import ResponseStore
from agentkit_runtime.api.openai.responses.wire import ErrorEvent, StreamEvent
from agentkit_runtime.api.sse import event
from agentkit_runtime.chat import ChatFinished

_LOG = logging.getLogger(__name__)

Refusal = Callable[[], ApiError | None]


def _never() -> ApiError | None:
    return None


class Background:
    """One of them, until it is over. For the server's event loop."""

    def __init__(
        self,
        running: Running,
        answer: Answer,
        store: ResponseStore,
        *,
        clock: Callable[[], float],
        keeps_events: bool,
    ) -> None:
        """It begins at once.

        Args:
            running: the response.
            answer: what generates it; closed when it is over.
            store: knows it from now on.
            clock: Unix seconds.
            keeps_events: whether it can be followed as a stream.
        """
        self.running = running
        self.keeps_events = keeps_events
        self._answer = answer
        self._store = store
        self._clock = clock
        self._events: list[bytes] = []
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._is_cancelled = self._is_forgotten = False
        self._tell(running.output.queue())
        store.begin(running.tenant, running.id, self)
        self._task = asyncio.create_task(self._run())

    async def cancel(self) -> None:
        """End it, and wait until it has. Without effect on one that is over."""
        self._is_cancelled = True
        self._answer.abort()
        await self._over.wait()

    def forget(self) -> None:
        """End it, and keep nothing of it."""
        self._is_cancelled = self._is_forgotten = True
        self._answer.abort()

    async def follow(self, after: int, refusal: Refusal = _never) -> AsyncIterator[bytes]:
        """The events of its stream behind number `after`, those to come included.

        Args:
            after: number of the last event that is known; -1 for none.
            refusal: why whoever follows is let in no more, if so: then that is the last event.
                `wake` has it asked at once.
        """
        number = after + 1
        while True:
            news, is_over = self._news, self._over.is_set()
            refused = refusal()
            while refused is None and number < len(self._events):
                yield self._events[number]
                number += 1
                refused = refusal()
            if refused is not None:
                yield _error(refused, number)
            if is_over or refused is not None:
                return
            await news.wait()

    def wake(self) -> None:
        """Have those who follow look again."""
        self._news.set()
        self._news = asyncio.Event()

    async def _run(self) -> None:
        try:
            await self._generate()
        except asyncio.CancelledError:
            self._fail("the server stopped")
            raise
        except Exception as error:
            # By its type alone: its words may quote what was said.
            _LOG.error("a background response failed: %s", type(error).__name__)
            self._fail("the generation failed")
        finally:
            self._answer.close()
            self._end()

    async def _generate(self) -> None:
        async with aclosing(self._answer.events()) as events:
            async for _, found in events:
                output = self.running.output
                if self.running.document["status"] == "queued":
                    self._tell(output.go_on())
                if isinstance(found, ChatFinished) and self._was_ended(found):
                    self._tell(output.cancel(found))
                else:
                    self._tell(output.add(found, int(self._clock())))
                if isinstance(found, ChatFinished):
                    self._end()  # before anybody hears of it: who does may go on from it at once

    def _was_ended(self, finished: ChatFinished) -> bool:
        return self._is_cancelled and finished.reason == "abort" and not finished.revoked

    def _fail(self, message: str) -> None:
        if self._over.is_set():
            return  # it has its end, and others may have gone on from it
        self._tell(self.running.output.fail(ApiError(message, status=500)))

    def _tell(self, documents: Iterable[StreamEvent]) -> None:
        if self.keeps_events:
            self._events += (event(document, document["type"]) for document in documents)
        self.wake()

    def _end(self) -> None:
        if self._over.is_set():
            return
        running = self.running
        self._store.end(running.tenant, running.id)
        if not self._is_forgotten:
            self._store.put(running.tenant, running.stored(self._answer, tuple(self._events)))
        self._over.set()
        self.wake()


def _error(refused: ApiError, number: int) -> bytes:
    """The event that ends a stream of whoever is let in no more."""
    document: ErrorEvent = {
        "type": "error",
        "code": refused.code,
        "message": refused.message,
        "param": None,
        "sequence_number": number,
    }
    return event(document, document["type"])
