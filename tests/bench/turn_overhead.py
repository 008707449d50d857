"""What a turn and a tool call cost the machine that asks: CPU time, beside other frameworks.

All talk HTTP to the same provider that does no work (`turn_replies.py`), in a process of its own.
The agent has one small async tool, which it calls in every turn but the last (`turn_work.py`).

    bare           httpx2 alone: `json.dumps` of the whole history, `json.loads` of each event
    ours           an Agent with a HostedModel: context, plan, adapter, verdict, report
    pydantic-ai    `Agent.run`, which asks for whole answers; in streamed cells `run_stream_events`
    openai-agents  `Runner.run`, and `Runner.run_streamed`; it has OpenAI's API alone

Each framework has a process, and these take turns: what else the machine does meets all of them.
The least of the rounds counts, for what disturbs can only add; with one run, that of each turn.

    python tests/bench/turn_overhead.py [--peers DIR] [--install-peers DIR] [--rounds 3] [--write]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from results import Result, write_benchmarks
from rich.console import Console
from rich.table import Table
from turn_peers import PEERS
from turn_work import Work

BENCHMARKS = Path(__file__).parents[2] / "docs" / "benchmarks.json"
_APIS = ("anthropic", "responses")
_OWN = ("bare", "ours")
_PACKAGES = ("pydantic-ai-slim[anthropic,openai]==2.68.0", "openai-agents==0.24.0")
_MANY_CALLS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One line of the table."""

    work: Work
    with_peers: bool = True
    per_call: bool = False
    """Whether it is about a tool call: what a turn with nine costs more than one with one."""

    @property
    def name(self) -> str:
        """As in docs/benchmarks.json."""
        work = self.work
        parts = [work.api, f"{work.n_bytes // 1_000}kb", f"{work.n_runs}_runs"]
        parts.append("tool_call" if self.per_call else f"{work.n_turns}_turns")
        return "_".join([*parts, *(["streamed"] if work.streams else [])])


def cells(address: str) -> Iterator[Cell]:
    """All that is measured. Longer loops of the peers take minutes: what they do is quadratic."""
    for api in _APIS:
        work = Work(address=address, api=api, n_turns=10, streams=False)
        for n_bytes in (4_096, 409_600):
            for n_runs, n_turns in ((1, 10), (10, 10), (100, 3)):
                yield Cell(work=replace(work, n_bytes=n_bytes, n_runs=n_runs, n_turns=n_turns))
        yield Cell(work=replace(work, streams=True))
        yield Cell(work=replace(work, n_calls=_MANY_CALLS), per_call=True)
        yield Cell(work=replace(work, n_turns=100))
        yield Cell(work=replace(work, n_turns=1_000), with_peers=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """CPU milliseconds of a turn or a tool call, round by round."""

    cell: Cell
    rounds: Mapping[str, list[float]]
    """By framework."""
    least: Mapping[str, float]
    """The least, turn by turn where turns are known."""

    def best(self, name: str) -> float | None:
        """The least; None where it was not measured."""
        return self.least.get(name)

    def ratio(self, name: str) -> float | None:
        """What a framework costs, by what ours does."""
        theirs, ours = self.best(name), self.best("ours")
        return None if theirs is None or ours is None else theirs / ours


class Worker:
    """A framework in a process of its own."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        script = str(Path(__file__).with_name("turn_worker.py"))
        self._process = subprocess.Popen(
            [str(python), script, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def cpu_ms(self, work: Work) -> list[float]:
        """Do the work; returns CPU milliseconds for a turn of a run, as parts of this mean."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(work)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} failed at {work!r}; it says why above")
        parts_s: list[float] = json.loads(line)
        return [part_s * 1_000 / (work.n_turns * work.n_runs) for part_s in parts_s]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(cell: Cell, workers: Sequence[Worker], rounds: int) -> Costs:
    """Let all frameworks do the work, in turn."""
    found: dict[str, list[list[float]]] = {}
    ones: dict[str, list[list[float]]] = {}
    taking_part = [worker for worker in workers if _takes_part(worker.name, cell)]
    for _ in range(rounds):
        for worker in taking_part:
            found.setdefault(worker.name, []).append(worker.cpu_ms(cell.work))
            if cell.per_call:
                one = worker.cpu_ms(replace(cell.work, n_calls=1))
                ones.setdefault(worker.name, []).append(one)
    least = {name: _least(parts) for name, parts in found.items()}
    whole = {name: [sum(parts) for parts in rounds] for name, rounds in found.items()}
    if cell.per_call:
        # The least of each: a difference of two that were disturbed says nothing.
        n_turns = cell.work.n_turns
        share = n_turns / (n_turns - 1) / (cell.work.n_calls - 1)
        least = {name: (least[name] - _least(ones[name])) * share for name in found}
        whole = {name: [cost] for name, cost in least.items()}
    return Costs(cell=cell, rounds=whole, least=least)


def _least(rounds: Sequence[Sequence[float]]) -> float:
    """Return the sum of the least of each part."""
    least: float = sum(map(min, zip(*rounds, strict=True)))
    return least


def _takes_part(name: str, cell: Cell) -> bool:
    if name in _OWN:
        return True
    return cell.with_peers and cell.work.api in PEERS[name][1]


@contextmanager
def provider() -> Iterator[str]:
    """The address of a provider that answers while this is open."""
    command = [sys.executable, str(Path(__file__).with_name("turn_replies.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def show(costs: Sequence[Costs], names: Sequence[str]) -> None:
    """Print the table."""
    table = Table(title="CPU ms per turn or tool call, least of the rounds")
    for name in ("cell", *names, "ours / bare"):
        table.add_column(name, justify="left" if name == "cell" else "right")
    for each in costs:
        bare = each.ratio("bare")
        found = [_shown(each.best(name)) for name in names]
        table.add_row(each.cell.name, *found, _shown(None if bare is None else 1 / bare))
    Console(width=120).print(table)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def results(costs: Sequence[Costs], names: Sequence[str], rounds: int) -> Iterator[Result]:
    """What is written down: each cell, and the worst one beside each peer."""
    for each in costs:
        for name in names:
            ratio = each.ratio(name)
            if ratio is None or name == "ours" or (name == "bare" and each.cell.per_call):
                continue  # a call costs the bare loop next to nothing
            values = [f"{n} {_shown(each.best(n))} ms (median {_median(each, n)})" for n in names]
            note = "CPU per tool call" if each.cell.per_call else "CPU per turn"
            note = f"{note}, least of {rounds} in turn; " + ", ".join(
                value for value, n in zip(values, names, strict=True) if n in ("ours", name)
            )
            if name == "bare":
                what, ratio = f"turn_overhead_over_bare_httpx2_{each.cell.name}", 1 / ratio
            else:
                what = f"turn_overhead_vs_{_plain(name)}_{each.cell.name}"
            yield Result(name=what, value=round(ratio, 3), unit="ratio", note=note)
    for name in names:
        pairs = [(ratio, each.cell.name) for each in costs if (ratio := each.ratio(name))]
        if name not in _OWN and pairs:
            worst, where = min(pairs)
            yield Result(
                name=f"turn_overhead_vs_{_plain(name)}_worst_cell",
                value=round(worst, 3),
                unit="ratio",
                note=f"their CPU time / ours, of {len(pairs)} cells; the worst is {where}",
            )


def _median(costs: Costs, name: str) -> str:
    return _shown(statistics.median(costs.rounds[name])) if name in costs.rounds else ""


def _plain(name: str) -> str:
    return name.replace("-", "_")


def install(folder: Path) -> None:
    """Make an environment with the other frameworks."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *_PACKAGES], check=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, help="folder whose `frameworks` has the others")
    parser.add_argument("--install-peers", type=Path, help="fill such a folder first, then use it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cells whose names have this text")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.json")
    given = parser.parse_args()
    if given.install_peers is not None:
        install(given.install_peers / "frameworks")
    folder = given.install_peers or given.peers
    names = [*_OWN, *(PEERS if folder is not None else ())]
    costs: list[Costs] = []
    with provider() as address, ExitStack() as stack:
        workers = []
        for name in names:
            python = Path(sys.executable)
            if name not in _OWN:
                python = folder / "frameworks" / "bin" / "python"
            worker = Worker(name, python)
            stack.callback(worker.close)
            workers.append(worker)
        for api in _APIS:  # to warm up
            measure(Cell(work=Work(address=address, api=api, n_turns=3)), workers, 1)
        for cell in cells(address):
            if given.only in cell.name:
                costs.append(measure(cell, workers, given.rounds))
                show(costs[-1:], names)
    show(costs, names)
    if given.write:
        write_benchmarks(BENCHMARKS, results(costs, names, given.rounds))


if __name__ == "__main__":
    main()
