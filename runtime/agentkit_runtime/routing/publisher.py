"""Sends KV events to routers over ZeroMQ.

PUB     three frames: topic, number of the batch (8 bytes, big-endian), msgpack (see `wire`)
ROUTER  a request [empty, number] is answered with all batches from that number on, each as
        [empty, topic, number, msgpack], and an end with the number -1

Token ids are prompts: whoever can connect reads what all tenants asked. So an address that others
can reach is warned of; between machines the port belongs into a network of routers and workers.

The engine's thread only appends to a queue and writes one byte to a pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentkit_runtime.errors import EngineStopped
from agentkit_runtime.kv.events import AllBlocksCleared, EventLog, Gap, KvEvent
from agentkit_runtime.routing.backlog import Backlog
from agentkit_runtime.routing.endpoints import is_exposed, require_endpoint
from agentkit_runtime.routing.wire import packed_batch, require_packages
from agentkit_runtime.steering import log_of

if TYPE_CHECKING:
    import zmq

    from agentkit_runtime.core import EngineCore
    from agentkit_runtime.engine import Engine

_LOG = logging.getLogger(__name__)

MAX_PENDING = 100_000
"""Events that wait to be sent. When there are more, routers are told to forget everything."""

_BATCH = 256
"""Most events of a batch."""

_END = (-1).to_bytes(8, "big", signed=True)


class KvEventPublisher:
    """Binds its sockets when it is made, and sends from `follow` to `close`. A context manager."""

    def __init__(
        self,
        endpoint: str,
        *,
        replay_endpoint: str | None = None,
        topic: str = "",
        backlog: Backlog | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Bind to `endpoint` and `replay_endpoint`, such as `tcp://127.0.0.1:5557`.

        Args:
            endpoint: of the PUB socket; port `*` takes a free one.
            replay_endpoint: of the ROUTER socket; None offers no replay.
            topic: first frame of every batch; subscribers filter by its beginning.
            backlog: what is kept for replay.
            clock: Unix seconds.

        Raises:
            RuntimeFault: pyzmq or msgpack is not installed.
            ValueError: an endpoint is none.
            OSError: an address is taken or not this machine's.
        """
        require_packages()
        self._topic = topic.encode()
        self._backlog = backlog or Backlog()
        self._clock = clock
        self._pending: deque[KvEvent] = deque()
        self._lost = False
        self._rung = False
        self._closing = False
        self._unsubscribe: Callable[[], None] | None = None
        self._sockets = _Sockets(endpoint, replay_endpoint, most_replayed=self._backlog.max_batches)
        self._thread = threading.Thread(target=self._run, name="agentkit-kv-events", daemon=True)

    @property
    def endpoint(self) -> str:
        """Where subscribers connect."""
        return self._sockets.endpoint

    @property
    def replay_endpoint(self) -> str | None:
        """Where those connect who missed something."""
        return self._sockets.replay_endpoint

    def follow(self, engine: Engine) -> None:
        """Send the events of `engine`: what it keeps of earlier ones, then each new one.

        Raises:
            NoEvents: the engine was loaded without a log of KV events.
            EngineStopped: it is closed.
        """

        def subscribe(core: EngineCore) -> Callable[[], None]:
            log = log_of(core)
            self._catch_up(log)
            return log.subscribe(self.event)

        unsubscribe = engine.call(subscribe).result()

        def leave() -> None:
            # In the engine's thread: afterwards it is in no call of `event` any more.
            try:
                engine.call(lambda core: unsubscribe()).result()
            except EngineStopped:
                unsubscribe()

        self._unsubscribe = leave
        self._thread.start()

    def event(self, seq: int, event: KvEvent) -> None:
        """Send an event soon. A subscriber of `kv.events.EventLog`; never waits."""
        if len(self._pending) >= MAX_PENDING:
            self._pending.clear()
            self._lost = True
        self._pending.append(event)
        self._ring()

    def close(self) -> None:
        """Stop, and free the addresses. What waits to be sent is sent. Idempotent."""
        if self._closing:
            return
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._closing = True
        self._ring()
        if self._thread.is_alive():
            self._thread.join()
        self._sockets.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _catch_up(self, log: EventLog) -> None:
        kept = log.since(0)
        if isinstance(kept, Gap):
            kept = log.since(kept.first_kept - 1)
        for numbered in () if isinstance(kept, Gap) else kept:
            self.event(*numbered)

    def _ring(self) -> None:
        if not self._rung:  # once is enough until the thread looks
            self._rung = True
            self._sockets.wake()

    def _run(self) -> None:
        while not self._closing:
            asked = self._sockets.wait()
            self._rung = False
            if asked is not None:
                self._replay(*asked)
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._pending or self._lost:
            events: list[KvEvent] = []
            if self._lost:
                self._lost = False
                events.append(AllBlocksCleared())
                _LOG.warning("KV events came faster than they could be sent; routers start anew")
            with contextlib.suppress(IndexError):  # the engine's thread has just cleared it
                while len(events) < _BATCH:
                    events.append(self._pending.popleft())
            payload = packed_batch(events, self._clock())
            seq = self._backlog.add(payload)
            self._sockets.publish([self._topic, seq.to_bytes(8, "big"), payload])

    def _replay(self, client: bytes, seq: int) -> None:
        for number, payload in self._backlog.since(seq):
            frames = [client, b"", self._topic, number.to_bytes(8, "big"), payload]
            self._sockets.reply(frames)
        self._sockets.reply([client, b"", self._topic, _END, b""])


class _Sockets:
    """The two sockets, and a pipe that wakes who waits for them."""

    def __init__(self, endpoint: str, replay_endpoint: str | None, *, most_replayed: int) -> None:
        import zmq

        for address in filter(None, (endpoint, replay_endpoint)):
            require_endpoint(address)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._router = self._context.socket(zmq.ROUTER)
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._pub.setsockopt(zmq.SNDHWM, 100_000)
        # A ROUTER drops what is over its limit: all of a replay must fit.
        self._router.setsockopt(zmq.SNDHWM, most_replayed + 1)
        try:
            self.endpoint = _bind(self._pub, endpoint)
            self.replay_endpoint = (
                None if replay_endpoint is None else _bind(self._router, replay_endpoint)
            )
        except OSError:
            self.close()
            raise
        self._poller = zmq.Poller()
        self._poller.register(self._read, zmq.POLLIN)
        if replay_endpoint is not None:
            self._poller.register(self._router, zmq.POLLIN)

    def wake(self) -> None:
        """Let `wait` return. From any thread."""
        with contextlib.suppress(BlockingIOError):  # it is full of wake-ups already
            os.write(self._write, b"!")

    def wait(self) -> tuple[bytes, int] | None:
        """Wait until there is something to do; a replay that is asked for, if any."""
        ready = dict(self._poller.poll())
        if self._read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 4096)
        if self._router in ready:
            return _asked(self._router.recv_multipart())
        return None

    def publish(self, frames: list[bytes]) -> None:
        """To all subscribers; a PUB socket never waits for one of them."""
        self._pub.send_multipart(frames)

    def reply(self, frames: list[bytes]) -> None:
        """To one client; one that is gone gets nothing."""
        self._router.send_multipart(frames)

    def close(self) -> None:
        """Free addresses and pipe; what was sent gets a moment to arrive."""
        self._pub.close(linger=500)
        self._router.close(linger=0)
        self._context.term()
        os.close(self._read)
        os.close(self._write)


def _asked(frames: list[bytes]) -> tuple[bytes, int] | None:
    """Who asks for what; None for what is no request."""
    if len(frames) == 3 and len(frames[2]) == 8:
        return frames[0], int.from_bytes(frames[2], "big")
    return None


def _bind(socket: zmq.Socket[bytes], endpoint: str) -> str:
    import zmq

    if is_exposed(endpoint):
        _LOG.warning(
            "KV events hold the token ids of all tenants' prompts, and whoever can reach %s can "
            "read them; bind to 127.0.0.1 unless only routers can",
            endpoint,
        )
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise OSError(
            f"KV events cannot be published at {endpoint}: {error}; choose another port or address"
        ) from error
    bound = socket.getsockopt(zmq.LAST_ENDPOINT)
    assert isinstance(bound, bytes), "an address is text"
    return bound.rstrip(b"\0").decode()
