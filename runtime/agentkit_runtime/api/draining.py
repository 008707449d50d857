"""The end of a server: what runs is finished, or ends with a word about it.

On the first signal nothing new is let in, while probes and refusals are still answered, so that a
router sees it and sends requests elsewhere. Answers that are still running after `drain_s` are
aborted: their streams end with an error that says so, and what was computed of their prompts stays
in the cache (and on disk, where there is a disk tier), so that a retry starts warm. A second signal
ends all at once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from types import FrameType

import uvicorn

from agentkit_runtime.api.answering import Answering
from agentkit_runtime.governing.lifecycle import Lifecycle

_LOG = logging.getLogger(__name__)

_LAST_WORDS_S = 5.0
"""How long aborted answers may take to say so."""

_LOOK_S = 0.1
"""How often one looks whether a second signal came."""


class DrainingServer(uvicorn.Server):
    """A uvicorn server that drains before it stops listening."""

    def __init__(
        self,
        config: uvicorn.Config,
        lifecycle: Lifecycle,
        *,
        drain_s: float,
    ) -> None:
        super().__init__(config)
        self._lifecycle = lifecycle
        self._drain_s = drain_s
        self.answering: Answering | None = None
        """What is to be drained; None while there is no model yet."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came: end, or with the second one end at once.

        To uvicorn only a second SIGINT is one; who stops services sends SIGTERM.
        """
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then stop listening and close what is left."""
        self._lifecycle.drain()
        if self._lifecycle.n_inside:
            _LOG.info("waiting for %d requests to finish", self._lifecycle.n_inside)
        if not await self._emptied(self._drain_s) and self.answering is not None:
            n_cut = self.answering.abort_all()
            _LOG.warning("%d requests did not finish in time and end now", n_cut)
            await self._emptied(_LAST_WORDS_S)
        self._lifecycle.stop()
        await super().shutdown(sockets)

    async def _emptied(self, within_s: float) -> bool:
        """Wait until nobody is inside, at most `within_s`, or until a second signal."""
        due_s = asyncio.get_running_loop().time() + within_s
        while not self.force_exit:
            left_s = due_s - asyncio.get_running_loop().time()
            if await self._lifecycle.emptied(max(0.0, min(_LOOK_S, left_s))):
                return True
            if left_s <= 0:
                return False
        return False
