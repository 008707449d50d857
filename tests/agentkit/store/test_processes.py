"""Several processes at one database at the same time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from agentkit import Agent
from agentkit.store import SqlJournal, open_journal
from agentkit.testing import Call, ScriptedModel

ROOT = Path(__file__).parents[3]
N_RUNS = 8


def note(text: str) -> str:
    """Note something."""
    return f"Noted: {text}"


async def runs(journal: SqlJournal, who: str) -> None:
    """Runs of several turns, all at once."""
    agents = [
        Agent(
            name="clerk",
            instructions="You take notes.",
            tools=[note],
            model=ScriptedModel([*([Call("note", {"text": who})] for _ in range(3)), "Done."]),
            journal=journal,
        )
        for _ in range(N_RUNS)
    ]
    await asyncio.gather(
        *(agent.run("go", run_id=f"{who} {i}", user=who) for i, agent in enumerate(agents))
    )


def test_two_processes_keep_their_runs_in_one_database(url: str) -> None:
    command = [sys.executable, "-m", "tests.agentkit.store.test_processes", url]
    with (
        open_journal(url) as journal,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as other,
    ):
        assert other.stdout is not None
        other.stdout.read(1)  # it is about to begin
        asyncio.run(runs(journal, "this"))
        assert other.wait() == 0
        asyncio.run(_check(journal))


async def _check(journal: SqlJournal) -> None:
    rows = await journal.runs()
    assert len(rows) == 2 * N_RUNS
    assert {(row.status, row.n_requests) for row in rows} == {("done", 4)}
    assert sorted(row.user for row in rows) == ["other"] * N_RUNS + ["this"] * N_RUNS
    for row in rows:
        (run,) = await journal.load(row.run_id)
        assert len(run.context.messages) == 8


if __name__ == "__main__":
    with open_journal(sys.argv[1]) as opened:
        sys.stdout.write(".")
        sys.stdout.flush()
        asyncio.run(runs(opened, "other"))
