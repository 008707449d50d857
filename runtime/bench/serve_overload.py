"""More than a real server can take, a person in the middle of it, and the time behind it.

    python runtime/bench/serve_overload.py [--seconds 60] [--streams 256] [--write]

Streams of the batch class whose conversations share nothing: each has documents of its own, so each
of them needs room and prefill. The server has to tell them to come again (429 with Retry-After) and
to answer a person (interactive class) all the while; when they are gone it has to be as before.
Fails if nobody was refused, if a person was, if an answer was wrong in any other way, or if batch
requests are still refused two minutes later.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx2

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import DOCS, Figures, merge
from bench.serve_load import (
    BASELINE_QUESTIONS,
    N_DOCUMENTS,
    PERSON_EVERY_S,
    SLOTS,
    Seen,
    batch_stream,
    idle_and_open,
    person,
)
from bench.serve_process import ServeProcess, serve_process


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds to the first token of a person's questions, and what else was seen."""

    before: list[float]
    under: list[float]
    after: list[float]
    seen: Seen
    recovered_s: float


async def measure(server: ServeProcess, seconds: float, n_streams: int) -> Outcome:
    """The whole run."""
    seen = Seen()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=n_streams + 4)
    async with httpx2.AsyncClient(base_url=server.url, timeout=300, limits=limits) as client:
        before = await _calm(client, seen)
        ends_s = time.perf_counter() + seconds
        load = [
            asyncio.create_task(batch_stream(client, n, seen, ends_s, shared=False))
            for n in range(n_streams)
        ]
        n_questions = max(5, int(seconds / PERSON_EVERY_S))
        under = await person(client, n_questions, seen, every_s=PERSON_EVERY_S, first=1000)
        await asyncio.gather(*load)
        ended_s = time.perf_counter()
        await idle_and_open(client)
        recovered_s = time.perf_counter() - ended_s
        after = await _calm(client, seen)
    return Outcome(before, under, after, seen, recovered_s)


async def _calm(client: httpx2.AsyncClient, seen: Seen) -> list[float]:
    """A person's questions to an idle server that knows the documents."""
    for n in range(N_DOCUMENTS):
        await person(client, 1, seen, every_s=0, first=-1 - n)
    return await person(client, BASELINE_QUESTIONS, seen, every_s=0.0)


def show(outcome: Outcome, seconds: float, n_streams: int) -> Figures:
    """Print what was measured."""
    figures, seen = Figures(), outcome.seen
    base = statistics.median(outcome.before)
    note = f"{n_streams} batch streams that share nothing, for {seconds:.0f} s"
    figures.add("overload_refused", seen.refused, "", f"429 with Retry-After; {note}")
    figures.add("overload_answers", seen.answers, "", f"batch answers; {note}")
    figures.add(
        "overload_errors", seen.errors.total(), "", "anything but these, or a person refused"
    )
    figures.add(
        "overload_ttft_vs_idle",
        statistics.median(outcome.under) / base,
        "x",
        f"a person's first token, medians; {1000 * base:.0f} ms idle",
    )
    figures.add("overload_recovered_s", outcome.recovered_s, "s", "until batch is let in again")
    figures.add(
        "overload_ttft_after_vs_before",
        statistics.median(outcome.after) / base,
        "x",
        "idle again, behind the load",
    )
    for error, n in seen.errors.most_common(10):
        sys.stdout.write(f"{n} x {error}\n")
    return figures


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/")
    parser.add_argument("options", nargs="*", help="more options of `serve`, behind --")
    asked = parser.parse_args()
    with serve_process("--slots", str(SLOTS), *asked.options) as server:
        outcome = asyncio.run(measure(server, asked.seconds, asked.streams))
        figures = show(outcome, asked.seconds, asked.streams)
        code = server.stop()
    sys.stdout.write(f"exit code {code}\n")
    if asked.write:
        merge(DOCS / "benchmarks.json", figures.rows)
    sys.exit(1 if outcome.seen.errors.total() or code or not outcome.seen.refused else 0)


if __name__ == "__main__":
    main()
