"""The async front of the runtime: submit, stream, abort. One thread steps the core.

The thread owns the core, the tree and the pool; nothing else touches them. Commands go in through a
queue, events come out through each caller's event loop, in order.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from agentkit_runtime.core import CoreStats, EngineCore
from agentkit_runtime.errors import EngineStopped
from agentkit_runtime.kv.closing import close_cache
from agentkit_runtime.types import EngineEvent, Finished, GenerateRequest

T = TypeVar("T")


class Generation:
    """The events of one request, as an async iterator, for the event loop that submitted it."""

    def __init__(self, request_id: str, abort: Callable[[str], None]) -> None:
        self.request_id = request_id
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._ended = False

    def abort(self) -> None:
        """Cancel the request; safe from any thread, any number of times.

        Its slots come back at the start of the engine's next step, and the iterator ends with
        `Finished(ABORT)` unless the request had ended before.
        """
        self._abort(self.request_id)

    async def __aiter__(self) -> AsyncIterator[EngineEvent]:
        """Yield events; the last one is `Finished`."""
        while not self._ended:
            event = await self._events.get()
            self._ended = isinstance(event, Finished)
            yield event

    def deliver(self, event: EngineEvent) -> None:
        """Hand over an event from the engine thread."""
        try:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)
        except RuntimeError:  # the caller's loop is closed: nobody listens any more
            if not isinstance(event, Finished):
                self.abort()


class Engine:
    """Runs an `EngineCore` in its own thread. Use `start()` and `close()`, or `with`."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._stats = core.stats()
        self._n_sent = self._n_taken = self._n_told = 0
        """Requests that were submitted, that the core has got, and that `_stats` knows of."""
        self._outbox: list[tuple[Generation, EngineEvent]] = []
        self._thread = threading.Thread(target=self._loop, name="agentkit-engine", daemon=True)

    def start(self) -> Engine:
        """Start the thread. At exit it is closed, so that no torch operator is torn apart."""
        atexit.register(_close_if_alive, weakref.ref(self))
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the thread; pending requests end with an error. Idempotent."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Engine:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def submit(self, request: GenerateRequest) -> Generation:
        """Queue a request; call from a running event loop.

        Raises:
            RequestRejected: the request can never run here.
            EngineStopped: the engine is closed.
        """
        self._core.check(request)
        generation = Generation(request.request_id, self.abort)

        def add() -> None:
            self._n_taken += 1
            self._core.add(request, lambda event: self._outbox.append((generation, event)))

        self._send(add)
        with self._wake:
            self._n_sent += 1
        return generation

    def call(self, work: Callable[[EngineCore], T]) -> Future[T]:
        """Run `work` in the engine's thread before its next step: for pins, pruning, reports.

        The future gets what `work` returns or raises. Cancelling it does not stop the work.

        Raises:
            EngineStopped: the engine is closed.
        """
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work(self._core)
            except BaseException as error:  # handed over: it is the caller's to deal with
                future.set_exception(error)
            else:
                future.set_result(result)

        self._send(run)
        return future

    def abort(self, request_id: str) -> None:
        """Cancel a request by id; unknown ids are ignored."""
        try:
            self._send(lambda: self._core.abort(request_id))
        except EngineStopped:
            return  # everything has ended already

    @property
    def alive(self) -> bool:
        """True while the engine takes requests: started, not closed, and without a fault."""
        return self._thread.is_alive() and not self._closing

    def stats(self) -> CoreStats:
        """Return the snapshot taken after the last step. What came since then waits in it, too."""
        with self._wake:
            stats, n_new = self._stats, self._n_sent - self._n_told
        return replace(stats, waiting=stats.waiting + n_new) if n_new > 0 else stats

    def _send(self, command: Callable[[], None]) -> None:
        with self._wake:
            if self._closing:
                raise EngineStopped("the engine is closed; start a new one")
            self._commands.append(command)
            self._wake.notify()

    def _loop(self) -> None:
        message = "the engine was closed"
        try:
            while self._turn():
                pass
        except Exception as error:  # a fault of ours: nobody may wait for ever because of it
            message = f"the engine failed: {type(error).__name__}: {error}"
            raise
        finally:
            with self._wake:
                self._closing = True
            while self._commands:  # requests that were never seen get their end, too
                with suppress(Exception):
                    self._commands.popleft()()
            self._core.fail_pending(message)
            self._publish()
            close_cache(self._core.cache)

    def _turn(self) -> bool:
        """Take commands and run one step; False when the engine closes."""
        with self._wake:
            while not (self._commands or self._closing or not self._core.idle):
                self._wake.wait()
            if self._closing:
                return False
        while self._commands:  # one by one: those behind a failing one are not lost
            self._commands.popleft()()
        computed = self._core.step()
        self._publish()
        if not computed and not self._core.idle:
            self._rest()
        return True

    def _rest(self) -> None:
        """Every request waits for something outside, such as blocks from a disk: do not spin.

        A command ends the wait.
        """
        with self._wake:
            if not (self._commands or self._closing):
                self._wake.wait(self._core.scheduler.idle_wait_s)

    def _publish(self) -> None:
        """Deliver a step's events; whoever sees the end of a request also sees its slots free."""
        stats = self._core.stats()
        with self._wake:
            self._stats, self._n_told = stats, self._n_taken
        events, self._outbox = self._outbox, []
        for generation, event in events:
            generation.deliver(event)


def _close_if_alive(engine: weakref.ref[Engine]) -> None:
    alive = engine()
    if alive is not None:
        alive.close()
