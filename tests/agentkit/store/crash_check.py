"""Kills runs of the crash world at points, and checks what is reached in the end."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agentkit.blocks import ToolMessage
from agentkit.caching.report import RequestRecord
from agentkit.saved import SavedRun
from agentkit.store import SqlJournal, open_journal
from agentkit.usage import Usage
from tests.agentkit.store.crash_world import INTERRUPTED, RUN, SCRIPTS

ROOT = Path(__file__).parents[3]
_MOST_PROCESSES = 30
_KILLED = -9


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A run that nothing has interrupted."""

    asked: dict[str, str]
    """Digest of the wire bytes of each request, by its id."""
    runs: tuple[SavedRun, ...]
    points: int


class Crashes:
    """Runs, each killed at a point, and gone on with by further processes until it ends."""

    def __init__(self, server: subprocess.Popen[str], folder: Path, url: str, seed: int) -> None:
        self._server = server
        self._folder = folder
        self._url = url
        self._random = random.Random(seed)
        self._expected: dict[frozenset[str], Expected] = {}
        self.n_kills = 0
        self.n_cut_off = 0

    def points(self, n_runs: int) -> list[int]:
        """Different points to be killed at, out of all that an uninterrupted run has."""
        code, n_points = self._go_on(self._log("count"), 0)
        assert code == 0
        self._check_end(self._log("count"))
        return self._random.sample(range(1, n_points + 1), n_runs)

    def check(self, point: int) -> None:
        """Kill a run at a point, and most of those that go on with it at points of theirs."""
        log = self._log(f"killed-at-{point}")
        kill_at, codes = point, list[int]()
        while not codes or codes[-1] != 0:
            assert len(codes) < _MOST_PROCESSES, f"never ends: {codes}"
            codes.append(self._go_on(log, kill_at)[0])
            assert codes[-1] in (0, _KILLED), f"killed at {point}: {codes}"
            kill_at = self._random.randint(1, 2 * point) if self._random.random() < 0.5 else 0
        self.n_kills += codes.count(_KILLED)
        self._check_end(log)

    def check_within(self, place: str) -> None:
        """Kill a run while a call runs, and go on with it."""
        log = self._log("killed-within")
        assert self._go_on(log, 0, kill_in=place)[0] == _KILLED
        assert self._go_on(log, 0)[0] == 0
        self._check_end(log)

    def _check_end(self, log: Path) -> None:
        with open_journal(self._url) as journal:
            runs = asyncio.run(journal.load(RUN))
            asyncio.run(_deleted(journal))
        calls = Counter[tuple[str, str]]()
        kinds: dict[str, str] = {}
        asked: dict[str, str] = {}
        finished = set[str]()
        n_asked = Counter[str]()
        for word, place, *rest in map(str.split, log.read_text().splitlines()):
            if word == "asked":
                assert asked.setdefault(place, rest[0]) == rest[0], "a request has other bytes"
                n_asked[place.rsplit("-", 2)[0]] += 1
            elif word == "has":
                finished.add(place)
            else:
                assert place not in finished, f"{place} was finished, and ran again"
                calls[word, place] += 1
                kinds[place] = rest[0]
        for run in runs:
            assert n_asked[run.run_id] <= len(run.requests), "a request is not counted"
        cut_off = frozenset(_cut_off(runs))
        self.n_cut_off += len(cut_off)
        for place, kind in kinds.items():
            if kind == "charge":
                assert calls["began", place] == 1, f"{place} ran twice"
            assert calls["ended", place] >= 1 or place in cut_off, f"{place} was lost"
        assert {place for place in cut_off if kinds.get(place, "charge") != "charge"} == set()
        expected = self.expected(cut_off)
        assert asked == expected.asked
        assert _comparable(runs) == _comparable(expected.runs)

    def expected(self, cut_off: frozenset[str] = frozenset()) -> Expected:
        """The run as it is without a crash, where some calls answer as if there was one."""
        if cut_off not in self._expected:
            number = len(self._expected)
            url = f"sqlite:///{self._folder / f'expected-{number}.db'}"
            log = self._log(f"expected-{number}")
            code, points = self._go_on(log, 0, url, cut_off)
            assert code == 0
            with open_journal(url) as journal:
                runs = asyncio.run(journal.load(RUN))
            lines = [line.split() for line in log.read_text().splitlines()]
            asked = {words[1]: words[2] for words in lines if words[0] == "asked"}
            self._expected[cut_off] = Expected(asked=asked, runs=runs, points=points)
        return self._expected[cut_off]

    def _go_on(
        self,
        log: Path,
        kill_at: int,
        url: str = "",
        cut_off: frozenset[str] = frozenset(),
        kill_in: str = "",
    ) -> tuple[int, int]:
        order = {"url": url or self._url, "log": str(log), "kill_at": kill_at, "kill_in": kill_in}
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({**order, "cut_off": sorted(cut_off)}) + "\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return answer["code"], answer["points"]

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@contextmanager
def crashes(folder: Path, url: str, seed: int) -> Iterator[Crashes]:
    """Start the server that forks the runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.agentkit.store.crash_world"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        yield Crashes(server, folder, url, seed)
        assert server.stdin is not None
        server.stdin.close()


async def _deleted(journal: SqlJournal) -> None:
    """Make room for the next run; a crash leaves nothing that its deletion does not find."""
    assert await journal.delete(run_id=RUN) == 5
    assert (await journal.export()).count(b"\n") == 1


def _cut_off(runs: tuple[SavedRun, ...]) -> Iterator[str]:
    for run in runs:
        for message in run.context.messages:
            for result in message.results if isinstance(message, ToolMessage) else ():
                if result.content == INTERRUPTED:
                    yield f"{run.run_id}:{result.call_id}"


def _comparable(runs: tuple[SavedRun, ...]) -> list[SavedRun]:
    """Runs without their times, and without requests that a process was killed at."""
    assert sum(run.agent == "lead" for run in runs) == 1
    answered = {run.run_id: tuple(filter(_is_answered, run.requests)) for run in runs}
    assert all(len(answered[run.run_id]) == len(SCRIPTS[run.agent]) for run in runs)
    same = [replace(run, began_at=0.0, total_s=0.0, requests=answered[run.run_id]) for run in runs]
    return sorted(same, key=lambda run: run.run_id)


def _is_answered(request: RequestRecord) -> bool:
    return request.usage != Usage()
