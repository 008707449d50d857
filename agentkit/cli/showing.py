"""A run on a terminal while it happens, and what is said at its end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from agentkit.cli.failures import say
from agentkit.events import (
    Event,
    RunEnd,
    RunPaused,
    SubagentEvent,
    TextDelta,
    TurnDropped,
    TurnEnd,
)
from agentkit.json_values import jsonable
from agentkit.observe.amounts import tokens_text, usd_text
from agentkit.observe.report import why
from agentkit.observe.team_view import TeamView
from agentkit.observe.watch import watch

if TYPE_CHECKING:
    from agentkit.result import RunRecord, RunResult
    from agentkit.saved import PausedRun
    from agentkit.stream import RunStream


class Screen:
    """How runs are shown: the answer on stdout, everything else on stderr.

    Args:
        watches: show the team as a tree.
        is_quiet: show nothing until the end.
        streams: write the root agent's words as they come; for people at a terminal.
    """

    def __init__(self, *, watches: bool, is_quiet: bool, streams: bool | None = None) -> None:
        self._watches = watches
        self._is_quiet = is_quiet
        is_terminal = sys.stdout.isatty() if streams is None else streams
        self._streams = is_terminal and not (watches or is_quiet)
        self._is_in_line = False

    async def show(self, events: RunStream[Any]) -> None:
        """Read the events to the end."""
        if self._watches:
            await watch(events)
            return
        view: TeamView | None = None
        async for event in events:
            if view is None:
                record = events.record
                view = TeamView("agent" if record is None else record.path[-1])
            _, line = view.push(event)
            self._take(event, line)

    def answered(self, result: RunResult[Any]) -> None:
        """Write the answer, unless it stands there already, and what the run cost."""
        self._end_line()
        if not self._streams:
            typer.echo(result.text)
        if not self._is_quiet:
            say(summary(result))
            for line in why(result.cache):
                say(line)

    def _take(self, event: Event, line: str | None) -> None:
        if isinstance(event, TextDelta) and self._streams:
            typer.echo(event.text, nl=False)
            self._is_in_line = not event.text.endswith("\n")
            return
        if isinstance(event, TurnEnd | TurnDropped):
            self._end_line()
        is_answer = isinstance(event, TurnEnd) and not event.turn.message.calls
        # How the run itself ends is said at its end.
        if line is None or self._is_quiet or is_answer or isinstance(event, RunEnd | RunPaused):
            return
        self._end_line()
        text = line if isinstance(event, SubagentEvent) else line.partition(": ")[2]
        typer.secho(f"  {text}", err=True, dim=True)

    def _end_line(self) -> None:
        if self._is_in_line:
            typer.echo()
            self._is_in_line = False


def summary(record: RunRecord) -> str:
    """Return one line: the run's id, its requests, tokens and cost."""
    n_requests = len(record.requests)
    parts = [
        f"run {record.run_id}",
        f"{n_requests} {'request' if n_requests == 1 else 'requests'}",
        tokens_text(record.usage),
        usd_text(record.cost),
        f"{record.total_s:.1f} s",
    ]
    return " · ".join(part for part in parts if part)


def result_json(result: RunResult[Any]) -> dict[str, Any]:
    """Return a run that has its answer as a JSON object."""
    said = {"output": jsonable(result.output), "text": result.text, "finish": result.finish}
    return {"status": "done"} | _record_json(result) | said


def failed_json(error: Exception, record: RunRecord) -> dict[str, Any]:
    """Return a run without an answer as a JSON object."""
    return {"status": "failed", "error": f"{type(error).__name__}: {error}"} | _record_json(record)


def paused_json(paused: PausedRun) -> dict[str, Any]:
    """Return a run that waits as a JSON object."""
    return {
        "status": "paused",
        "run_id": paused.run_id,
        "session": paused.runs[0].session,
        "agent": paused.runs[0].agent,
        "pending": [
            {
                "id": each.id,
                "agent": "/".join(each.path),
                "tool": each.call.name,
                "arguments": each.call.arguments,
            }
            for each in paused.pending
        ],
    }


def _record_json(record: RunRecord) -> dict[str, Any]:
    """Return what a run used as a JSON object; unknown values are null."""
    cost = record.cost
    return {
        "run_id": record.run_id,
        "session": record.requests[0].session if record.requests else record.run_id,
        "agent": record.path[-1],
        "requests": len(record.requests),
        "total_s": record.total_s,
        "cost_usd": None if cost is None else cost.to_json(),
        "cache": record.cache.to_json(),
    }
