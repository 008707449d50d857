"""Many tasks for the subagents of one agent, at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit.blocks import ToolCall
from agentkit.budget import Budget
from agentkit.caching.report import CacheReport, RequestRecord
from agentkit.context import Context
from agentkit.errors import ConfigurationError, RunError
from agentkit.events import Event
from agentkit.limits import Limits
from agentkit.result import Failed, Ok, Outcome
from agentkit.run_services import RunServices
from agentkit.saved import SavedRun
from agentkit.state import RunContext, RunState
from agentkit.team.below import begin_below
from agentkit.team.members import Member
from agentkit.team.pinned import as_begun
from agentkit.team.spawn import ListenerFailed, run_below
from agentkit.team.tasks import Job, Task, checked, jobs_of
from agentkit.toolset import Suspended, ToolContext
from agentkit.usage import Usage

if TYPE_CHECKING:
    from agentkit.team.plan import AnyAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """How the tasks ended."""

    outcomes: tuple[Outcome, ...]
    """In the order of the tasks."""

    @property
    def ok(self) -> tuple[Ok, ...]:
        """Those with an answer."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Ok))

    @property
    def failed(self) -> tuple[Failed, ...]:
        """Those without."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Failed))

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """All model requests, task by task."""
        records = (
            outcome.result if isinstance(outcome, Ok) else outcome.record
            for outcome in self.outcomes
        )
        return tuple(request for record in records for request in record.requests)

    @property
    def usage(self) -> Usage:
        """Tokens of all requests together."""
        return Usage.total(request.usage for request in self.requests)

    @property
    def cache(self) -> CacheReport:
        """What the cache did, for each task."""
        return CacheReport.of(self.requests)


async def fan_out(
    parent: AnyAgent,
    tasks: Sequence[Task | tuple[AnyAgent | type[AnyAgent] | str, str]],
    *,
    max_parallel: int = 8,
    warm_first: bool | None = None,
    within: ToolContext[object] | None = None,
    context: Context | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> FanOut:
    """Run tasks on the parent's subagents at once. A failed task is a result; the others go on.

    All share the parent's rules and toolset, and so its cached prefix. Where a model does not
    compute shared work once by itself, the first task goes ahead until its answer begins.

    Args:
        parent: the agent whose `subagents` do the work.
        tasks: `Task`s, or pairs of agent and prompt.
        max_parallel: tasks that run at the same time.
        warm_first: whether the first task of each model goes ahead until its answer begins, and so
            fills the cache for the others. None does so where the model needs it; True everywhere:
            then nobody's time to first token contains the wait for another's prefill.
        within: the context of the tool that calls this, if one does: then events, usage and
            outcomes become part of that run; its limits, its journal and people's answers hold for
            the tasks, too. After a pause the tool is called again, and tasks that are done are not
            run again. For the same after a crash make it `@tool(idempotent=True)`.
        context: a conversation of the parent that forked tasks begin from; within a run it is that
            run's.
        limits: how much all tasks together may use, in place of the parent's; within a run, that
            run's hold.
        on_event: hears every event of the tasks; must not block. What it raises ends all tasks,
            and is raised here.

    Raises:
        ConfigurationError: a task names no subagent of the parent.
        ContextMismatch: the context was begun by another agent.
        Suspended: within a run, calls wait for a person; the tool must let it pass.
    """
    if max_parallel < 1:
        raise ConfigurationError(f"max_parallel must be at least 1, got {max_parallel!r}")
    if within is not None and on_event is not None:
        raise ConfigurationError("within a run, events are part of its stream: leave out on_event")
    if isinstance(parent, type):
        raise ConfigurationError(f"{parent!r} is a class: give an agent, {parent.__name__}(...)")
    if within is not None and (context is not None or limits is not None):
        raise ConfigurationError("within a run, its context and limits hold: leave them out")
    given = checked(tasks)
    async with AsyncExitStack() as stack:
        if within is None:
            team = await stack.enter_async_context(parent.opened())
            run = _of_its_own(parent, team.root, context, limits)
            run.sink = on_event
        else:
            run = _surrounding(parent, within)
        jobs = jobs_of(run.member, given)
        if within is None and context is None and any(job.fork for job in jobs):
            raise ConfigurationError(
                "a forked task begins from a conversation of its parent: call fan_out in a tool "
                "with within=..., or give context=..."
            )
        call_id = None if within is None else within.call_id
        return FanOut(outcomes=await _run_all(run, jobs, call_id, max_parallel, warm_first))


async def _run_all(
    run: RunState,
    jobs: list[Job],
    call_id: str | None,
    max_parallel: int,
    warm_first: bool | None,
) -> tuple[Outcome, ...]:
    # All before any starts, so that reports show them in the order of the tasks.
    runs = [begin_below(run, job.member, job.label, call_id, fork=job.fork) for job in jobs]
    to_do = [job for job, below in zip(jobs, runs, strict=True) if below.outcome is None]

    slots = asyncio.Semaphore(max_parallel)
    warmed = {model: asyncio.Event() for model in _led_models(to_do, warm_first)}
    leaders = {model: _first(to_do, model) for model in warmed}

    async def work(job: Job, below: RunState) -> Outcome | None:
        begun = warmed.get(job.member.model.label)
        leads = leaders.get(job.member.model.label) is job
        if begun is not None and not leads:
            await begun.wait()
        async with slots:
            on_begin = begun.set if begun is not None and leads else None
            try:
                return await run_below(run, below, job.prompt, on_begin=on_begin)
            except Suspended:
                return None if call_id is not None else _left_waiting(below)

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(work(*pair)) for pair in zip(jobs, runs, strict=True)]
    except BaseExceptionGroup as errors:
        # Only failed assertions of test doubles and of listeners come here; one says it all.
        first = errors.exceptions[0]
        raise (first.error if isinstance(first, ListenerFailed) else first) from None
    outcomes = [task.result() for task in running]
    if None in outcomes:
        # Not before the others are done: then those who resume have their results already.
        raise Suspended
    return tuple(outcome for outcome in outcomes if outcome is not None)


def _led_models(jobs: list[Job], warm_first: bool | None) -> set[str]:
    """Models that several jobs use, and on which one job goes ahead of the others."""
    counts = Counter(
        job.member.model.label
        for job in jobs
        if (not job.member.model.siblings_start_together if warm_first is None else warm_first)
    )
    return {model for model, n_jobs in counts.items() if n_jobs > 1}


def _first(jobs: list[Job], model: str) -> Job:
    return next(job for job in jobs if job.member.model.label == model)


def _left_waiting(below: RunState) -> Failed:
    calls = [call.name for run in below.saved_tree() for call in _waiting(run)]
    error = RunError(
        f"the calls {calls!r} wait for a person, which only a fan_out within a run can: call it in "
        "a tool of the parent, with within=..."
    )
    return Failed(path=below.path, task=below.prompt, error=error, record=below.record())


def _waiting(run: SavedRun) -> Iterator[ToolCall]:
    turn = run.open_turn
    if turn is not None:
        yield from (call for call in turn.message.calls if call.id in turn.waiting)


def _of_its_own(
    parent: AnyAgent, root: Member, context: Context | None, limits: Limits | None
) -> RunState:
    """Return what the tasks are below: a run that asks nothing itself."""
    member, memory = root, None
    if context is not None:
        member, memory = as_begun(root, context), parent.memory_of(context)
    return RunState(
        member=member,
        context=member.front if context is None else context,
        path=(member.name,),
        version=None if memory is None else memory.version,
        epoch=0 if memory is None else memory.epoch,
        budget=Budget(limits or parent.limits or Limits()),
        services=RunServices(telemetry=parent.telemetry),
    )


def _surrounding(parent: AnyAgent, context: ToolContext[object]) -> RunState:
    if not isinstance(context, RunContext) or context.run.member.agent is not parent:
        raise ConfigurationError(
            f"within must be the ToolContext of a tool that agent {parent.name!r} calls, "
            f"got {context!r}"
        )
    return context.run
