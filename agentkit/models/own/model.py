"""What models of our own runtime have in common, in this process or behind HTTP."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from agentkit.blocks import File, Image
from agentkit.models.base import ModelRequest
from agentkit.models.own.encoding import Encoder, session_of, tenant_of
from agentkit.models.own.hints import SUBAGENTS_WITHIN_S
from agentkit.models.waits import ToolWaits
from agentkit.usage import Timing, Usage
from agentkit_runtime.chat import DEFAULT_TENANT, ChatRequest
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.types import Priority

if TYPE_CHECKING:
    from agentkit.caching.verdict import Verdict


class OwnModel(ABC):
    """A model that our runtime runs: what it can do, and what it is told beside requests."""

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._waits = ToolWaits()

    @property
    def siblings_start_together(self) -> bool:
        """True: the runtime's scheduler computes a shared cold prefix once."""
        return True

    def shows(self, block: Image | File) -> bool:
        """False: the runtime reads text only."""
        return False

    @property
    def costs_nothing(self) -> bool:
        """True: nobody sends a bill for a machine of one's own."""
        return True

    @asynccontextmanager
    async def kept_alive(
        self, request: ModelRequest, on_ping: Callable[[Usage, Timing, Verdict], None]
    ) -> AsyncIterator[None]:
        """Tell the runtime that this run waits for its tools and will then go on.

        Its prefix is then kept before ordinary ones. There is nothing to pay and no ping.
        """
        loop, tenant, agent = asyncio.get_running_loop(), request.tenant, request.agent
        expected_s, begun_s = self._waits.expected_s(tenant, agent), loop.time()
        hint = SessionWaits(session_of(request), expected_s, tenant_of(request))
        self._advise(hint, request.tenant)
        try:
            yield
        finally:
            self._waits.took(tenant, agent, loop.time() - begun_s)

    def likely_next(self, agents: frozenset[str], tenant: str) -> None:
        """Keep what runs of these agents begin with; see `TakesHints`."""
        if agents:
            hint = LikelyNext(agents, SUBAGENTS_WITHIN_S, tenant or DEFAULT_TENANT)
            self._advise(hint, tenant)

    def conversation_ended(self, request: ModelRequest) -> None:
        """Let its tail be the first that is evicted; see `TakesHints`."""
        self._advise(SessionDone(session_of(request), tenant_of(request)), request.tenant)

    def _front(self, request: ModelRequest) -> ChatRequest:
        """What a warm-up computes: when nothing else waits, and of no conversation.

        A front is its agent's, which its tag says.
        """
        return replace(self._encoded(request), session=None, priority=Priority.BATCH)

    def _encoded(self, request: ModelRequest) -> ChatRequest:
        """The request in the runtime's form."""
        return self._encoder.encode(request)

    @abstractmethod
    def _advise(self, hint: Hint, tenant: str) -> None:
        """Hand a hint over without waiting for it. `tenant` is that of the request, "" if none."""
