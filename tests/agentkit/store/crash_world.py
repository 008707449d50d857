"""A team whose run is killed at any of its points, and the server that forks the runs.

As a program it reads one order a line, each an object, and forks a process for it:

    {"url": ..., "log": path, "kill_at": n or 0, "kill_in": call or "", "cut_off": [calls]}

`log` gets what the process does, line by line, each on the disk before the next thing happens.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import event

from agentkit import Agent
from agentkit.events import (
    ModelEnd,
    ModelEvent,
    TextDelta,
    ToolCallArguments,
    ToolCallStarted,
    UsageEvent,
)
from agentkit.hooks import Hooks
from agentkit.journal import Check, Journal, JournalError
from agentkit.models.base import ModelRequest
from agentkit.saved import SavedRun
from agentkit.store import SqlJournal, open_journal
from agentkit.team import fan_out
from agentkit.toolset import ToolContext, ToolOutput, tool
from agentkit.usage import Timing, Usage

RUN = "crash"
TASK = "Audit the books."
INTERRUPTED = (
    "This call was begun, and the process that ran it ended before there was a result. Whether it "
    "had an effect is unknown: find out before you call it again."
)

Said = Sequence[tuple[str, Mapping[str, Any]]] | str
SCRIPTS: Mapping[str, Sequence[Said]] = {
    "lead": (
        [("look", {"at": "cash"})],
        [("charge", {"usd": 1})],
        [("look", {"at": "stock"}), ("charge", {"usd": 2})],
        [("delegate_to_digger", {"task": "Dig in the cash."})],
        [("charge", {"usd": 3})],
        [("look", {"at": "a"}), ("look", {"at": "b"}), ("look", {"at": "c"})],
        [("survey", {"topics": ["rent", "wages"]})],
        [("look", {"at": "rent"})],
        [("charge", {"usd": 4}), ("delegate_to_digger", {"task": "Dig in the rent."})],
        [("look", {"at": "wages"})],
        [("charge", {"usd": 5})],
        "The books are in order.",
    ),
    "digger": ([("look", {"at": "dirt"})], [("charge", {"usd": 6})], "Nothing but dirt."),
    "reader": ([("look", {"at": "page"})], "I have read it."),
}
"""What each agent says in its turns: calls, or its answer."""


class Points:
    """Counts what happens, and kills the process at the n-th thing, or in a call. 0: never."""

    def __init__(self, kill_at: int, kill_in: str, log: Path) -> None:
        self.count = 0
        self._kill_at = kill_at
        self._kill_in = kill_in
        self._lock = threading.Lock()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hit(self, *_: object) -> None:
        with self._lock:
            self.count += 1
            if self.count == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def note(self, *words: str) -> None:
        self.hit()
        os.write(self._log, " ".join(words).encode() + b"\n")
        os.fsync(self._log)
        self.hit()
        if words[:2] == ("began", self._kill_in):
            os.kill(os.getpid(), signal.SIGKILL)


class ScriptReader:
    """A model whose answer, ids and usage are a function of the request alone."""

    label = "script"
    siblings_start_together = False

    def __init__(self, points: Points) -> None:
        self._points = points

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        turn = sum(message.kind == "assistant" for message in request.context.messages)
        wire = request.wire
        self._points.note("asked", request.request_id, hashlib.sha256(wire).hexdigest())
        for each in _events(SCRIPTS[request.agent][turn], turn):
            self._points.hit()
            yield each
            await asyncio.sleep(0)
        self._points.hit()
        yield UsageEvent(usage=Usage(input_tokens=len(wire), output_tokens=1), timing=Timing())
        yield ModelEnd("tool_calls" if turn + 1 < len(SCRIPTS[request.agent]) else "stop")


def _events(said: Said, turn: int) -> list[ModelEvent]:
    if isinstance(said, str):
        return [TextDelta(said)]
    events: list[ModelEvent] = []
    for index, (name, arguments) in enumerate(said):
        events.append(ToolCallStarted(index=index, id=f"c{turn}.{index}", name=name))
        events.append(ToolCallArguments(index=index, text=json.dumps(arguments)))
    return events


class World:
    """What the tools touch."""

    def __init__(self, points: Points, cut_off: Sequence[str]) -> None:
        self.points = points
        self.cut_off = frozenset(cut_off)


async def _touch(context: ToolContext[World], what: str, result: str) -> str:
    place = f"{context.run_id}:{context.call_id}"
    context.deps.points.note("began", place, what)
    await asyncio.sleep(0)
    context.deps.points.note("ended", place, what)
    return result


@tool(idempotent=True)
async def look(context: ToolContext[World], at: str) -> str:
    """Look at something."""
    return await _touch(context, "look", f"{at} is fine. " + "x" * 500)


@tool
async def charge(context: ToolContext[World], usd: int) -> str:
    """Charge an account, which must not be done twice."""
    return await _touch(context, "charge", f"Charged {usd}.")


class CutOff(Hooks):
    """Answers calls as if a process had ended while they ran: for the run to compare with."""

    async def before_tool(self, run: Any, call: Any) -> ToolOutput | None:
        place = f"{run.run_id}:{call.id}"
        return ToolOutput.error(INTERRUPTED) if place in run.deps.cut_off else None


class Lead(Agent[World]):
    """You audit books."""

    @tool(idempotent=True)
    async def survey(self, context: ToolContext[World], topics: list[str]) -> str:
        """Have topics read, all at once."""
        done = await fan_out(self, [("reader", topic) for topic in topics], within=context)
        return " ".join(str(each.output) for each in done.ok)


def team(world: World, journal: Journal) -> Lead:
    """The lead and its subagents."""
    common: Mapping[str, Any] = {
        "model": ScriptReader(world.points),
        "deps": world,
        "hooks": [CutOff()],
        "tools": [look, charge],
    }
    below = [
        Agent(name=name, instructions=f"You are the {name}.", **common)
        for name in ("digger", "reader")
    ]
    return Lead(name="lead", subagents=below, journal=journal, **common)


class WatchedJournal:
    """A journal whose every statement, commit and answer is a point."""

    def __init__(self, journal: SqlJournal, points: Points) -> None:
        self._journal = journal
        self._points = points
        engine = journal._worker.engine
        event.listen(engine, "before_cursor_execute", points.hit)
        event.listen(engine, "after_cursor_execute", points.hit)
        commit = engine.dialect.do_commit

        def do_commit(connection: Any) -> None:
            points.hit()
            commit(connection)
            points.hit()  # it is kept, and nobody knows

        engine.dialect.do_commit = do_commit  # type: ignore[method-assign]

    async def save(self, run: SavedRun) -> None:
        await self._journal.save(run)
        self._points.hit()

    async def load(self, run_id: str) -> tuple[SavedRun, ...]:
        return await self._journal.load(run_id)

    async def claim(self, run_id: str, check: Check | None = None) -> tuple[SavedRun, ...]:
        runs = await self._journal.claim(run_id, check)
        for run in runs:
            for call_id in run.open_turn.results if run.open_turn is not None else ():
                self._points.note("has", f"{run.run_id}:{call_id}")
        return runs

    async def latest(self, session: str, agent: str) -> SavedRun | None:
        return await self._journal.latest(session, agent)


async def go_on(order: Mapping[str, Any]) -> int:
    """Begin the run, or go on with it; returns how many points there were."""
    points = Points(order["kill_at"], order["kill_in"], Path(order["log"]))
    with open_journal(order["url"]) as journal:
        agent = team(World(points, order["cut_off"]), WatchedJournal(journal, points))
        if await journal.load(RUN):
            await agent.resume(RUN)
        else:
            try:
                await agent.run(TASK, run_id=RUN, session="books", user="ann")
            except JournalError:
                # The commit of a process that was killed has come through after all.
                await agent.resume(RUN)
    return points.count


def serve() -> None:
    """Fork a process for each order; answer with how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        # So that what is made at first use is there in every process that is forked.
        never: Mapping[str, Any] = {"kill_at": 0, "kill_in": "", "cut_off": ()}
        asyncio.run(go_on({"url": "sqlite://", "log": f"{folder}/log", **never}))
    for line in sys.stdin:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            status = 1
            try:
                os.write(writing, str(asyncio.run(go_on(json.loads(line)))).encode())
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as answer:
            points = answer.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        sys.stdout.write(json.dumps({"code": code, "points": int(points or 0)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
