"""KV events as server-sent events.

The engine's thread only wakes a reader; the reader then fetches what it has not seen from the
engine's own ring of events. So a reader that is slow costs nothing, and one that is too slow is
told of the gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header, Query, Request
from fastapi.responses import Response

from agentkit_runtime.api.caller import caller_of
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.sse import EventStream
from agentkit_runtime.api.standing import Seat, Standings
from agentkit_runtime.kv.events import BlockRemoved, BlockStored, Gap, KvEvent, Numbered
from agentkit_runtime.steering import NoEvents, Steering

BEAT_S = 15.0
"""A stream without events says so often that it is still there: proxies cut silent ones."""

_NUMBER = re.compile(r"[0-9]{1,18}")

Since = Annotated[
    int | None, Query(ge=0, description="Number of the last event that was seen; else new ones.")
]
LastEventId = Annotated[str | None, Header(description="What browsers send when they reconnect.")]


class EventEndpoint:
    """`GET /admin/v1/kv-events`."""

    def __init__(self, steering: Steering) -> None:
        self._steering = steering

    async def stream(
        self,
        request: Request,
        since: Since = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Every block that comes and goes, numbered, until the client leaves or its key ends.

        Blocks are named; token ids, which are prompts, are not told here. Each event's `id` is its
        number. An event `gap` says that events are missing: start anew.
        """
        wakeup = Wakeup()
        try:
            newest, leave = await self._steering.follow_events(wakeup.event)
        except NoEvents as error:
            raise ApiError(str(error), status=404, code="kv_events_off") from error
        seen = newest if since is None else since
        if last_event_id is not None and _NUMBER.fullmatch(last_event_id):
            seen = int(last_event_id)
        standings: Standings = request.app.state.site.answering.standings
        seat = standings.join(
            caller_of(request), request.state.caller_now, wakeup.ring, role="admin"
        )

        def close() -> None:
            seat.leave()
            leave()

        return EventStream(self._events(seen, wakeup, seat), on_close=close)

    async def _events(self, seen: int, wakeup: Wakeup, seat: Seat) -> AsyncIterator[bytes]:
        while seat.refusal() is None:
            wakeup.clear()
            found = await self._steering.events_since(seen)
            if isinstance(found, Gap):
                seen = found.first_kept - 1
                yield _framed(seen, "gap", {"first_kept": found.first_kept})
            elif found:
                seen = found[-1].seq
                yield b"".join(_encoded(numbered) for numbered in found)
            elif not await wakeup.wait(BEAT_S):
                yield b": nothing new\n\n"


class Wakeup:
    """Wakes one reader in its event loop, from the engine's thread, without ever waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._awake = asyncio.Event()
        self._rung = False

    def event(self, seq: int, event: KvEvent) -> None:
        """There is something new. A subscriber of `kv.events.EventLog`."""
        self.ring()

    def ring(self) -> None:
        """Wake the reader. From any thread."""
        if not self._rung:  # once is enough until the reader looks
            self._rung = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
                self._loop.call_soon_threadsafe(self._awake.set)

    def clear(self) -> None:
        """The reader is about to look."""
        self._awake.clear()
        self._rung = False

    async def wait(self, within_s: float) -> bool:
        """Wait for something new; False when nothing came."""
        try:
            await asyncio.wait_for(self._awake.wait(), within_s)
        except TimeoutError:
            return False
        return True


def _encoded(numbered: Numbered) -> bytes:
    event = numbered.event
    match event:
        case BlockStored():
            parent = event.parent_block_hash
            stored = {
                "block_hashes": [name.hex() for name in event.block_hashes],
                "parent_block_hash": None if parent is None else parent.hex(),
                "block_size": event.block_size,
                "medium": event.medium.value,
                "format": event.format.value,
                "namespace": event.namespace.hex() or None,
            }
            return _framed(numbered.seq, "block_stored", stored)
        case BlockRemoved():
            names = [name.hex() for name in event.block_hashes]
            removed = {"block_hashes": names, "medium": event.medium.value}
            return _framed(numbered.seq, "block_removed", removed)
        case _:
            return _framed(numbered.seq, "all_blocks_cleared", {})


def _framed(seq: int, name: str, document: object) -> bytes:
    data = json.dumps(document, separators=(",", ":"))
    return f"id: {seq}\nevent: {name}\ndata: {data}\n\n".encode("ascii")
