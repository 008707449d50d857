"""What is shown of the runs in a journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from agentkit.caching.ledger.amounts import AtLeast
from agentkit.saved import Status
from agentkit.store.schema import runs, steps
from agentkit.store.sums import Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One root run; tokens and money are those of its whole tree."""

    run_id: str
    session: str
    user: str
    tenant: str
    agent: str
    task: str
    """The beginning of its task."""
    status: Status
    turn: int
    """Number of the turn that it is at."""
    began_at: float
    """Seconds since 1970."""
    saved_at: float
    """When its last step was kept."""
    seen_at: float
    """When it, or a run below it, was last heard of: it was saved, went on, or was claimed."""
    n_adopted: int
    """How often it was an orphan, and was taken by somebody."""
    total_s: float
    """How long it has run, all processes together."""
    n_runs: int
    """Itself and those below it."""
    n_requests: int
    input_tokens: int
    """Those that are known."""
    cache_read_tokens: int
    output_tokens: int
    cost: AtLeast | None
    """In USD; None without any request that costs money."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step of a run."""

    number: int
    kind: str
    """`begin`, `turn` (the model has called tools), `call` (one was begun), `result`, `context`
    (it has grown), `epoch` (it was begun anew), `paused`, `done`, `failed`,
    `cancelled`, `step`."""
    turn: int
    saved_at: float
    """Seconds since 1970."""


_NEWEST_FIRST = runs.c.id.desc()


def list_runs(
    connection: Connection,
    wanted: Mapping[str, str | None],
    limit: int,
    *conditions: Any,
    order: Any = _NEWEST_FIRST,
) -> tuple[RunRow, ...]:
    """Return root runs.

    Args:
        connection: to the database.
        wanted: what columns must be, where that is not None.
        limit: how many.
        conditions: more of them.
        order: which first; by default the newest.
    """
    given = [runs.c[name] == value for name, value in wanted.items() if value is not None]
    query = select(runs).where(runs.c.parent.is_(None), *given, *conditions)
    roots = connection.execute(query.order_by(order).limit(limit)).mappings().all()
    trees: dict[str, list[RowMapping]] = {row["run_id"]: [] for row in roots}
    for row in connection.execute(select(runs).where(runs.c.root.in_(list(trees)))).mappings():
        trees[row["root"]].append(row)
    return tuple(_run_row(row, trees[row["run_id"]]) for row in roots)


def list_steps(connection: Connection, run_id: str) -> tuple[StepRow, ...]:
    """Return the steps of a run, oldest first."""
    run = select(runs.c.id).where(runs.c.run_id == run_id).scalar_subquery()
    columns = (steps.c.number, steps.c.kind, steps.c.turn, steps.c.saved_at)
    query = select(*columns).where(steps.c.run == run).order_by(steps.c.number)
    return tuple(StepRow(**row) for row in connection.execute(query).mappings())


def _run_row(row: RowMapping, tree: Sequence[RowMapping]) -> RunRow:
    sums = [Sums.of_row(each) for each in tree]
    n_requests = sum(each["n_requests"] for each in tree)
    cost = AtLeast()
    for each in sums:
        cost = cost.plus(each.usd)
    is_free = n_requests == sum(each.n_unpriced for each in sums)
    same = ("run_id", "session", "user", "tenant", "agent", "task", "status", "turn")
    times = ("began_at", "saved_at", "total_s", "n_adopted")
    return RunRow(
        **{name: row[name] for name in (*same, *times)},
        seen_at=max(max(each["saved_at"], each["seen_at"]) for each in tree),
        n_runs=len(tree),
        n_requests=n_requests,
        input_tokens=sum(each.input_tokens for each in sums),
        cache_read_tokens=sum(each.cache_read_tokens for each in sums),
        output_tokens=sum(each.output_tokens for each in sums),
        cost=None if is_free else cost,
    )
