"""What a turn costs the machine that asks: process CPU time, beside two loops without a framework.

All talk to the same provider that does no work (`turn_replies.py`), over HTTP, in a process of its
own. The agent has one small tool, which it calls in every turn but the last. The tool is `async`: a
plain function would run in a thread of its own, which costs about 0.5 ms more.

    bare   httpx2 alone: `json.dumps` of the whole history, `json.loads` of each event
    SDK    the vendor's client: `create(stream=True)` with the whole history
    ours   an Agent with a HostedModel: context, plan, adapter, verdict, report

    python tests/bench/turn_overhead.py [--turns 10 100 400] [--rounds 3] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from results import Result, write_benchmarks
from rich.console import Console
from rich.table import Table
from turn_loops import APIS, Api, Run

_SDK_TURNS = 100
"""Longer loops of the vendors' clients take minutes: what they do is quadratic."""

BENCHMARKS = Path(__file__).parents[2] / "docs" / "benchmarks.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU milliseconds of one turn, round by round; the rounds take turns."""

    api: Api
    n_turns: int
    bare: list[float]
    sdk: list[float]
    ours: list[float]

    @property
    def ratio(self) -> float:
        """Ours by the bare loop's, the median of the rounds: a busy machine slows both."""
        pairs = zip(self.ours, self.bare, strict=True)
        return statistics.median(ours / bare for ours, bare in pairs)


def measure(api: Api, n_turns: int, *, address: str, rounds: int) -> Cost:
    """Run all three loops, once for warming up and then `rounds` times."""
    cost = Cost(api=api, n_turns=n_turns, bare=[], sdk=[], ours=[])
    loops = [(api.bare, cost.bare), (api.ours, cost.ours)]
    if n_turns <= _SDK_TURNS:
        loops.append((api.sdk, cost.sdk))
    for run, _ in loops:
        _cpu_s(run, address, 3)
    for _ in range(rounds):
        for run, found in loops:
            found.append(_cpu_s(run, address, n_turns) * 1_000 / n_turns)
    return cost


def _cpu_s(run: Run, address: str, n_turns: int) -> float:
    async def ran() -> float:
        return await run(f"{address}/{n_turns}", n_turns)

    return asyncio.run(ran())


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


def show(costs: list[Cost]) -> None:
    """Print the table."""
    table = Table(title="CPU ms per turn (median), one small tool")
    for name in ("API", "turns", "bare httpx2", "SDK", "ours", "ours / bare"):
        table.add_column(name, justify="left" if name == "API" else "right")
    for each in costs:
        bare, sdk, ours = map(_median, (each.bare, each.sdk, each.ours))
        table.add_row(each.api.name, str(each.n_turns), bare, sdk, ours, f"{each.ratio:.2f}")
    Console(width=100).print(table)


def _results(costs: list[Cost]) -> Iterator[Result]:
    for each in costs:
        yield Result(
            name=f"turn_overhead_{each.api.name}_{each.n_turns}_turns_over_bare_httpx2",
            value=round(each.ratio, 3),
            unit="ratio",
            note=f"process CPU per turn, median of {len(each.ours)}, one async tool; ours "
            f"{_median(each.ours)} ms, bare {_median(each.bare)} ms, SDK {_median(each.sdk)} ms",
        )


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}" if values else "-"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 100, 400])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--api", default="", help="one of the APIs")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.json")
    given = parser.parse_args()
    with provider() as address:
        costs = [
            measure(api, n_turns, address=address, rounds=given.rounds)
            for api in APIS
            if given.api in api.name
            for n_turns in given.turns
        ]
    show(costs)
    if given.write:
        write_benchmarks(BENCHMARKS, _results(costs))


if __name__ == "__main__":
    main()
