"""`agentkit runs`, `show` and `cost`: what a journal has."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Coroutine, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentkit.cli import options
from agentkit.cli.failures import fail, failures_as_exit_codes, say

if TYPE_CHECKING:
    from rich.table import Table

    from agentkit.caching.ledger.totals import By, Totals
    from agentkit.caching.report import RequestRecord
    from agentkit.store import RunRow, SqlJournal

_UNITS_S = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_MOST_RUNS = 100_000
_WORDS = ("run", "agent", "status", "began", "task", "model")
"""Columns that are no numbers."""
_STATES = ("running", "paused", "done", "failed", "cancelled")


def runs(
    session: options.OfSession = None,
    user: options.User = None,
    status: Annotated[
        str | None,
        typer.Option(help="running, paused, done, failed or cancelled.", metavar="STATUS"),
    ] = None,
    orphaned: Annotated[
        bool,
        typer.Option("--orphaned", help="Those whose process seems to be gone, the oldest first."),
    ] = False,
    older_than: Annotated[
        float | None,
        typer.Option(
            help="With --orphaned: nothing was heard of them for so long; 120 by default.",
            metavar="SECONDS",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=_MOST_RUNS, help="How many, the newest first.")
    ] = 20,
    as_json: options.AsJson = False,
    journal: options.Journal = None,
) -> None:
    """List the runs that were kept, the newest first."""
    from agentkit.cli.journals import journal_to_read

    if status is not None and status not in _STATES:
        fail(f"--status cannot be {status!r}; it can be: {', '.join(_STATES)}", code=2)
    if orphaned and (session, user, status) != (None, None, None):
        fail("give --orphaned, or --session, --user and --status, and not both", code=2)
    if older_than is not None and not orphaned:
        fail("--older-than says from when on runs are orphans: give it with --orphaned", code=2)
    with failures_as_exit_codes(), journal_to_read(journal) as kept:
        rows = asyncio.run(
            _orphans(kept, older_than, limit)
            if orphaned
            else kept.runs(session=session, user=user, status=status, limit=limit)
        )
        if as_json:
            typer.echo(json.dumps([_row_json(row) for row in rows], indent=2))
        elif rows:
            _print(_runs_table(rows, are_orphans=orphaned))
        else:
            say(_nothing_to_list(older_than, are_orphans=orphaned))


def show(
    name: options.RunName,
    messages: Annotated[
        bool, typer.Option("--messages", help="What was said, called and answered, instead.")
    ] = False,
    as_json: options.AsJson = False,
    journal: options.Journal = None,
) -> None:
    """Show a run and all below it: each request with what the cache did, and why.

    With --json both: the requests and the messages, whole.
    """
    from agentkit.cli import timeline, transcript
    from agentkit.cli.journals import journal_to_read, load_run

    with failures_as_exit_codes(), journal_to_read(journal) as kept:
        saved = asyncio.run(load_run(kept, name))
        if as_json:
            typer.echo(json.dumps(timeline.to_json(saved), indent=2))
        else:
            typer.echo((transcript if messages else timeline).to_text(saved))


def cost(
    name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="One run; by default all.")
    ] = None,
    session: options.OfSession = None,
    user: options.User = None,
    since: Annotated[
        str | None,
        typer.Option(help="Runs that began since: 30m, 12h, 7d, 2w, or 2026-11-01.", metavar="AGE"),
    ] = None,
    by: Annotated[
        str, typer.Option(help="agent, team, tenant, session, run, epoch, model or provider.")
    ] = "model",
    as_json: options.AsJson = False,
    journal: options.Journal = None,
) -> None:
    """Add up what runs have cost, what they would have cost uncached, and what was lost."""
    from agentkit.caching.ledger.totals import By, priced_models, totals
    from agentkit.cli.journals import journal_to_read

    if by not in list(By):
        fail(f"--by cannot be {by!r}; it can be: {', '.join(By)}", code=2)
    if name is not None and (session, user, since) != (None, None, None):
        fail("give a run, or --session, --user and --since, and not both", code=2)
    began_after = _began_after(since)
    with failures_as_exit_codes(), journal_to_read(journal) as kept:
        records = asyncio.run(_records(kept, name, session, user, began_after))
        priced = priced_models(records)
        groups = {
            key: totals(group, priced=priced) for key, group in _grouped(records, By(by)).items()
        }
        total = totals(records, priced=priced)
        if as_json:
            rows = [{by: key, **group.to_json()} for key, group in groups.items()]
            typer.echo(json.dumps({"by": by, "rows": rows, "total": total.to_json()}, indent=2))
        else:
            _print(_cost_table(by, groups, total))


def _orphans(
    journal: SqlJournal, older_than_s: float | None, limit: int
) -> Coroutine[Any, Any, tuple[RunRow, ...]]:
    if older_than_s is None:
        return journal.orphans(limit=limit)
    return journal.orphans(older_than_s=older_than_s, limit=limit)


async def _records(
    journal: SqlJournal,
    name: str | None,
    session: str | None,
    user: str | None,
    began_after: float,
) -> list[RequestRecord]:
    from agentkit.cli.journals import load_run

    if name is not None:
        ids = [name]
    else:
        rows = await journal.runs(session=session, user=user, limit=_MOST_RUNS)
        ids = [row.run_id for row in reversed(rows) if row.began_at >= began_after]
    return [
        request
        for run_id in ids
        for saved in await load_run(journal, run_id)
        for request in saved.requests
    ]


def _grouped(records: Iterable[RequestRecord], by: By) -> dict[str, list[RequestRecord]]:
    groups: dict[str, list[RequestRecord]] = {}
    for record in records:
        groups.setdefault(by.name_of(record), []).append(record)
    return groups


def _began_after(since: str | None) -> float:
    """Return a time in seconds since 1970."""
    if since is None:
        return 0.0
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", since):
        return time.time() - float(match[1]) * _UNITS_S[match[2]]
    try:
        return datetime.fromisoformat(since).timestamp()
    except ValueError:
        fail(f"--since {since!r} is no age like 12h or 7d, and no date like 2026-11-01", code=2)


def _runs_table(rows: Sequence[RunRow], *, are_orphans: bool) -> Table:
    from agentkit.observe.amounts import share_text, usd_text

    now, last = time.time(), "silent" if are_orphans else "status"
    table = _table("run", "agent", last, "began", "requests", "in", "hit", "cost", "task")
    for row in rows:
        hit = share_text(row.cache_read_tokens / row.input_tokens) if row.input_tokens else ""
        began = datetime.fromtimestamp(row.began_at).strftime("%Y-%m-%d %H:%M")
        table.add_row(
            row.run_id[:12],
            row.agent,
            f"{(now - row.seen_at) / 60.0:,.0f} min" if are_orphans else row.status,
            began,
            str(row.n_requests),
            f"{row.input_tokens:,}",
            hit,
            usd_text(row.cost),
            " ".join(row.task.split()),
        )
    return table


def _nothing_to_list(older_than_s: float | None, *, are_orphans: bool) -> str:
    from agentkit.store.claiming import SILENT_S

    if not are_orphans:
        return "no run was kept that fits"
    age = SILENT_S if older_than_s is None else older_than_s
    return f"no run that goes on has been silent for {age:g} s (--older-than)"


def _row_json(row: RunRow) -> dict[str, Any]:
    from dataclasses import fields

    values = {item.name: getattr(row, item.name) for item in fields(row)}
    return values | {"cost": None if row.cost is None else row.cost.to_json()}


def _cost_table(by: str, groups: dict[str, Totals], total: Totals) -> Table:
    from agentkit.observe.amounts import usd_text

    names = ("requests", "in", "read", "out", "cost", "uncached", "saved", "lost")
    table = _table(by, *names)
    for label, sums in (*groups.items(), ("total", total)):
        if sums is total:
            table.add_section()
        has_money = sums.requests > sums.unpriced
        saved = sums.saved
        money = (usd_text(sums.cost), usd_text(sums.uncached), _signed(saved), usd_text(sums.lost))
        table.add_row(
            label,
            f"{sums.requests:,}",
            f"{sums.input_tokens.known:,}",
            f"{sums.cache_read_tokens.known:,}",
            f"{sums.output_tokens.known:,}",
            *(money if has_money else ("", "", "", "")),
        )
    return table


def _signed(amount: Any) -> str:
    from agentkit.observe.amounts import dollars

    if amount is None:
        return "unknown"
    return f"-{dollars(-amount)}" if amount < 0 else dollars(amount)


def _table(*names: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in names:
        is_number = name not in (
            "run",
            "agent",
            "status",
            "silent",
            "began",
            "task",
            "model",
            names[0],
        )
        table.add_column(
            name, justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis"
        )
    return table


def _print(table: Table) -> None:
    """Print it: as wide as the terminal, or as wide as it wants to be where there is none."""
    from rich.console import Console

    console = Console(markup=False)
    if not console.is_terminal:
        console = Console(markup=False, width=200)
    console.print(table)
