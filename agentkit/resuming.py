"""Taking a run up again: everything is looked at before it is taken from whoever has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentkit.blocks import Message
from agentkit.errors import ConfigurationError, ContextMismatch
from agentkit.journal import Journal, JournalError
from agentkit.saved import Answers, PausedRun, SavedRun, answers_by_run
from agentkit.team.members import Member
from agentkit.team.pinned import as_begun


async def taken_up(
    root: Member, given: PausedRun | str, answers: Answers, journal: Journal | None
) -> tuple[Member, PausedRun]:
    """Return who goes on, behind the front of the run, and the run as the journal has it.

    Raises:
        ContextMismatch: another agent began it, or this one has changed since.
        JournalError: the run is unknown, or has gone on.
        ConfigurationError: it is a part of another run, or an answer fits no pending call.
    """

    def check(runs: tuple[SavedRun, ...]) -> None:
        if isinstance(given, PausedRun):
            _check_place(given, runs)
        _check_root(root, runs[0])
        _check_answers(PausedRun(runs=runs), answers)

    known = await _known(given, journal)
    check(known)
    member = as_begun(root, known[0].context)
    if journal is None:
        return member, PausedRun(runs=known)
    runs = await journal.claim(known[0].run_id, check)
    if runs[0].context.front != known[0].context.front:  # it began anew a moment ago
        member = as_begun(root, runs[0].context)
    return member, PausedRun(runs=runs)


async def _known(given: PausedRun | str, journal: Journal | None) -> tuple[SavedRun, ...]:
    if isinstance(given, str):
        if journal is None:
            raise ConfigurationError(
                f"resume({given!r}) needs the journal that has the run: give journal=..."
            )
        if not (known := await journal.load(given)):
            raise JournalError(f"there is no run {given!r} in this journal")
        return known
    if journal is None:
        return given.runs
    if not (known := await journal.load(given.run_id)):
        for run in given.runs:
            await journal.save(run)  # it was paused where there was no journal
    return known or given.runs


def _check_root(root: Member, saved: SavedRun) -> None:
    if saved.parent is not None:
        raise ConfigurationError(
            f"run {saved.run_id!r} is a part of run {saved.parent!r}: resume that one"
        )
    if saved.agent != root.name:
        raise ContextMismatch(
            f"run {saved.run_id!r} was begun by agent {saved.agent!r}, not by {root.name!r}"
        )


def _check_answers(paused: PausedRun, answers: Answers) -> None:
    try:
        answers_by_run(paused, answers)
    except ConfigurationError:
        waiting = {key for each in paused.pending for key in (each.id, each.call.id)}
        for key in answers.keys() - waiting:
            if (run := _with_call(paused, key)) is not None:
                raise ConfigurationError(
                    f"the call {key!r} was answered before, and its run is {run.status!r} now: an "
                    "answer counts once"
                ) from None
        raise


def _with_call(paused: PausedRun, key: str) -> SavedRun | None:
    """Return the run that made a call which waits no more, if there is one."""
    for run in paused.runs:
        messages: list[Message] = [*run.said_before, *run.context.messages[run.n_old_messages :]]
        if run.open_turn is not None:
            messages.append(run.open_turn.message)
        for call in (call for each in messages for call in getattr(each, "calls", ())):
            is_of_run = key.startswith(f"{run.run_id}:") and key.endswith(f":{call.id}")
            if is_of_run or key == call.id:
                return run
    return None


def _check_place(given: PausedRun, runs: tuple[SavedRun, ...]) -> None:
    if _places(runs) != _places(given.runs):
        raise JournalError(
            f"the run {given.run_id!r} has gone on since it was paused here, and is "
            f"{runs[0].status!r} now: if nobody is at it any more, go on with "
            f"await agent.resume({given.run_id!r})"
        )


def _places(runs: Iterable[SavedRun]) -> Mapping[str, object]:
    """Where each of the runs is."""
    return {run.run_id: (run.status, run.turn, run.context.digest, run.open_turn) for run in runs}
