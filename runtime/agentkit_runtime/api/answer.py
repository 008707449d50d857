"""The answers to one request while they are generated."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentkit_runtime.chat import ChatEvent, ChatFinished, ChatRequest
from agentkit_runtime.reply import ChatStream, abort_all, merged

if TYPE_CHECKING:
    from agentkit_runtime.api.asked import Ticket
    from agentkit_runtime.api.standing import Seat
    from agentkit_runtime.api.watches import Watches


class Answer:
    """The answers to one request while they are generated. Close it, however it ends."""

    def __init__(
        self,
        chat: ChatRequest,
        streams: Sequence[ChatStream],
        ticket: Ticket,
        watches: Watches,
        on_close: Callable[[Answer], None],
        join: Callable[[Callable[[], None]], Seat] | None = None,
    ) -> None:
        """`join` watches over the answers' key, and calls what it is given when that is let in no
        more; without it nothing ends them."""
        self.chat = chat
        """What is answered: the caller's, labelled and bounded."""
        self._streams = streams
        self._ticket = ticket
        self._watches = watches
        self._on_close = on_close
        self._closed = False
        self._seat = None if join is None else join(self.abort)

    @property
    def n(self) -> int:
        """How many answers there are."""
        return len(self._streams)

    @property
    def streams(self) -> Sequence[ChatStream]:
        """The answers themselves, to look at: `events` reads them, `close` ends them."""
        return self._streams

    async def events(self) -> AsyncGenerator[tuple[int, ChatEvent], None]:
        """The events of all answers as they come, each with its answer's rank.

        Once their key is revoked, only ends come, and say so.
        """
        try:
            async with aclosing(merged(self._streams)) as events:
                async for index, event in events:
                    self._ticket.event(index, event)
                    told = self._allowed(event)
                    if told is not None:
                        self._watches.event(index, told)
                        yield index, told
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

    def _allowed(self, event: ChatEvent) -> ChatEvent | None:
        """What may be told of an event; None is nothing."""
        refusal = None if self._seat is None else self._seat.refusal()
        if refusal is None:
            return event
        self.abort()
        if not isinstance(event, ChatFinished):
            return None
        # Without the ids: they say what was held back.
        return dataclasses.replace(
            event, reason="abort", error=refusal.message, revoked=True, token_ids=(), stop=None
        )

    def abort(self) -> None:
        """Stop what still runs; who reads the events is told so by their last one."""
        abort_all(self._streams)

    def close(self, failure: BaseException | None = None) -> None:
        """Stop what still runs and give its place back. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._on_close(self)
        if self._seat is not None:
            self._seat.leave()
        abort_all(self._streams)
        self._ticket.leave()
        self._watches.closed(failure)
