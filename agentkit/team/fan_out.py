"""Many tasks for the subagents of one agent, at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit.blocks import UserMessage
from agentkit.caching.report import CacheReport, RequestRecord
from agentkit.errors import ConfigurationError
from agentkit.events import Event
from agentkit.result import Failed, Ok, Outcome
from agentkit.state import ListenerFailed, RunContext, RunState
from agentkit.team.members import Member
from agentkit.team.spawn import run_below
from agentkit.toolset import Suspended, ToolContext
from agentkit.usage import Usage

if TYPE_CHECKING:
    from agentkit.team.plan import AnyAgent

_TASK_FORM = "a task is Task(agent=..., prompt=...) or a pair (agent, prompt)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A piece of work for one subagent."""

    agent: AnyAgent | type[AnyAgent] | str
    """One of the parent's subagents: the instance, the class, or the name."""
    prompt: str
    label: str | None = None
    """Its name in paths and reports; by default the agent's, numbered if it has several tasks."""


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
            outcomes become part of that run.
        on_event: hears every event of the tasks; must not block. What it raises ends all tasks,
            and is raised here.

    Raises:
        ConfigurationError: a task names no subagent of the parent.
    """
    if max_parallel < 1:
        raise ConfigurationError(f"max_parallel must be at least 1, got {max_parallel!r}")
    if within is not None and on_event is not None:
        raise ConfigurationError("within a run, events are part of its stream: leave out on_event")
    if isinstance(parent, type):
        raise ConfigurationError(f"{parent!r} is a class: give an agent, {parent.__name__}(...)")
    given = _tasks(tasks)
    async with AsyncExitStack() as stack:
        if within is None:
            team = await stack.enter_async_context(parent.opened())
            run = RunState(member=team.root, context=team.root.front, path=(team.root.name,))
            run.sink = on_event
        else:
            run = _surrounding(parent, within)
        jobs = _jobs(run.member, given)
        call_id = None if within is None else within.call_id
        return FanOut(outcomes=await _run_all(run, jobs, call_id, max_parallel, warm_first))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    """A task whose agent is found."""

    member: Member
    prompt: UserMessage
    label: str


async def _run_all(
    run: RunState,
    jobs: list[_Job],
    call_id: str | None,
    max_parallel: int,
    warm_first: bool | None,
) -> tuple[Outcome, ...]:
    slots = asyncio.Semaphore(max_parallel)
    warmed = {model: asyncio.Event() for model in _led_models(jobs, warm_first)}
    leaders = {model: _first(jobs, model) for model in warmed}

    # All before any starts, so that reports show them in the order of the tasks.
    runs = [run.child(job.member, job.label, call_id) for job in jobs]

    async def work(job: _Job, below: RunState) -> Outcome | None:
        begun = warmed.get(job.member.model.label)
        leads = leaders.get(job.member.model.label) is job
        if begun is not None and not leads:
            await begun.wait()
        async with slots:
            on_begin = begun.set if begun is not None and leads else None
            try:
                return await run_below(run, below, job.prompt, on_begin=on_begin)
            except Suspended:
                return None

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


def _led_models(jobs: list[_Job], warm_first: bool | None) -> set[str]:
    """Models that several jobs use, and on which one job goes ahead of the others."""
    counts = Counter(
        job.member.model.label
        for job in jobs
        if (not job.member.model.siblings_start_together if warm_first is None else warm_first)
    )
    return {model for model, n_jobs in counts.items() if n_jobs > 1}


def _first(jobs: list[_Job], model: str) -> _Job:
    return next(job for job in jobs if job.member.model.label == model)


def _tasks(items: object) -> list[Task]:
    if isinstance(items, Iterable) and not isinstance(items, str | bytes):
        return [_task(item) for item in items]
    raise ConfigurationError(f"tasks must be a list, got {items!r:.200}; {_TASK_FORM}")


def _task(item: object) -> Task:
    if isinstance(item, tuple) and len(item) == 2:
        item = Task(agent=item[0], prompt=item[1])
    if not isinstance(item, Task):
        raise ConfigurationError(f"{item!r:.200} is no task; {_TASK_FORM}")
    if not isinstance(item.prompt, str):
        raise ConfigurationError(
            f"the prompt of the task for {item.agent!r} must be a str, got {item.prompt!r:.200}"
        )
    return item


def _jobs(parent: Member, tasks: list[Task]) -> list[_Job]:
    members = [_find(parent, task) for task in tasks]
    counts = Counter(member.name for member in members)
    numbers: Counter[str] = Counter()
    jobs = []
    for task, member in zip(tasks, members, strict=True):
        label = member.name
        if counts[member.name] > 1:
            label = f"{member.name}[{numbers[member.name]}]"
            numbers[member.name] += 1
        if not task.prompt.strip():
            raise ConfigurationError(f"the task for {member.name!r} is empty: {task.prompt!r}")
        jobs.append(
            _Job(
                member=member,
                prompt=UserMessage.of(task.prompt),
                label=task.label or label,
            )
        )
    return jobs


def _find(parent: Member, task: Task) -> Member:
    wanted = task.agent
    found = [
        member
        for member in parent.children.values()
        if wanted == member.name or wanted is member.agent or wanted is type(member.agent)
    ]
    if len(found) == 1:
        return found[0]
    problem = "names several subagents" if found else "is no subagent"
    raise ConfigurationError(
        f"{wanted!r} {problem} of {parent.name!r}; its subagents are {sorted(parent.children)!r}: "
        "declare agents in `subagents`, so that the team's shared tools are known from the start"
    )


def _surrounding(parent: AnyAgent, context: ToolContext[object]) -> RunState:
    if not isinstance(context, RunContext) or context.run.member.agent is not parent:
        raise ConfigurationError(
            f"within must be the ToolContext of a tool that agent {parent.name!r} calls, "
            f"got {context!r}"
        )
    return context.run
