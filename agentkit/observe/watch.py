"""A live view of a team at work: a tree of agents on a terminal, lines of text elsewhere.

async with agent.stream("...") as events:
    await watch(events)
events.result
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from agentkit.events import Event
from agentkit.observe.amounts import share_text, usd_text
from agentkit.observe.team_view import AgentView, TeamView

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from agentkit.stream import RunStream

_LEAST_S = 0.1
"""Between two pictures while nothing changes but numbers."""
_WIDTH = 100


async def watch(
    events: RunStream[Any],
    *,
    console: Console | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> None:
    """Read a run's events to the end, and show what its team does meanwhile.

    Args:
        events: the stream, not begun yet or in the middle.
        console: where to; by default the terminal on stderr. One that is no terminal gets a line
            for each turn, failure and end.
        on_event: hears every event.

    Raises:
        Whatever the run raises; the last picture stays.
    """
    if console is None:
        from rich.console import Console

        console = Console(stderr=True)
    view: TeamView | None = None
    with _picture(console) as picture:
        try:
            async for event in events:
                if view is None:
                    record = events.record
                    view = TeamView(record.path[-1] if record is not None else "agent")
                has_changed, line = view.push(event)
                picture.show(view, line, at_once=has_changed)
                if on_event is not None:
                    on_event(event)
        except BaseException as error:
            if view is not None:
                view.broke_off(error)
                picture.show(view, None, at_once=True)
            raise


class Picture:
    """Shows a view as it changes."""

    def __init__(
        self, console: Console, live: Live | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._live = live
        self._clock = clock
        self._shown_s = float("-inf")

    def show(self, view: TeamView, line: str | None, *, at_once: bool) -> None:
        """Show the view; the line where there is no terminal."""
        if self._live is None:
            if line is not None:
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)
            return
        now = self._clock()
        if at_once or now - self._shown_s >= _LEAST_S:
            self._shown_s = now
            self._live.update(render(view), refresh=True)


@contextlib.contextmanager
def _picture(console: Console) -> Iterator[Picture]:
    if not console.is_terminal:
        yield Picture(console, None)
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        yield Picture(console, live)


def render(view: TeamView) -> Table:
    """Return the team as a table: one row for each run, a tree by its names, then the total."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    agents = view.agents
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=False)
    table.add_column("agent", no_wrap=True, overflow="ellipsis")
    table.add_column("does", no_wrap=True, overflow="ellipsis", max_width=32)
    for name in ("turns", "in", "hit", "out", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    for index, agent in enumerate(agents):
        style = "dim" if agent.has_ended and index else ""
        label = Text(f"{_guides(agents, index)}{agent.path[-1]}")
        table.add_row(label, Text(agent.doing), *_numbers(agent), style=style)
    if len(agents) > 1:
        table.add_section()
        total = AgentView(path=("total",), usage=view.usage, cost=view.cost)
        total.turns = sum(agent.turns for agent in agents)
        table.add_row("total", "", *_numbers(total))
    return table


def render_text(view: TeamView, *, width: int = _WIDTH) -> str:
    """Return the picture as plain text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render(view))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


def _numbers(agent: AgentView) -> tuple[str, ...]:
    usage = agent.usage
    hit = "" if usage.hit_ratio is None else share_text(usage.hit_ratio)
    return (
        str(agent.turns),
        _count(usage.input_tokens),
        hit,
        _count(usage.output_tokens),
        usd_text(agent.cost),
    )


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens:,}"


def _guides(agents: tuple[AgentView, ...], index: int) -> str:
    """Return the lines of the tree before a name."""
    depth = len(agents[index].path)
    if depth == 1:
        return ""
    levels = range(2, depth)
    lines = "".join("│  " if _goes_on(agents, index, level) else "   " for level in levels)
    return lines + ("├─ " if _goes_on(agents, index, depth) else "└─ ")


def _goes_on(agents: tuple[AgentView, ...], index: int, depth: int) -> bool:
    """Whether a later row has this depth, before one that is nearer to the root."""
    for later in agents[index + 1 :]:
        if len(later.path) < depth:
            return False
        if len(later.path) == depth:
            return True
    return False
