"""The cache report on a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from agentkit.caching.report import CacheReport, CacheRow

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH = 100


def render(report: CacheReport) -> Table:
    """Return the report as a rich table: one row for each agent, then the total."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_footer=False)
    table.add_column("agent", overflow="fold")
    for name in ("calls", "prompt", "read", "hit", "output", "TTFT first", "TTFT median"):
        table.add_column(name, justify="right")
    for row in report.rows:
        table.add_row(*map(Text, _cells(row)))  # as it is: `agent[0]` is no markup
    table.add_section()
    table.add_row(*map(Text, _cells(report.total)))
    return table


def render_text(report: CacheReport, *, width: int = _WIDTH) -> str:
    """Return the report as plain text without colours, at most `width` columns wide."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(report))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


def _cells(row: CacheRow) -> tuple[str, ...]:
    usage = row.usage
    ratio = usage.hit_ratio
    return (
        row.label,
        str(row.requests),
        _count(usage.input_tokens),
        _count(usage.cache_read_tokens),
        "unknown" if ratio is None else f"{ratio:.1%}",
        _count(usage.output_tokens),
        _milliseconds(row.ttft_first_s),
        _milliseconds(row.ttft_median_s),
    )


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def _milliseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:,.0f} ms"
