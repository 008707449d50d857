"""What the server costs: to the engine, for each token, and at 64 streams. Takes three minutes.

    python runtime/bench/serve_overhead.py [--streams 64] [--rounds 3] [--write]

1. From a client's write to the engine's `submit`, beside a bare FastAPI application (the same
   uvicorn, a validated body, ready-made events) from the same write to its endpoint.
2. CPU time for each streamed token, beside the same.
3. The same answers of the real model in process through `ChatService`, and over HTTP: tokens/s on
   the clock, and CPU time. The client runs on the same cores, and its CPU time is told apart.

Timings need a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from agentkit_runtime.benching.workload import Workload
from bench.figures import DOCS, Figures, merge, table
from bench.overhead_client import stream, streams
from bench.serve_process import serve_process

HERE = Path(__file__).parent
ANSWER_TOKENS = 200
"""Of the answers of the servers without a model."""
N_REQUESTS = 100
MODEL_TOKENS = 48
SLOTS = 16_384

Body = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server without a model, in a process of its own."""

    port: int
    key: str
    pid: int

    @property
    def cpu_s(self) -> float:
        """CPU time so far."""
        return cpu_s(self.pid)

    def marks(self) -> list[dict[str, float]]:
        """Those of the requests since the last time."""
        found: list[dict[str, float]] = httpx2.get(f"http://127.0.0.1:{self.port}/marks").json()
        return found


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(kind: str) -> Iterator[Served]:
    """`bare` or `ours`, until the block ends."""
    command = [sys.executable, str(HERE / "overhead_server.py"), kind, str(ANSWER_TOKENS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port, _, key = process.stdout.readline().strip().partition(" ")
        if not port:
            raise RuntimeError(f"the {kind} server did not start")
        try:
            yield Served(port=int(port), key=key, pid=process.pid)
        finally:
            process.stdin.close()
            process.wait(30)


def small() -> Body:
    """A question."""
    return {
        "model": "smollm2",
        "stream": True,
        "max_tokens": ANSWER_TOKENS,
        "messages": [{"role": "user", "content": "What is in the museum?"}],
    }


def large() -> Body:
    """What an agent sends in its tenth turn: rules, 20 messages, 8 tools; about 20 kB."""
    words = Workload(
        conversations=1,
        turns=20,
        concurrency=1,
        shared_words=1_000,
        prefixes=1,
        question_words=80,
        max_tokens=1,
        seed=1,
    )
    messages = [{"role": "system", "content": words.system(0)}]
    messages += [
        {"role": ("assistant", "user")[turn % 2], "content": words.question(0, turn)}
        for turn in range(1, 20)
    ]
    parameters = {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": f"The {name} to look for."}
            for name in ("name", "place", "year", "kind")
        },
        "required": ["name"],
    }
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"find_{number}",
                "description": words.question(1, number),
                "parameters": parameters,
            },
        }
        for number in range(8)
    ]
    return small() | {"messages": messages, "tools": tools, "tool_choice": "none"}


async def one_by_one(server: Served, body: Body, n: int) -> list[dict[str, float]]:
    """Ask `n` times; the stages of each."""
    for _ in range(10):
        await stream(server.port, body, server.key)
    server.marks()
    for _ in range(n):
        await stream(server.port, body, server.key)
    return server.marks()


async def together(server: Served, n: int, n_rounds: int = 3) -> tuple[float, float]:
    """CPU and wall microseconds of a streamed token, `n` streams at a time."""
    bodies = [small()] * n
    await streams(server.port, bodies, server.key)
    began_cpu_s, began_s = server.cpu_s, time.perf_counter()
    n_events = 0
    for _ in range(n_rounds):
        n_events += sum(one.events for one in await streams(server.port, bodies, server.key))
    took_cpu_s, took_s = server.cpu_s - began_cpu_s, time.perf_counter() - began_s
    assert n_events >= n_rounds * n * ANSWER_TOKENS
    return 1e6 * took_cpu_s / n_events, 1e6 * took_s / n_events


def without_a_model(figures: Figures, n_streams: int) -> list[list[str]]:
    """Parts 1 and 2; the rows of their table."""
    rows = [["from a client's write, ms", "bare: endpoint", "ours: decoded", "ours: submitted"]]
    costs = {}
    with served("bare") as bare, served("ours") as ours:
        for name, body in (("small", small()), ("large", large())):
            their = asyncio.run(one_by_one(bare, body, N_REQUESTS))
            our = asyncio.run(one_by_one(ours, body, N_REQUESTS))
            found = (
                _median(their, "submitted"),
                _median(our, "decoded"),
                _median(our, "submitted"),
            )
            size = f"{len(json.dumps(body)) / 1e3:.1f} kB"
            rows.append([f"{name}, {size}", *(f"{value:.2f}" for value in found)])
            for stage, value in zip(("bare", "decoded", "submitted"), found, strict=True):
                note = f"median from a client's write, body of {size}"
                figures.add(f"serve_overhead_{name}_{stage}_ms", value, "ms", note)
        for name, server in (("bare", bare), ("ours", ours)):
            costs[name] = asyncio.run(together(server, n_streams))
            note = f"CPU of the server's process, {n_streams} streams, no model"
            figures.add(f"serve_overhead_token_{name}_us", costs[name][0], "us", note)
    rows.append([f"each token of {n_streams} streams, CPU us", f"{costs['bare'][0]:.0f}", "-",
                 f"{costs['ours'][0]:.0f}"])  # fmt: skip
    return rows


def _median(marks: Sequence[dict[str, float]], stage: str) -> float:
    assert len(marks) == N_REQUESTS, f"{len(marks)} requests were marked"
    return 1000 * statistics.median(one[stage] - one["sent"] for one in marks)


# -- with the model ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Took:
    """What answering a workload took."""

    tokens: int
    wall_s: float
    cpu_s: float
    client_cpu_s: float = 0.0


def model_bodies(n: int, seed: int) -> list[Body]:
    """`n` questions behind the same rules; other rules for each seed."""
    words = Workload(
        conversations=n,
        turns=1,
        concurrency=n,
        shared_words=200,
        prefixes=1,
        question_words=12,
        max_tokens=MODEL_TOKENS,
        seed=seed,
    )
    return [
        {
            "model": "smollm2",
            "messages": [
                {"role": "system", "content": words.system(one)},
                {"role": "user", "content": words.question(one, 0)},
            ],
            "max_tokens": MODEL_TOKENS,
            "temperature": 0,
        }
        for one in range(n)
    ]


@contextmanager
def in_process(threads: int) -> Iterator[subprocess.Popen[str]]:
    """`overhead_inprocess.py`, ready."""
    command = [sys.executable, str(HERE / "overhead_inprocess.py"), str(threads), str(SLOTS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the model did not load")
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(60)


def ask_process(process: subprocess.Popen[str], bodies: Sequence[Body]) -> Took:
    """Have it answer these."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(bodies) + "\n")
    process.stdin.flush()
    return Took(*json.loads(process.stdout.readline()))


def ask_server(port: int, pid: int, bodies: Sequence[Body]) -> Took:
    """The same over HTTP, streamed."""
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    before_s, own_s, began_s = cpu_s(pid), time.process_time(), time.perf_counter()
    answers = asyncio.run(streams(port, [body | streamed for body in bodies]))
    took_s = time.perf_counter() - began_s
    tokens = sum(answer.tokens or 0 for answer in answers)
    return Took(tokens, took_s, cpu_s(pid) - before_s, time.process_time() - own_s)


def with_the_model(figures: Figures, n_streams: int, n_rounds: int) -> list[list[str]]:
    """Part 3; the rows of its table."""
    threads = os.cpu_count() or 1
    pairs: list[tuple[Took, Took]] = []
    options = ("--threads", str(threads), "--slots", str(SLOTS))
    with in_process(threads) as process, serve_process(*options) as server:
        port = int(server.url.rpartition(":")[2])
        for seed in range(n_rounds + 1):
            bodies = model_bodies(n_streams, seed)
            ours = ask_process(process, bodies)
            http = ask_server(port, server.process.pid, bodies)
            if seed:  # the first round warms both up
                pairs.append((ours, http))
    rows = [["", "tokens/s", "CPU ms a token", "the client's"]]
    for name, side in (("in process", 0), ("over HTTP", 1)):
        took = [pair[side] for pair in pairs]
        rows.append([
            name,
            f"{statistics.median(one.tokens / one.wall_s for one in took):.0f}",
            f"{statistics.median(1000 * one.cpu_s / one.tokens for one in took):.3f}",
            f"{statistics.median(1000 * one.client_cpu_s / one.tokens for one in took):.3f}",
        ])  # fmt: skip
    note = f"median of {n_rounds} rounds, {n_streams} streams of {MODEL_TOKENS} tokens, smollm2"
    slower = [1 - (http.tokens / http.wall_s) / (ours.tokens / ours.wall_s) for ours, http in pairs]
    more = [(http.cpu_s / http.tokens) / (ours.cpu_s / ours.tokens) - 1 for ours, http in pairs]
    figures.add("serve_overhead_throughput_share", statistics.median(slower), "", f"lost; {note}")
    figures.add("serve_overhead_cpu_share", statistics.median(more), "", f"more CPU; {note}")
    return rows


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", choices=("all", "bare", "model"), default="all")
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    figures = Figures()
    tables = []
    if asked.part != "model":
        tables.append(without_a_model(figures, asked.streams))
    if asked.part != "bare":
        tables.append(with_the_model(figures, asked.streams, asked.rounds))
    for head, *rows in tables:
        sys.stdout.write("\n" + table(head, rows))
    if asked.write:
        merge(DOCS / "benchmarks.json", figures.rows)


if __name__ == "__main__":
    main()
