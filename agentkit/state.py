"""The state of one run: the only mutable thing in the loop. `saved()` is it as a value."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from agentkit.blocks import Message
from agentkit.budget import Budget
from agentkit.caching.report import RequestRecord
from agentkit.context import Context
from agentkit.context.turns import behind
from agentkit.events import ContextCompacted, Event
from agentkit.journal import JournalError
from agentkit.keeping import Keeper
from agentkit.knowledge.shown import shown_uris
from agentkit.limits import Limits
from agentkit.open_turn import OpenTurn
from agentkit.quote import Quote
from agentkit.result import Outcome, RunRecord, RunResult, failure_text
from agentkit.run_services import RunServices
from agentkit.runs_below import RunsBelow
from agentkit.saved import Memory, SavedEnd, SavedRun, Status, WayBack
from agentkit.shares import Shares
from agentkit.shown_tools import ShownTools
from agentkit.toolset import ToolContext, Toolset
from agentkit.usage import Usage
from agentkit.used_before import subtree

if TYPE_CHECKING:
    from agentkit.hooks import Hooks
    from agentkit.models.base import ModelRequest
    from agentkit.team.members import Member
    from agentkit.team.renewing import Renewal


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
        parent: str | None = None,
        call_id: str | None = None,
        number: int = 0,
        under: str = "",
        budget: Budget | None = None,
        services: RunServices | None = None,
        hooks_above: tuple[Hooks, ...] = (),
        claim: str | None = None,
    ) -> None:
        self.member = member
        self.agent_name = member.name
        """Who began the run."""
        self.path = path
        self.run_id = run_id or uuid.uuid4().hex
        self.session = session or self.run_id
        """One conversation and everything below it."""
        self.claim = uuid.uuid4().hex if claim is None else claim
        """By which right the whole tree is saved."""
        self.parent = parent
        self.call_id = call_id
        self.number = number
        self.under = under
        """Who was active in the run above, where that had been handed over."""
        self.budget = budget or Budget(Limits())
        self._shares = Shares(member.name, self.budget)
        """What each agent that has taken part has used."""
        self.services = services or RunServices()
        self._hooks_above, self._own_hooks = hooks_above, tuple(member.agent.hooks)
        """Those of the runs above that are for their whole team."""
        self.prompt = ""
        """The task, as text."""
        self.status: Status = "running"
        self.end: SavedEnd | None = None
        self.outcome: Outcome | None = None
        """How it ended, for the run above."""
        self.turn = 0
        """Number of the open turn, or of the next one."""
        self.open: OpenTurn | None = None
        """The turn whose calls are being answered; `context` is without it."""
        self.epoch = epoch
        """How often the context was begun anew on purpose, as far as is known."""
        self.context = context
        self.version = version
        """The version of its knowledge that the context shows; None: its own text says that."""
        self.told_version: int | None = None
        """The latest version that was looked at for changes."""
        self.told_tools: Mapping[str, tuple[int, bool]] = {}
        """By server: what it was like when its tools were last compared with what is shown."""
        self.lists_told: Mapping[str, str] = {}
        """By server: digest of the list that was last told of, in this run or one before."""
        self._shown = ShownTools()
        self.last_request: ModelRequest | None = None
        """What the model was asked last."""
        self.last_usage: Usage | None = None
        """How long the context was then; None: not known, as at the beginning of an epoch."""
        self.may_begin_epochs = True
        """Whether it is not known yet that the model refuses them."""
        self.seen: frozenset[str] = frozenset()
        """URIs of the documents that were shown in the epochs before."""
        self.kept: Mapping[str, str] = {}
        """Tool results that the context shows in part, whole, by handle. Never changed in place."""
        self.summary_not_before = 0
        """After a summary that failed: the turn before which none is asked for again."""
        self.n_failed_summaries = 0
        self.pause_requested = False
        self.prepared_turn: int | None = None
        """The turn for which hooks have said all that they say before it."""
        self.n_repairs = 0
        """How often the model was asked to correct its answer."""
        self.sink: Callable[[Event], None] | None = None
        """Takes the events of runs below while this run waits for them; None drops them."""
        self.broken: Exception | None = None
        """What came from a run below and is no subagent's failure, but ends everything."""
        self._n_old_messages = len(context.messages)
        self._said_before: tuple[Message, ...] = ()
        """What this run added in the epochs before."""
        self.began_anew: ContextCompacted | None = None
        """That its agent had changed, until an event has told that."""
        self._undo: tuple[Member, Context, int, tuple[Message, ...]] | None = None
        """What `begin_epoch` has replaced, until the model has answered in the new epoch."""
        self._requests: list[RequestRecord] = []
        self.below = RunsBelow()
        """Begun by its tools."""
        self._is_restored = False
        self.was_asking = False
        """Whether the process that had the run before has ended while the model was asked."""
        journal = self.services.journal
        self._keeper = None if journal is None else Keeper(journal)
        self._began_at = time.time()
        self._started_s = time.monotonic()
        self._before_s = 0.0
        """How long other processes have run it."""

    @staticmethod
    def restored(
        member: Member,
        saved: SavedRun,
        services: RunServices,
        budget: Budget,
        hooks_above: tuple[Hooks, ...] = (),
    ) -> RunState:
        """Return the state of a run that was begun before, by itself.

        `team/below.py` puts it back with those below, and says what the arguments are.
        """
        run = RunState(
            member=member,
            context=saved.context,
            path=saved.path,
            run_id=saved.run_id,
            session=saved.session,
            parent=saved.parent,
            call_id=saved.call_id,
            number=saved.number,
            under=saved.under,
            budget=budget,
            services=services,
            hooks_above=hooks_above,
            claim=saved.claim,
        )
        run._is_restored = True
        if services.journal is not None:
            run._keeper = Keeper(services.journal, saved)
        run.prepared_turn = saved.memory.prepared_turn
        run.agent_name = saved.agent
        run.prompt, run.turn, run.n_repairs = saved.prompt, saved.turn, saved.n_repairs
        run._n_old_messages, run._said_before = saved.n_old_messages, saved.said_before
        run._requests = list(saved.requests)
        run._began_at = saved.began_at
        run._before_s, run._shares.taken_over_s = saved.total_s, dict(saved.taken_over_s)
        if saved.open_turn is not None:
            answers = services.answers.get(saved.run_id)
            run.open = OpenTurn(saved.open_turn.message, saved.open_turn, answers)
        run.was_asking = saved.status == "running" and saved.open_turn is None
        run.recall(saved.memory)
        run._undo = run._found_back(member, saved)
        if saved.status == "done" or (saved.status == "failed" and saved.parent is not None):
            run.status, run.end = saved.status, saved.end
        return run

    @property
    def toolset(self) -> Toolset:
        """All tools that the conversation was shown: in front, and later."""
        return self._shown.toolset(self.member, self.context)

    @property
    def own_tools(self) -> frozenset[str]:
        """Those of them that the active agent may call."""
        return self._shown.own(self.member, self.context)

    @property
    def hooks(self) -> tuple[Hooks, ...]:
        """Those that this run calls, in their order."""
        if not self.taken_over_by:
            return (*self._hooks_above, *self._own_hooks)
        team = (each for each in self._own_hooks if each.whole_team)
        return (*self._hooks_above, *team, *self.member.agent.hooks)

    @property
    def team_hooks(self) -> tuple[Hooks, ...]:
        """Those of them that are for the runs below, too."""
        return tuple(each for each in self.hooks if each.whole_team)

    def result(self, end: SavedEnd, output: object = None) -> RunResult[object]:
        """Return the result of a run that has its answer."""
        record = self.record()
        return RunResult(
            **{item.name: getattr(record, item.name) for item in fields(record)},
            output=self.member.output.parse(end.text) if output is None else output,
            text=end.text,
            finish=end.finish,
        )

    def close_turn(self) -> None:
        """Make the open turn and the results of its calls part of the context."""
        assert self.open is not None, "no turn is open"
        self.context = self.closed_context
        self.open = None

    @property
    def closed_context(self) -> Context:
        """The context with the open turn; calls without a result say so."""
        if self.open is None:
            return self.context
        return self.context.append(self.open.message, self.open.answer())

    async def commit(self, status: Status = "running", end: SavedEnd | None = None) -> None:
        """A step is done: keep it, if there is a journal, before the next begins.

        Raises:
            JournalError: it could not be kept.
        """
        self.status, self.end = status, end
        if self._keeper is not None:
            await self._keeper.keep(self.saved)

    async def failed(self, error: BaseException) -> None:
        """Keep that the run failed or was cancelled here, at the last step that was kept.

        Calls that the step has not answered are open in it, so that whoever resumes the run may
        still do them, though the context here has them as cancelled.
        """
        keeper = self._keeper
        is_over = self.status in ("done", "paused") or isinstance(error, JournalError)
        if keeper is None or keeper.last is None or is_over:
            return
        self.status = "cancelled" if isinstance(error, _FROM_OUTSIDE) else "failed"
        self.end = SavedEnd(error=failure_text(error))
        last = self._with_spent(keeper.last)
        await keeper.keep_end(replace(last, status=self.status, end=self.end))

    async def cut_off(self) -> None:
        """Keep what was used since the last step: the run is cut off, and may be gone on with.

        Here it is as it was, for the run above, which decides what becomes of it.
        """
        keeper = self._keeper
        if keeper is not None and keeper.last is not None and self.status not in ("done", "paused"):
            await keeper.keep_end(replace(self._with_spent(keeper.last), status="cancelled"))

    def _with_spent(self, step: SavedRun) -> SavedRun:
        return replace(
            step,
            requests=tuple(self._requests),
            total_s=self._total_s,
            taken_over_s=dict(self._shares.taken_over_s),
        )

    def saved(self) -> SavedRun:
        """Return the run as data."""
        return SavedRun(
            run_id=self.run_id,
            parent=self.parent,
            call_id=self.call_id,
            number=self.number,
            under=self.under,
            path=self.path,
            agent=self.agent_name,
            session=self.session,
            tenant=self.member.tenant,
            user=self.services.user,
            prompt=self.prompt,
            status=self.status,
            context=self.context,
            turn=self.turn,
            open_turn=None if self.open is None else self.open.saved(),
            n_repairs=self.n_repairs,
            memory=self.memory,
            n_old_messages=self._n_old_messages,
            said_before=self._said_before,
            way_back=self._way_back,
            requests=tuple(self._requests),
            end=self.end,
            began_at=self._began_at,
            total_s=self._total_s,
            taken_over_s=dict(self._shares.taken_over_s),
            claim=self.claim,
        )

    def saved_tree(self) -> tuple[SavedRun, ...]:
        """Return this run and all below it as data."""
        parts = (below.saved_tree() for below in self.below)
        return (self.saved(), *(run for part in parts for run in part))

    def recall(self, memory: Memory | None) -> None:
        """Go on from what is known of the conversation; nothing is, if it comes from elsewhere."""
        from agentkit.team.handoff import go_on

        if memory is not None:
            self.last_usage = memory.length
            self.epoch = memory.epoch
            self.version = memory.version
            self.seen = memory.seen
            self.kept = memory.kept
            self.lists_told = memory.told_tools
        old = self.context.messages[: self._n_old_messages]
        new = (*self._said_before, *self.context.messages[self._n_old_messages :])
        go_on(self, memory, old, new)

    @property
    def memory(self) -> Memory:
        """What is known of the conversation now, for `recall`."""
        return Memory(
            length=self.last_usage,
            epoch=self.epoch,
            version=self.version,
            seen=self.seen,
            kept=self.kept,
            told_tools=self.lists_told,
            active=self.taken_over_by or None,
            prepared_turn=self.prepared_turn,
            user=self.services.user,
        )

    @property
    def taken_over_by(self) -> str:
        """Who is active in place of who began; empty: who began."""
        return "" if self.member.name == self.agent_name else self.member.name

    @property
    def own_turn(self) -> int:
        """Number of the turn within those of the active agent in this run, from 0."""
        return self.turn - self._shares.first_turn

    def take_over(self, member: Member) -> None:
        """Go on under another agent, which is behind the same front."""
        self._shares.hand_over(self.member.name, member.name, self.turn)
        self.budget = self._shares.budget_of(
            member,
            self._requests,
            [run for below in self._begun_under(member.name) for run in below],
            now_s=self._total_s,
            n_open_calls=self.open.n_counted if self.open else 0,
        )
        self.member, self.last_request = member, None

    def _begun_under(self, name: str) -> Iterator[list[SavedRun]]:
        """The runs that another process has begun below this one under an agent, each with all
        below it."""
        saved = self.services.saved
        for run in saved.values():
            if run.parent == self.run_id and run.under == name:
                yield subtree(run, saved)

    def count_turns(self, turns: Counter[str], calls: Counter[str]) -> None:
        """Say how many turns and calls each agent has made, where another process has counted."""
        self._shares.count(self.member.name, self.turn, turns, calls)

    def answered(self, request: ModelRequest, length: Usage) -> None:
        """The model has answered: what it was asked, and how long that was."""
        self.last_request, self.last_usage = request, length
        self._undo = None

    def say(self, *messages: Message) -> None:
        """Append what the model is told before its next turn.

        It is said in the epoch before as well, where the model may yet refuse the new one.
        """
        self.context = self.context.append(*messages)
        if self._undo is not None:
            member, context, n_old, said = self._undo
            self._undo = (member, context.append(*behind(context, messages)), n_old, said)

    def begin_epoch(self, context: Context, *, otherwise: Message | None = None) -> None:
        """Go on with a context that was begun anew, and holds what was said before.

        Args:
            context: the new one.
            otherwise: what the model is told if it refuses the new one.
        """
        # Where there is something to go back to already, the model may refuse both.
        member, kept, n_old, said = self._undo or (
            self.member,
            self.context,
            self._n_old_messages,
            self._said_before,
        )
        if otherwise is not None:
            kept = kept.append(otherwise)
        self._undo = (member, kept, n_old, said)
        self._said_before = self.new_messages
        self.seen |= shown_uris(self.context)
        self._n_old_messages = len(context.messages)
        self.context = context
        self.last_usage = None
        self.epoch += 1

    @property
    def _way_back(self) -> WayBack | None:
        if self._undo is None:
            return None
        _, context, n_old, said = self._undo
        return WayBack(context=context, n_old_messages=n_old, n_said=len(said))

    def _found_back(
        self, member: Member, saved: SavedRun
    ) -> tuple[Member, Context, int, tuple[Message, ...]] | None:
        """Return what another process could have gone back to, if its agent still can."""
        from agentkit.team.joining import joined
        from agentkit.team.pinned import pinned

        way = saved.way_back
        if way is None or (host := pinned(member, way.context)) is None:
            return None
        active = self.member.name
        found = host if active == host.name else joined(host, host.desk[active])
        return found, way.context, way.n_old_messages, saved.said_before[: way.n_said]

    def begin_anew(self, renewal: Renewal) -> None:
        """Note that the context is a new epoch, behind the front that the agent has now.

        There is no way back: the agent cannot go on with the old one.
        """
        from agentkit.team.joining import keep_role

        self.epoch += 1
        self.version, self.seen = renewal.version, self.seen | renewal.shown
        self.last_usage = None
        self.began_anew = renewal.event
        keep_role(self)

    async def undo_epoch(self) -> bool:
        """Go back to the context before the epoch, if nothing was answered in it. No more of them.

        For models that refuse it: older ones want the thinking of the last turn to be replayed.
        It is kept before the model is asked again: who goes on must not ask for the same.

        Raises:
            JournalError: it could not be kept.
        """
        if self._undo is None:
            return False
        self.member, self.context, self._n_old_messages, self._said_before = self._undo
        self._undo = None
        self.epoch += 1
        self.may_begin_epochs = False
        self.told_tools = {}
        self.summary_not_before = sys.maxsize
        await self.commit()
        return True

    @property
    def is_begun(self) -> bool:
        """Whether the context has the task already, as in a run that is gone on with."""
        return bool(self.prompt)

    @property
    def is_below(self) -> bool:
        """Whether it is the run of a subagent."""
        return len(self.path) > 1

    def begin(self) -> None:
        """Count the run's time from now, if it had to wait for its turn."""
        self._started_s = time.monotonic()
        if not self._is_restored:
            self._began_at = time.time()

    @property
    def _total_s(self) -> float:
        return self._before_s + time.monotonic() - self._started_s

    def counted(self, record: RequestRecord, guess: Quote | None) -> None:
        """Take the record of a request, and what it used most probably: see `counting`."""
        self._requests.append(record)
        self.budget.count_request(record, guess)

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """Its own, without those of runs below."""
        return tuple(self._requests)

    def record(self) -> RunRecord:
        """Return what the run has done so far."""
        return RunRecord(
            run_id=self.run_id,
            path=self.path,
            context=self.closed_context,
            messages=self.new_messages,
            requests=tuple(self._all_requests()),
            children=tuple(each.outcome for each in self.below if each.outcome is not None),
            total_s=self._total_s,
            limits=self.budget.uses,
        )

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """What this run has added to the history, over all its epochs."""
        return (*self._said_before, *self.closed_context.messages[self._n_old_messages :])

    def _all_requests(self) -> Iterator[RequestRecord]:
        # Not in order of time: which of two runs at once ends a request first is chance, and equal
        # runs should have equal reports.
        yield from self._requests
        for below in self.below:
            yield from below._all_requests()


_FROM_OUTSIDE = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
"""What ends a run that has not failed: somebody did not want it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(ToolContext[object]):
    """The tool context that our loop hands out: it knows the run, for tools that start others."""

    run: RunState
