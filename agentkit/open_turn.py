"""A turn of the model while its calls are being answered."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.blocks import AssistantMessage, ToolMessage, ToolResult
from agentkit.context import Context
from agentkit.saved import Answer, Asked, SavedRun, SavedTurn


class OpenTurn:
    """The model's message, and what is known of its calls so far."""

    def __init__(
        self,
        message: AssistantMessage,
        saved: SavedTurn | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        self.message = message
        self.answers = {**({} if saved is None else saved.answers), **(answers or {})}
        """What people have said to calls that waited, by call id."""
        self.results: dict[str, ToolResult] = {} if saved is None else dict(saved.results)
        """Of the calls that are done, by call id."""
        self.started: set[str] = set() if saved is None else set(saved.started)
        """Ids of calls that were begun."""
        self.waiting: set[str] = set() if saved is None else set(saved.waiting)
        """Ids of calls that wait for a person, until they are taken up again."""
        self.asked: dict[str, Asked] = {} if saved is None else dict(saved.asked)
        """What calls that wait have asked, by call id, until they are taken up again."""
        done = self.results.keys() | self.waiting | self.asked.keys()
        self.interrupted: frozenset[str] = frozenset(self.started - done)
        """Ids of calls that another process has begun, and did not end."""

    def answer(self) -> ToolMessage:
        """Return the results in call order; calls without one say so."""
        return ToolMessage(
            tuple(
                self.results.get(call.id)
                or ToolResult(
                    call_id=call.id,
                    name=call.name,
                    content=self._why_not(call.id),
                    is_error=True,
                )
                for call in self.message.calls
            )
        )

    @property
    def n_counted(self) -> int:
        """Calls that limits know; see `SavedTurn.n_counted`."""
        return len(self.started | self.results.keys())

    def _why_not(self, call_id: str) -> str:
        if call_id in self.asked:
            return _NOT_ANSWERED
        if call_id in self.waiting:
            return _NOT_APPROVED
        return _CANCELLED if call_id in self.started else _NOT_RUN

    @staticmethod
    def closed(run: SavedRun) -> Context:
        """Return a saved run's context with its open turn; calls without a result say so."""
        if run.open_turn is None:
            return run.context
        turn = OpenTurn(run.open_turn.message, run.open_turn)
        return run.context.append(turn.message, turn.answer())

    def saved(self) -> SavedTurn:
        """Return its value."""
        return SavedTurn(
            message=self.message,
            results=dict(self.results),
            started=frozenset(self.started),
            waiting=frozenset(self.waiting),
            answers=dict(self.answers),
            asked=dict(self.asked),
        )


_CANCELLED = "This call was cancelled before it had a result. Whether it had an effect is unknown."
_NOT_RUN = "This call was not run: the run ended before."
_NOT_APPROVED = "This call was not run: it waits for approval."
_NOT_ANSWERED = (
    "This call has no result: its server asked a question that nobody answered. Whether it had an "
    "effect is unknown."
)
