"""One turn of the model, asked as often as its failures allow."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing

from agentkit.context import Context
from agentkit.counting import count_broken, count_turn
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import ModelEvent, Turn, TurnDropped, TurnEnd
from agentkit.folding import TurnBuilder
from agentkit.hints import conversation_ended, subagents_may_follow
from agentkit.hooking import before_model
from agentkit.models.base import ModelRequest
from agentkit.models.wiretap import listeners
from agentkit.quoting import RequestEstimate
from agentkit.state import RunState
from agentkit.telemetry import ask_model

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
_LONGEST_ASKED_WAIT_S = 300.0
"""If the provider asks to wait longer, the run fails and says so; it does not sleep for hours."""


class ModelTurn:
    """A question to the model, and its answer."""

    def __init__(self, run: RunState, index: int) -> None:
        self._run = run
        self.index = index
        """Number of the turn within its run, from 0."""
        self._request: ModelRequest | None = None
        self._turn: Turn | None = None

    @property
    def request(self) -> ModelRequest:
        """What the model was asked."""
        assert self._request is not None, "events() has not run"
        return self._request

    @property
    def is_answered(self) -> bool:
        """Whether the model has answered."""
        return self._turn is not None

    @property
    def turn(self) -> Turn:
        """What the model answered."""
        assert self._turn is not None, "events() has not run to its end"
        return self._turn

    def appended_to(self, context: Context) -> Context:
        """The context with the turn; as it is, if the model was not asked."""
        return context if self._turn is None else context.append(self._turn.message)

    @property
    def end(self) -> TurnEnd:
        """The event that says so."""
        return TurnEnd(index=self.index, turn=self.turn)

    def prepare(self) -> None:
        """Know what the model was asked, where another process has asked it."""
        self._request = self._run.member.request(self._run, self.index, 0)

    async def events(self) -> AsyncGenerator[ModelEvent | TurnDropped, None]:
        """Ask, and yield what the model says.

        Raises:
            LimitReached: what is left of a limit does not allow it.
            PriceUnknown: money is limited, and the model's price is not known.
            ModelError: the model failed for good, or too often.
        """
        run = self._run
        for attempt in itertools.count():
            self._request = request = run.member.request(run, self.index, attempt)
            estimate = RequestEstimate(run, request)
            reservation = await estimate.reserve()
            builder, has_begun = TurnBuilder(), False
            failure: ModelError | None = None
            try:
                await before_model(run, request)
                subagents_may_follow(run, request)
                async with aclosing(self._stream(request)) as model_events:
                    async for event in model_events:
                        has_begun = True
                        builder.push(event)
                        yield event
                self._turn = turn = builder.finish()
                count_turn(run, turn, estimate.used(builder))
            except ModelError as error:
                has_begun = has_begun or error.response_began
                count_broken(run, builder, estimate if has_begun else None)
                failure = error
            except BaseException:
                if has_begun and self._turn is None:
                    # It ends here, and yet the provider wants to be paid for what it did.
                    count_broken(run, builder, estimate)
                raise
            finally:
                reservation.settle()
            if failure is None:
                self._answered(request, turn)
                return
            wait_s = await self._wait_s(failure, attempt)
            if wait_s is None:
                raise failure
            yield TurnDropped(index=self.index, error=failure, wait_s=wait_s)
            await asyncio.sleep(wait_s)

    def _stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for listener in listeners():
            listener.asked(request)
        return ask_model(self._run, request)

    def _answered(self, request: ModelRequest, turn: Turn) -> None:
        last = self._run.last_request
        if last is not None and last.epoch != request.epoch:
            conversation_ended(self._run)  # as it was before it began anew
        self._run.answered(request, turn.length)

    async def _wait_s(self, error: ModelError, attempt: int) -> float | None:
        """Return after how many seconds to ask again; None: not at all."""
        if isinstance(error, RequestRefused) and await self._run.undo_epoch():
            return 0.0
        if not error.retryable or attempt >= self._run.member.agent.max_retries:
            return None
        if (error.retry_after_s or 0.0) > _LONGEST_ASKED_WAIT_S:
            return None
        return _backoff_s(error, attempt)


def _backoff_s(error: ModelError, attempt: int) -> float:
    if error.retry_after_s is not None:
        return error.retry_after_s
    return min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**attempt)
