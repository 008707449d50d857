"""Taking a run from whoever had it; and which are orphans, as nothing is heard of their process."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, exists, select, text, update

from agentkit.errors import ConfigurationError
from agentkit.journal import Check
from agentkit.store.leases import RENEWED_EVERY_S
from agentkit.store.reading import read_run, tree_rows, unknown
from agentkit.store.saving import Known
from agentkit.store.schema import GOES_ON, runs
from agentkit.store.sums import Sums

SILENT_S = 120.0
"""How long a run is silent before it is taken for an orphan, if nothing else is said."""
_LEAST_S = 3 * RENEWED_EVERY_S


def claim(
    connection: Connection, run_id: str, now: float, check: Check | None
) -> Mapping[str, Known]:
    """Take a run with all below it; return them by id, itself first.

    Args:
        connection: in a transaction that may write; what `check` raises must roll it back.
        run_id: the run's.
        now: seconds since 1970.
        check: looks at what is taken.

    Raises:
        JournalError: the run is unknown or damaged.
    """
    root = select(runs.c.root).where(runs.c.run_id == run_id).scalar_subquery()
    tree = update(runs).where(runs.c.root == root)
    connection.execute(tree.values(owner=uuid.uuid4().hex, seen_at=now))
    rows = tree_rows(connection, run_id)
    if not rows:
        raise unknown(run_id)
    saved = tuple(read_run(connection, row) for row in rows)
    if check is not None:
        check(saved)
    return {
        run.run_id: Known(id=row["id"], n_steps=row["n_steps"], run=run, sums=Sums.of_row(row))
        for row, run in zip(rows, saved, strict=True)
    }


def checked_age(older_than_s: object) -> float:
    """Return the age, in seconds, from which on a silent run is an orphan.

    Raises:
        ConfigurationError: it is none, or so short that runs which go on are silent for as long.
    """
    is_number = isinstance(older_than_s, int | float) and not isinstance(older_than_s, bool)
    if not is_number or not _LEAST_S <= older_than_s < math.inf:  # type: ignore[operator]
        raise ConfigurationError(
            f"older_than_s must be at least {_LEAST_S:g} seconds, got {older_than_s!r}: a run that "
            f"goes on says so every {RENEWED_EVERY_S:g} seconds, and may be late"
        )
    return float(older_than_s)  # type: ignore[arg-type]


def are_orphans(now: float, older_than_s: float) -> tuple[Any, ...]:
    """Return the conditions on rows of `runs`: roots that run, and whose whole tree is silent."""
    tree, before = runs.alias("tree"), now - older_than_s
    has_spoken = exists().where(tree.c.root == runs.c.run_id, tree.c.saved_at >= before)
    return (text(GOES_ON), runs.c.status == "running", runs.c.seen_at < before, ~has_spoken)


def adopt(connection: Connection, run_id: str, now: float, older_than_s: float) -> bool:
    """Take an orphan, with all below it, from whoever had it. False: it is none (any more)."""
    owner = uuid.uuid4().hex
    mine = update(runs).where(runs.c.run_id == run_id, *are_orphans(now, older_than_s))
    taken = connection.execute(
        mine.values(owner=owner, seen_at=now, n_adopted=runs.c.n_adopted + 1)
    )
    if taken.rowcount != 1:
        return False
    connection.execute(update(runs).where(runs.c.root == run_id).values(owner=owner))
    return True
