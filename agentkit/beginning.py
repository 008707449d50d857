"""What a run begins with: a new conversation, a given one, a session's, or a run that waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from agentkit.blocks import printable
from agentkit.budget import Budget
from agentkit.context import Context
from agentkit.errors import ConfigurationError
from agentkit.journal import Journal, JournalError
from agentkit.limits import Limits
from agentkit.open_turn import OpenTurn
from agentkit.resuming import taken_up
from agentkit.run_services import RunServices
from agentkit.saved import Answers, Memory, PausedRun, SavedRun, answers_by_run
from agentkit.state import RunState
from agentkit.team.below import put_back
from agentkit.team.renewing import going_on, run_going_on
from agentkit.used_before import restore_budget

if TYPE_CHECKING:
    from agentkit.agent import Agent
    from agentkit.team.members import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What `run`, `run_sync`, `stream` and `resume` were given beside the prompt."""

    context: Context | None = None
    session: str | None = None
    user: str = ""
    run_id: str | None = None
    limits: Limits | None = None
    journal: Journal | None = None
    resume: PausedRun | str | None = None
    answers: Answers = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.resume, PausedRun | str | None):
            raise ConfigurationError(
                f"resume takes a PausedRun, e.g. error.paused, or a run's id; got {self.resume!r}"
            )
        if not isinstance(self.answers, Mapping):
            raise ConfigurationError(
                f"answers must be a dict of answers by PendingCall.id, got {self.answers!r:.200}"
            )

    @property
    def id(self) -> str | None:
        """The run's id, where it is known before it begins."""
        return (
            self.resume.run_id
            if isinstance(self.resume, PausedRun)
            else (self.resume or self.run_id)
        )


class RunKeywords(TypedDict, total=False):
    """What `run`, `run_sync` and `stream` take beside the prompt."""

    context: Context | None
    """A conversation to continue, e.g. `result.context`; a new one by default."""
    session: str | None
    """Name of a conversation over many runs. With a journal the run goes on with its last one."""
    user: str
    """Whose data the run holds, so that a journal can delete it. By default, that of the
    conversation which it goes on with."""
    run_id: str | None
    """The run's id; by default a new one."""
    limits: Limits | None
    """In place of the agent's."""
    journal: Journal | None
    """In place of the agent's."""


def run_options(given: RunKeywords) -> RunOptions:
    """Check what a run was given.

    Raises:
        ConfigurationError: names what is of no use.
    """
    for name, value in given.items():
        if name not in _KINDS:
            raise ConfigurationError(f"a run has no option {name!r}; there are {list(_KINDS)!r}")
        kind = _KINDS[name]
        if not isinstance(value, kind):
            raise ConfigurationError(f"{name} must be a {kind}, got {value!r:.200}")
        if isinstance(value, str) and printable(value) != value:
            raise ConfigurationError(
                f"{name} holds a lone surrogate and has no UTF-8 form: {value!r:.200}"
            )
        if name in ("session", "run_id") and value == "":
            raise ConfigurationError(f"{name} must not be empty; leave it out")
    return RunOptions(**given)


_KINDS: Mapping[str, Any] = {
    "context": Context | None,
    "session": str | None,
    "user": str,
    "run_id": str | None,
    "limits": Limits | None,
    "journal": Journal | None,
}


async def begin_run(agent: Agent[Any, Any], root: Member, options: RunOptions) -> RunState:
    """Return the state of a run that is about to begin, or to go on.

    Raises:
        ContextMismatch: the conversation was begun differently.
        JournalError: there is no such run, or its session has one that has not ended.
        ConfigurationError: an answer fits no pending call.
    """
    if options.resume is not None:
        return await _resumed(agent, root, options.resume, options)
    journal = _journal(agent, options)
    await _check_new(options.run_id, journal)
    budget = Budget(options.limits or agent.limits or Limits())
    last = await _last_of_session(root, options, journal)
    given, memory = options.context, None
    if given is not None:
        memory = agent.memory_of(given)
    elif last is not None:
        given, memory = OpenTurn.closed(last), last.memory
    services = RunServices(
        journal=journal,
        telemetry=agent.telemetry,
        user=_user(options, last, memory),
        renews=agent.on_front_change == "epoch",
    )
    if given is None:
        begun = root.begun()
        return RunState(
            member=begun.member,
            context=begun.member.front,
            version=begun.version,
            epoch=begun.epoch,
            **_common(root, options, services, budget),
        )
    member, renewal = going_on(root, given, renews=agent.on_front_change == "epoch")
    context = given.fork() if renewal is None else renewal.context
    run = RunState(member=member, context=context, **_common(root, options, services, budget))
    run.recall(memory)
    if renewal is not None:
        run.begin_anew(renewal)
    return run


async def _resumed(
    agent: Agent[Any, Any], root: Member, given: PausedRun | str, options: RunOptions
) -> RunState:
    journal, renews = _journal(agent, options), agent.on_front_change == "epoch"
    paused = await taken_up(root, given, options.answers, journal, renews=renews)
    member, saved, renewal = run_going_on(root, paused.runs[0], renews=renews)
    services = RunServices(
        journal=journal,
        telemetry=agent.telemetry,
        user=saved.user,
        saved={run.run_id: run for run in paused.runs},
        answers=answers_by_run(paused, options.answers),
        renews=renews,
    )
    budget = Budget(options.limits or agent.limits or Limits())
    restore_budget(budget, paused.runs)
    run = put_back(member, saved, services, budget)
    if renewal is not None:
        run.begin_anew(renewal)
    return run


async def _check_new(run_id: str | None, journal: Journal | None) -> None:
    if run_id is not None and journal is not None and await journal.load(run_id):
        raise JournalError(
            f"there is a run {run_id!r} already: resume it with agent.resume({run_id!r}), "
            "or give another run_id"
        )


def _common(
    member: Member, options: RunOptions, services: RunServices, budget: Budget
) -> Mapping[str, Any]:
    return {
        "path": (member.name,),
        "run_id": options.run_id,
        "session": options.session,
        "services": services,
        "budget": budget,
    }


def _journal(agent: Agent[Any, Any], options: RunOptions) -> Journal | None:
    return options.journal or agent.journal


def _user(options: RunOptions, last: SavedRun | None, memory: Memory | None) -> str:
    """Return whose data a run holds: a conversation stays with whose it was.

    Raises:
        ConfigurationError: it is somebody else's.
    """
    user = options.user
    for before in ("" if last is None else last.user, "" if memory is None else memory.user):
        if user and before and before != user:
            raise ConfigurationError(
                f"the conversation is of the user {before!r}, so a run of the user {user!r} cannot "
                "go on with it: deleting the data of one would leave it with the other; "
                "begin a new conversation"
            )
        user = user or before
    return user


async def _last_of_session(
    root: Member, options: RunOptions, journal: Journal | None
) -> SavedRun | None:
    """Return the last run of the session that was named, if there is a journal."""
    session = options.session
    if session is None or journal is None:
        return None
    last = await journal.latest(session, root.name)
    if last is not None and last.status in ("running", "paused"):
        raise JournalError(
            f"the session {session!r} has the run {last.run_id!r}, which is {last.status}: "
            f"first resume it with await agent.resume({last.run_id!r}), or end it with "
            f"await agent.abandon({last.run_id!r})"
        )
    return last
