"""What a run has used of its limits in other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentkit.budget import Budget
from agentkit.saved import SavedRun


def restore_budget(budget: Budget, runs: Sequence[SavedRun]) -> None:
    """Count what runs used before, in other processes: the first of them and all below it."""
    budget.restore(
        (request for run in runs for request in run.requests),
        seconds=runs[0].total_s,
        n_tool_calls=sum(map(n_calls, runs)),
    )


def subtree(root: SavedRun, runs: Mapping[str, SavedRun]) -> list[SavedRun]:
    """Return a run and all runs below it."""
    found = [root]
    for above in found:
        found += [run for run in runs.values() if run.parent == above.run_id]
    return found


def n_calls(run: SavedRun) -> int:
    """Return how many calls a run has made, without those of runs below."""
    open_calls = 0 if run.open_turn is None else run.open_turn.n_counted
    messages = (*run.said_before, *run.context.messages[run.n_old_messages :])
    return open_calls + sum(len(getattr(message, "calls", ())) for message in messages)
