"""Taking a run up again: everything is looked at before it is taken from whoever has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentkit.blocks import Message, ToolResult
from agentkit.errors import ConfigurationError, ContextMismatch
from agentkit.journal import Journal, JournalError
from agentkit.open_turn import OpenTurn
from agentkit.saved import Answers, PausedRun, SavedEnd, SavedRun, answers_by_run
from agentkit.team.members import Member
from agentkit.team.pinned import mismatch, pinned


async def taken_up(
    root: Member,
    given: PausedRun | str,
    answers: Answers,
    journal: Journal | None,
    *,
    renews: bool,
) -> PausedRun:
    """Return the run as the journal has it; it is the caller's from now on.

    Raises:
        ContextMismatch: another agent began it, or this one has changed since.
        JournalError: the run is unknown, or has gone on.
        ConfigurationError: it is a part of another run, or an answer fits no pending call.
    """

    def check(runs: tuple[SavedRun, ...]) -> None:
        if isinstance(given, PausedRun):
            _check_place(given, runs)
        _check_root(root.name, runs[0])
        _check_answers(PausedRun(runs=runs), answers)

    known = await _known(given, journal)
    check(known)
    if not renews and pinned(root, known[0].context) is None:
        raise mismatch(root, known[0].context)
    if journal is None:
        return PausedRun(runs=known)
    return PausedRun(runs=await journal.claim(known[0].run_id, check))


async def abandoned(
    name: str, given: PausedRun | str, journal: Journal | None
) -> tuple[SavedRun, ...]:
    """End a run that waits or was cut off, with all below it; returns them as they are then.

    Raises:
        JournalError: the run is unknown, or has gone on.
        ContextMismatch: another agent than `name` began it.
        ConfigurationError: it is a part of another run, or it is done.
    """

    def check(runs: tuple[SavedRun, ...]) -> None:
        if isinstance(given, PausedRun):
            _check_place(given, runs)
        _check_root(name, runs[0])
        if runs[0].status == "done":
            raise ConfigurationError(
                f"run {runs[0].run_id!r} is done, so there is nothing to abandon"
            )

    runs = await _known(given, journal)
    check(runs)
    if journal is not None:
        runs = await journal.claim(runs[0].run_id, check)
    ended = tuple(map(_ended, runs))
    # Those below first: until the root has ended, all of it can be done again.
    for before, run in reversed(list(zip(runs, ended, strict=True))):
        if journal is not None and run is not before:
            await journal.save(run)
    return ended


def _ended(run: SavedRun) -> SavedRun:
    """Return a run that does not go on, with a result for each call. Idempotent."""
    if run.status == "done" or (run.status == "failed" and run.open_turn is None):
        return run
    context, n_turns = run.context, run.turn
    if run.open_turn is not None:
        turn = OpenTurn(run.open_turn.message, run.open_turn)
        for call in turn.message.calls:
            if call.id in turn.waiting and call.id not in turn.asked:
                turn.results[call.id] = ToolResult(
                    call_id=call.id, name=call.name, content=_NOT_AGREED, is_error=True
                )
        context, n_turns = context.append(turn.message, turn.answer()), n_turns + 1
    end = SavedEnd(error="Abandoned: the run was ended before it had an answer")
    return replace(run, status="failed", end=end, context=context, open_turn=None, turn=n_turns)


async def _known(given: PausedRun | str, journal: Journal | None) -> tuple[SavedRun, ...]:
    if isinstance(given, str):
        if journal is None:
            raise ConfigurationError(
                f"the run {given!r} is only known by its journal: give journal=..."
            )
        if not (known := await journal.load(given)):
            raise JournalError(f"there is no run {given!r} in this journal")
        return known
    if journal is None:
        return given.runs
    if not (known := await journal.load(given.run_id)):
        for run in given.runs:
            # It was paused where there was no journal: for this one it is a run that nobody has.
            await journal.save(replace(run, claim=""))
    return known or given.runs


def _check_root(name: str, saved: SavedRun) -> None:
    if saved.parent is not None:
        raise ConfigurationError(
            f"run {saved.run_id!r} is a part of run {saved.parent!r}: resume that one"
        )
    if saved.agent != name:
        raise ContextMismatch(
            f"run {saved.run_id!r} was begun by agent {saved.agent!r}, not by {name!r}"
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


_NOT_AGREED = "This call was not run: the run was ended before anybody had agreed to it."
