"""Runs below a run: begun anew, or put back where another process has begun them."""

from __future__ import annotations

from agentkit.budget import Budget
from agentkit.errors import RestoredFailure
from agentkit.hooks import Hooks
from agentkit.output import BadOutput
from agentkit.result import Failed, Ok, Outcome
from agentkit.run_services import RunServices
from agentkit.saved import SavedRun
from agentkit.state import RunState
from agentkit.team.joining import forked, found_below, keep_role
from agentkit.team.members import Member
from agentkit.team.renewing import run_going_on
from agentkit.used_before import restore_budget, subtree


def begin_below(
    above: RunState, member: Member, label: str, call_id: str | None = None, *, fork: bool = False
) -> RunState:
    """Return the state of a run below another: one that was begun before, or a new one.

    Args:
        above: the run that begins it.
        member: who runs.
        label: its name in paths.
        call_id: the call that begins it. By it the run is found again by another process.
        fork: whether it begins from the conversation above, without the open turn.
    """
    while True:
        run_id = above.below.next_id(above.run_id, above.turn, call_id, label)
        if (known := above.below.begun_before(run_id)) is not None:
            return known
        if run_id not in above.services.saved:  # there may be one that cannot go on
            break
    begun = forked(above, member) if fork else member.begun()
    run = RunState(
        member=begun.member,
        context=above.context.fork() if fork else begun.member.front,
        version=begun.version,
        epoch=begun.epoch,
        path=(*above.path, label),
        session=above.session,
        run_id=run_id,
        parent=above.run_id,
        call_id=call_id,
        number=len(above.below),
        under=above.taken_over_by,
        budget=above.budget.below(member.agent.limits),
        services=above.services,
        hooks_above=above.team_hooks,
        claim=above.claim,
    )
    run.kept = above.kept  # its task may speak of them
    if fork:
        run.seen = above.seen
        keep_role(run)
    above.below.add(run)
    return run


def put_back(
    member: Member,
    saved: SavedRun,
    services: RunServices,
    budget: Budget,
    hooks_above: tuple[Hooks, ...] = (),
) -> RunState:
    """Return the state of a run that was begun before, with all runs below it.

    Args:
        member: who goes on, behind the front of the saved context.
        saved: the run.
        services: `saved` has the runs below.
        budget: what was used before is counted already.
        hooks_above: those of the runs above that are for their whole team.
    """
    run = RunState.restored(member, saved, services, budget, hooks_above)
    below = [each for each in services.saved.values() if each.parent == saved.run_id]
    for each in sorted(below, key=lambda each: each.number):
        _put_back_below(run, each)
    if saved.parent is not None:
        run.outcome = _outcome(run)
    return run


def _put_back_below(above: RunState, saved: SavedRun) -> None:
    member, renewal = found_below(above.member, saved), None
    if member is None:
        child = above.member.children.get(saved.agent)
        if child is None or saved.agent in above.member.forked or not above.services.renews:
            return  # its agent is gone or has changed: the call that began it begins anew
        member, saved, renewal = run_going_on(child, saved, renews=True)
    budget = above.budget.below(member.agent.limits)
    if budget is not above.budget:
        restore_budget(budget, subtree(saved, above.services.saved))
    run = put_back(member, saved, above.services, budget, above.team_hooks)
    if renewal is not None:
        run.begin_anew(renewal)
    above.below.put_back(run)


def _outcome(run: RunState) -> Outcome | None:
    """How a run has ended, for the one above; None if it has not."""
    if run.end is None:
        return None
    if run.end.error is not None:
        error = RestoredFailure(run.end.error)
        return Failed(path=run.path, task=run.prompt, error=error, record=run.record())
    try:
        return Ok(path=run.path, task=run.prompt, result=run.result(run.end))
    except BadOutput as problem:  # the agent's output type has changed since
        error = RestoredFailure(f"its answer does not fit the output type any more: {problem}")
        return Failed(path=run.path, task=run.prompt, error=error, record=run.record())
