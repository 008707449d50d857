"""`TopFigures` as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentkit_runtime.cli.top_figures import Branch, Document, TopFigures

HOT_PRESSURE = 0.85
"""From here on servers refuse the batch class, by default."""

_BAR_CELLS = 40


def frame(figures: TopFigures) -> RenderableType:
    """The whole view."""
    return Group(
        _head(figures),
        _pool(figures),
        _numbers(figures),
        _branches(figures.branches),
        _requests(figures.requests),
    )


def _head(now: TopFigures) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(now.model, style="bold")
    line.append(f"  {now.phase}", style="green" if now.phase == "ready" else "yellow")
    line.append(f"  up {duration(now.up_s)}")
    if now.pressure is not None:
        hot = now.pressure >= HOT_PRESSURE
        line.append(f"  pressure {percent(now.pressure)}", style="red" if hot else "")
        if hot:
            line.append(f" ({now.pressure_cause})", style="red")
    return line


def _pool(now: TopFigures) -> Text:
    line = Text("pool ")
    held, cached = _cells(now.held, now.slots), _cells(now.cached, now.slots)
    cached = min(cached, _BAR_CELLS - held)
    line.append("█" * held, style="red")
    line.append("▓" * cached, style="cyan")
    line.append("░" * (_BAR_CELLS - held - cached), style="dim")
    line.append(
        f" {now.held:,} in use, {now.cached:,} cached, {now.free:,} free of {now.slots:,}; "
        f"{now.pinned:,} pinned"
    )
    return line


def _cells(part: int, whole: int) -> int:
    """Cells of a bar; what is there is seen."""
    return max(int(part > 0), round(_BAR_CELLS * part / max(whole, 1)))


def _numbers(now: TopFigures) -> Table:
    grid = Table.grid(padding=(0, 3))
    grid.add_row(
        f"hit ratio {percent(now.hit_ratio)} (since start {percent(now.hit_ratio_since_start)})",
        f"first token: hit {milliseconds(now.hit_ttft_s)}, miss {milliseconds(now.miss_ttft_s)}",
        f"computed again {percent(now.thrash)}",
    )
    grid.add_row(
        f"{now.running} running, {now.waiting} waiting",
        f"{now.prompt_tokens_per_s:,.0f} prompt tokens/s",
        f"{now.generated_tokens_per_s:,.0f} generated tokens/s",
    )
    return grid


def _branches(branches: Sequence[Branch]) -> Table:
    table = _table("hits", "tokens", "behind", "tenant", "hottest branches")
    for branch in branches:
        row = (str(branch.hits), str(branch.tokens), str(branch.start), branch.tenant)
        table.add_row(*map(plain, (*row, ", ".join(branch.marks))))
    return table


def _requests(rows: Sequence[Document]) -> Table:
    table = _table("request", "prompt", "cached", "first token", "last requests")
    for row in rows:
        table.add_row(
            plain(str(row["number"])),
            plain(str(row["prompt_tokens"])),
            plain(str(row["cached_tokens"])),
            plain(milliseconds(row["ttft_s"])),
            plain(_about(row)),
        )
    return table


def _about(row: Document) -> str:
    outcome = row["outcome"] if row["outcome"] == "done" else f"{row['outcome']} {row['status']}"
    why = [row["missed"]] if row["missed"] not in (None, "cached") else []
    session = [f"session {row['session']}"] if row["session"] else []
    return ", ".join([row["tenant"], outcome, *why, *session])


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    for head in heads[:-1]:
        table.add_column(head, justify="left" if head == "tenant" else "right", no_wrap=True)
    table.add_column(heads[-1], ratio=1, no_wrap=True, overflow="ellipsis")
    return table


def plain(text: str) -> Text:
    """A text of others' making: no markup of ours, no control characters of a terminal."""
    return Text("".join(char if char.isprintable() else "?" for char in text))


def percent(share: float | None) -> str:
    """A share of 0 to 1."""
    return "-" if share is None else f"{100 * share:.0f}%"


def milliseconds(seconds: float | None) -> str:
    """A time, to be compared with others."""
    return "-" if seconds is None else f"{1000 * seconds:,.0f} ms"


def duration(seconds: float) -> str:
    """A long time, in its two largest units."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s"
