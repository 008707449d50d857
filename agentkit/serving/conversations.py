"""What a served agent keeps between calls: conversations by name, and runs that wait. Bounded."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agentkit.context import Context
from agentkit.saved import PausedRun

_FORGOTTEN_PER_KEPT = 10
"""Names that are remembered as forgotten, for each conversation that may be kept."""


class Forgotten(Exception):
    """A conversation was kept once, and is not any more. The message is for the client's model."""


@dataclass(slots=True, eq=False)
class Conversation:
    """One conversation; calls that go on with it take turns."""

    name: str | None
    """None: nobody can go on with it."""
    context: Context | None = None
    """None: it has not begun."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    n_users: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A run that waits for a person."""

    paused: PausedRun
    session: str | None


class Conversations:
    """The conversations and waiting runs of one served agent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._named: OrderedDict[str, Conversation] = OrderedDict()
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()

    @asynccontextmanager
    async def at(self, name: str | None) -> AsyncGenerator[Conversation, None]:
        """Hold a conversation, when those before have left it.

        Raises:
            Forgotten: it was dropped, because there were too many.
        """
        if name is None:
            yield Conversation(None)
            return
        if name in self._forgotten:
            raise Forgotten(
                f"The session {name!r} is not known any more: {self._limit} others came after it. "
                "Begin a new one under another name, and say in the prompt what matters."
            )
        conversation = self._named.setdefault(name, Conversation(name))
        conversation.n_users += 1
        try:
            async with conversation.turn:
                yield conversation
        finally:
            conversation.n_users -= 1
            self._named.move_to_end(name)
            self._drop()

    def waits(self, waiting: Waiting) -> None:
        """Keep a run that waits; of too many, the one that has waited longest is given up."""
        self._waiting[waiting.paused.run_id] = waiting
        while len(self._waiting) > self._limit:
            self._waiting.popitem(last=False)

    def waiting(self, run_id: str) -> Waiting | None:
        """Return a run that waits, if it is known here."""
        return self._waiting.get(run_id)

    def waiting_in(self, session: str | None) -> Waiting | None:
        """Return the run that a session waits for, if there is one."""
        if session is None:
            return None
        return next((each for each in self._waiting.values() if each.session == session), None)

    def taken(self, run_id: str) -> Waiting | None:
        """Return a run that waits; it is the caller's from now on."""
        return self._waiting.pop(run_id, None)

    def _drop(self) -> None:
        for name, conversation in list(self._named.items()):
            if len(self._named) <= self._limit:
                break
            if conversation.n_users == 0:
                del self._named[name]
                self._forgotten[name] = None
        while len(self._forgotten) > self._limit * _FORGOTTEN_PER_KEPT:
            self._forgotten.popitem(last=False)
