"""The cache report on a terminal."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from agentkit.caching.ledger.totals import Loss
from agentkit.caching.report import CacheReport, CacheRow
from agentkit.caching.verdict import Cause
from agentkit.observe.amounts import usd_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

_WIDTH = 100
_TIMES = ("TTFT first", "TTFT median")
_MONEY = ("TTFT", "cost", "planned", "uncached")
"""The time is that of the first request: a fifth column would not fit."""
_DISPENSABLE = ("planned", "output", "TTFT", "calls", "uncached", "hit")
"""What is left out first where a terminal is too narrow for all: half a number is none."""
_LEAST_NAME = 8
"""Columns that agents' names need at least; they are folded."""


def render(report: CacheReport) -> RenderableType:
    """Return the report for a rich console: a table, and below it why it was not less."""
    from rich.console import Group
    from rich.text import Text

    return Group(_Fitting(report), *(Text(line) for line in why(report)))


class _Fitting:
    """The table, without what has no room."""

    def __init__(self, report: CacheReport) -> None:
        self._report = report

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        n_left_out = 0
        while n_left_out < len(_DISPENSABLE) and (
            _least_width(self._report, _DISPENSABLE[:n_left_out]) > options.max_width
        ):
            n_left_out += 1
        yield table(self._report, without=_DISPENSABLE[:n_left_out])


def table(report: CacheReport, *, without: Collection[str] = ()) -> Table:
    """Return one row for each agent, then the total. Money is shown where there is any.

    Columns in `without` are left out. Amounts are in USD. `planned` is what the requests would have
    cost if all plans had come true, `uncached` what they would have cost without any cache.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    priced = report.total.money is not None
    padding = (0, 0) if priced else (0, 1)
    shown = Table(box=box.SIMPLE_HEAD, show_footer=False, padding=padding)
    shown.add_column("agent", overflow="fold")
    rows = [_cells(row, priced) for row in (*report.rows, report.total)]
    names = [name for name in rows[0] if name not in without]
    for name in names:
        shown.add_column(name, justify="right", no_wrap=priced)
    for row, cells in zip((*report.rows, report.total), rows, strict=True):
        if row is report.total:
            shown.add_section()
        # As text: `agent[0]` is no markup.
        shown.add_row(Text(row.label), *(Text(cells[name]) for name in names))
    return shown


def _least_width(report: CacheReport, without: Collection[str]) -> int:
    """Return how wide a table with money must be to show each number whole; 0 without money."""
    if report.total.money is None:
        return 0  # its cells are wrapped
    rows = [_cells(row, True) for row in (*report.rows, report.total)]
    names = [name for name in rows[0] if name not in without]
    widths = (max(len(name), *(len(cells[name]) for cells in rows)) for name in names)
    labels = max(len(row.label) for row in (*report.rows, report.total))
    return 2 + min(_LEAST_NAME, labels) + sum(1 + width for width in widths)


def why(report: CacheReport) -> list[str]:
    """Return one line for each cause at each agent, the dearest first; none if nothing is amiss."""
    order = sorted(
        report.losses, key=lambda loss: (loss.lost_usd.known, loss.lost_tokens), reverse=True
    )
    lines = [_why(loss) for loss in order]
    money = report.total.money
    if money is not None and money.cost.unknown:
        lines.append(
            f"  {money.cost.unknown} of {report.total.requests} requests have no known cost: "
            "sums with a `+` are at least that much"
        )
    return lines


def render_text(report: CacheReport, *, width: int = _WIDTH) -> str:
    """Return the report as plain text without colours, at most `width` columns wide.

    Columns that have no room are left out, see `table`.
    """
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(report))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


def _why(loss: Loss) -> str:
    calls = "1 call" if loss.requests == 1 else f"{loss.requests} calls"
    lost = ""
    if loss.lost_tokens:
        money = "" if loss.lost_usd.unknown else f", {usd_text(loss.lost_usd)}"
        lost = f", {loss.lost_tokens:,} tokens{money}"
    name = _NAMES.get(loss.cause, loss.cause.value.replace("_", " "))
    return f"  {loss.agent}: {name} ({calls}{lost}): {loss.first.detail}"


_NAMES = {
    Cause.UNKNOWN: "not known why",
    Cause.OUTPUT_DOMINATES: "output dominates",
    Cause.EVICTED: "evicted by the provider",
}


def _cells(row: CacheRow, priced: bool) -> dict[str, str]:
    """Return what stands in each column beside the name."""
    usage = row.usage
    ratio = usage.hit_ratio
    cells = {
        "calls": str(row.requests),
        "prompt": _count(usage.input_tokens),
        "read": _count(usage.cache_read_tokens),
        "hit": "unknown" if ratio is None else f"{ratio:.1%}",
        "output": _count(usage.output_tokens),
    }
    first = _milliseconds(row.ttft_first_s)
    if not priced:
        return {
            **cells,
            **dict(zip(_TIMES, (first, _milliseconds(row.ttft_median_s)), strict=True)),
        }
    money = row.money
    amounts = (
        ("", "", "")
        if money is None
        else map(usd_text, (money.cost, money.planned, money.uncached))
    )
    return {**cells, **dict(zip(_MONEY, (first, *amounts), strict=True))}


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def _milliseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:,.0f} ms"
