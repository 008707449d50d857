"""Tasks for subagents, as they are given and as they are checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit.blocks import UserMessage
from agentkit.errors import ConfigurationError
from agentkit.team.members import Member
from agentkit.team.subagent import Beginning, check_beginning

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
    context: Beginning | None = None
    """`"fresh"` or `"fork"`, see `subagent`; None: as the parent's `subagents` say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A task whose agent is found."""

    member: Member
    prompt: UserMessage
    label: str
    fork: bool
    """Whether it begins from the parent's conversation."""


def checked(items: object) -> list[Task]:
    """Return the tasks that were given.

    Raises:
        ConfigurationError: something is no task.
    """
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
    if item.context is not None:
        check_beginning(item.context)
    return item


def jobs_of(parent: Member, tasks: list[Task]) -> list[Job]:
    """Find who does the tasks, and how they are called.

    Raises:
        ConfigurationError: a task is empty, or for no subagent of the parent.
    """
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
            Job(
                member=member,
                prompt=UserMessage.of(task.prompt),
                label=task.label or label,
                fork=(
                    member.name in parent.forked if task.context is None else task.context == "fork"
                ),
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
