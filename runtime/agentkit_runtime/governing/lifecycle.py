"""Where a server is in its life, for probes, for the gate, and for whoever ends it."""

from __future__ import annotations

import asyncio
from typing import Literal

Phase = Literal["starting", "ready", "draining", "stopped"]


class Lifecycle:
    """The phase of one server, and how many requests are being answered.

    All methods are called in the server's event loop; `phase` may be read from any thread.
    """

    def __init__(self, phase: Phase = "starting") -> None:
        self.phase: Phase = phase
        self._n_inside = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def accepts(self) -> bool:
        """Whether new requests are let in."""
        return self.phase == "ready"

    @property
    def n_inside(self) -> int:
        """Requests that are being answered."""
        return self._n_inside

    def ready(self) -> None:
        """The model is loaded and warm: let requests in. Ends a drain, too."""
        if self.phase != "stopped":
            self.phase = "ready"

    def drain(self) -> None:
        """Let no new request in; those inside go on."""
        if self.phase != "stopped":
            self.phase = "draining"

    def stop(self) -> None:
        """Nothing is answered any more. Final."""
        self.phase = "stopped"

    def enter(self) -> None:
        """A request came in."""
        self._n_inside += 1
        self._empty.clear()

    def leave(self) -> None:
        """A request is over."""
        self._n_inside -= 1
        if not self._n_inside:
            self._empty.set()

    async def emptied(self, within_s: float) -> bool:
        """Wait until nobody is inside; False when that takes longer than `within_s`."""
        try:
            await asyncio.wait_for(self._empty.wait(), within_s)
        except TimeoutError:
            return not self._n_inside
        return True
