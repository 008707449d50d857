"""The state of one run: the only mutable thing in the loop."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit.blocks import Message
from agentkit.caching.report import RequestRecord
from agentkit.context import Context
from agentkit.events import Event, OwnEvent, SubagentEvent
from agentkit.knowledge.shown import shown_uris
from agentkit.result import Outcome, RunRecord
from agentkit.toolset import ToolContext
from agentkit.usage import Timing, Usage

if TYPE_CHECKING:
    from agentkit.caching.verdict import Verdict
    from agentkit.models.base import ModelRequest
    from agentkit.team.members import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is known of a conversation at the end of a run, and its context does not say."""

    length: Usage | None
    epoch: int
    version: int | None
    seen: frozenset[str]


class RunState:
    """What one run knows of itself. `context` is always valid: every call has its result."""

    def __init__(
        self,
        *,
        member: Member,
        context: Context,
        path: tuple[str, ...],
        version: int | None = None,
        epoch: int = 0,
        run_id: str | None = None,
        session: str | None = None,
    ) -> None:
        self.member = member
        self.path = path
        self.run_id = run_id or uuid.uuid4().hex
        self.session = session or self.run_id
        """One conversation and everything below it."""
        self.epoch = epoch
        """How often the context was begun anew on purpose, as far as is known."""
        self.context = context
        self.version = version
        """The version of its knowledge that the context shows; None: its own text says that."""
        self.told_version: int | None = None
        """The latest version that was looked at for changes."""
        self.last_request: ModelRequest | None = None
        """What the model was asked last."""
        self.last_usage: Usage | None = None
        """How long the context was then; None: not known, as at the beginning of an epoch."""
        self.may_begin_epochs = True
        """Whether it is not known yet that the model refuses them."""
        self.seen: frozenset[str] = frozenset()
        """URIs of the documents that were shown in the epochs before."""
        self.summary_not_before = 0
        """After a summary that failed: the turn before which none is asked for again."""
        self.n_failed_summaries = 0
        self.pause_requested = False
        self.n_repairs = 0
        """How often the model was asked to correct its answer."""
        self.sink: Callable[[Event], None] | None = None
        """Takes the events of runs below while this run waits for them; None drops them."""
        self.broken: AssertionError | None = None
        """A failed assertion in a run below. It is no subagent's failure, but ends everything."""
        self._n_old_messages = len(context.messages)
        self._said_before: tuple[Message, ...] = ()
        """What this run added in the epochs before."""
        self._undo: tuple[Member, Context, int, tuple[Message, ...]] | None = None
        """What `begin_epoch` has replaced, until the model has answered in the new epoch."""
        self._requests: list[RequestRecord] = []
        self._below: list[RunState] = []
        self._children: list[Outcome] = []
        self._started_s = time.monotonic()

    def child(self, member: Member, label: str) -> RunState:
        """Return the state of a run below this one, with a fresh context.

        The order of these calls is that of the runs in records and reports.
        """
        begun = member.begun()
        below = RunState(
            member=begun.member,
            context=begun.member.front,
            version=begun.version,
            epoch=begun.epoch,
            path=(*self.path, label),
            session=self.session,
        )
        self._below.append(below)
        return below

    def recall(self, memory: Memory | None) -> None:
        """Go on from what is known of the conversation; nothing is, if it comes from elsewhere."""
        if memory is not None:
            self.last_usage = memory.length
            self.epoch = memory.epoch
            self.version = memory.version
            self.seen = memory.seen

    @property
    def memory(self) -> Memory:
        """What is known of the conversation now, for `recall`."""
        return Memory(
            length=self.last_usage, epoch=self.epoch, version=self.version, seen=self.seen
        )

    def answered(self, request: ModelRequest, length: Usage) -> None:
        """The model has answered: what it was asked, and how long that was."""
        self.last_request, self.last_usage = request, length
        self._undo = None

    def begin_epoch(self, context: Context, *, otherwise: Context | None = None) -> None:
        """Go on with a context that was begun anew, and holds what was said before.

        Args:
            context: the new one.
            otherwise: what to go on with if the model refuses it; by default the one before.
        """
        kept = self.context if otherwise is None else otherwise
        self._undo = (self.member, kept, self._n_old_messages, self._said_before)
        self._said_before = self.new_messages
        self.seen |= shown_uris(self.context)
        self._n_old_messages = len(context.messages)
        self.context = context
        self.last_usage = None
        self.epoch += 1

    def undo_epoch(self) -> bool:
        """Go back to the context before the epoch, if nothing was answered in it. No more of them.

        For models that refuse it: older ones want the thinking of the last turn to be replayed.
        """
        if self._undo is None:
            return False
        self.member, self.context, self._n_old_messages, self._said_before = self._undo
        self._undo = None
        self.epoch += 1
        self.may_begin_epochs = False
        self.summary_not_before = sys.maxsize
        return True

    @property
    def is_below(self) -> bool:
        """Whether it is the run of a subagent."""
        return len(self.path) > 1

    def begin(self) -> None:
        """Count the run's time from now, if it had to wait for its turn."""
        self._started_s = time.monotonic()

    def count_request(self, usage: Usage, timing: Timing, verdict: Verdict | None = None) -> None:
        """Count a request of this run, which the records of all runs above include."""
        self._requests.append(
            RequestRecord(
                path=self.path,
                model=self.member.model.label,
                usage=usage,
                timing=timing,
                verdict=verdict,
                run_id=self.run_id,
                session=self.session,
                tenant=self.member.tenant,
                epoch=self.epoch,
            )
        )

    def count_child(self, outcome: Outcome) -> None:
        """Keep how a run below ended."""
        self._children.append(outcome)

    def emit_from_below(self, event: OwnEvent | SubagentEvent, below: RunState) -> None:
        """Pass on an event of a run below, flat: with the path of the run that it is of."""
        if self.sink is None:
            return
        if not isinstance(event, SubagentEvent):
            event = SubagentEvent(path=below.path, run_id=below.run_id, event=event)
        try:
            self.sink(event)
        except Exception as error:
            raise ListenerFailed(error) from error

    def record(self) -> RunRecord:
        """Return what the run has done so far."""
        return RunRecord(
            run_id=self.run_id,
            path=self.path,
            context=self.context,
            messages=self.new_messages,
            requests=tuple(self._all_requests()),
            children=tuple(self._children),
            total_s=time.monotonic() - self._started_s,
        )

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What this run has added to the history, over all its epochs."""
        return (*self._said_before, *self.context.messages[self._n_old_messages :])

    def _all_requests(self) -> Iterator[RequestRecord]:
        # Not in order of time: which of two runs at once ends a request first is chance, and equal
        # runs should have equal reports.
        yield from self._requests
        for below in self._below:
            yield from below._all_requests()


class ListenerFailed(Exception):
    """Who hears the events failed: no failure of the run whose event it was."""

    def __init__(self, error: Exception) -> None:
        super().__init__(repr(error))
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(ToolContext[object]):
    """The tool context that our loop hands out: it knows the run, for tools that start others."""

    run: RunState
