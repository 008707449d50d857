"""Two of our servers behind routers that others wrote, as they are.

    python runtime/bench/routers.py --install DIR [--sessions 12] [--turns 8]

Installs vllm-router and smg into environments in DIR, where they are not there yet. Conversations
go to one server alone first, then through each router to two: sessions must stay where they are,
and as much must be read from caches. Then one of the two is killed under load, and no request may
fail that another try could save. Takes some minutes on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.routers_load import Load, Outcome
from bench.serve_process import ServeProcess, serve_process

PACKAGES = {"vllm-router": "vllm-router==0.1.17", "smg": "smg==1.13.0"}
_START_S = 60.0
_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Worker:
    """A server with its publisher of KV events."""

    process: ServeProcess
    events: str
    replay: str

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.process.url

    def flush(self) -> None:
        """Forget everything."""
        httpx2.post(f"{self.url}/admin/v1/flush", json={"all": True}).raise_for_status()

    def requests(self, name: str) -> dict[str, int]:
        """Requests of each session of a trial that came here."""
        sessions = httpx2.get(f"{self.url}/admin/v1/sessions", params={"limit": 1000}).json()
        return {
            one["session"]: one["requests"]
            for one in sessions["data"]
            if (one["session"] or "").startswith(f"{name}-")
        }


@dataclass(frozen=True, slots=True)
class Row:
    """What one trial showed."""

    name: str
    outcome: Outcome
    stickiness: float | None
    """Requests that went where most of their session's went, of all; None when a server died."""
    spread: str
    """Requests that each server got; of those that died nobody knows."""
    events_used: int | None = None
    """Requests that were placed by what KV events said; None where there are none."""


def main() -> int:
    """Run all trials, print a table; 1 when something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", nargs="+", choices=tuple(PACKAGES), default=tuple(PACKAGES))
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--turns", type=int, default=8)
    args = parser.parse_args()
    install(args.install, args.only)
    rows: list[Row] = []
    wrong: list[str] = []
    with worker() as first:
        alone = trial("one server", first.url, [first], args)
        rows.append(alone)
        for name in args.only:
            with worker() as second:
                first.flush()
                kept, killed = through(name, args, first, second)
            rows += [kept, killed]
            wrong += judge(alone, kept, killed)
    summary = "\n".join(wrong) or "all as it must be"
    sys.stdout.write(f"{table(rows)}\n{summary}\n")
    return 1 if wrong else 0


def through(name: str, args: argparse.Namespace, *workers: Worker) -> tuple[Row, Row]:
    """Both trials with one router: as it is, and while a server dies."""
    with router(name, args.install, workers) as (url, metrics):
        kept = replace(trial(name, url, workers, args), events_used=_events_used(name, metrics))
        victim, n_before = workers[1], args.sessions * args.turns // 4

        def kill_one(n_done: int) -> None:
            if n_done == n_before:
                victim.process.kill()

        dying = trial(
            f"{name}, one dies", url, workers[:1], args, streamed=True, after_request=kill_one
        )
    return kept, replace(dying, stickiness=None)


def trial(
    name: str,
    url: str,
    workers: Sequence[Worker],
    args: argparse.Namespace,
    *,
    streamed: bool = False,
    after_request: Callable[[int], None] = lambda n: None,
) -> Row:
    """Run the conversations, and ask the servers who came where."""
    label = name.replace(", ", "-").replace(" ", "-")
    load = Load(
        url=url,
        name=label,
        sessions=args.sessions,
        turns=args.turns,
        streamed=streamed,
        after_request=after_request,
    )
    sys.stderr.write(f"{name} ...\n")
    outcome = asyncio.run(load.run())
    counts = [each.requests(label) for each in workers]
    sessions = {session for count in counts for session in count}
    most = sum(max(count.get(session, 0) for count in counts) for session in sessions)
    every = sum(sum(count.values()) for count in counts)
    return Row(
        name=name,
        outcome=outcome,
        stickiness=most / max(1, every),
        spread="/".join(str(sum(count.values())) for count in counts),
    )


def judge(alone: Row, kept: Row, killed: Row) -> list[str]:
    """What is not as it must be."""
    wrong = []
    if kept.stickiness != 1.0:
        wrong.append(f"{kept.name}: stickiness is {kept.stickiness}, not 1")
    if kept.events_used == 0:
        wrong.append(f"{kept.name}: no request was placed by KV events")
    if kept.outcome.hit_rate < alone.outcome.hit_rate - _TOLERANCE:
        wrong.append(
            f"{kept.name}: hit rate is {kept.outcome.hit_rate:.3f}, and that of one server is "
            f"{alone.outcome.hit_rate:.3f}"
        )
    for row in (alone, kept, killed):
        wrong += [f"{row.name}: {failure}" for failure in row.outcome.failed]
    if "0" in kept.spread.split("/"):
        wrong.append(f"{kept.name}: all requests went to one server ({kept.spread})")
    return wrong


def table(rows: Sequence[Row]) -> str:
    """The trials, as a table of Markdown."""
    lines = [
        "| | requests | hit rate | stickiness | per server | placed by KV events | tried again | "
        "cut | failed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        done = row.outcome
        sticks = "-" if row.stickiness is None else f"{row.stickiness:.3f}"
        events = "-" if row.events_used is None else str(row.events_used)
        lines.append(
            f"| {row.name} | {done.requests} | {done.hit_rate:.3f} | {sticks} | {row.spread} | "
            f"{events} | {done.tries_again} | {done.cut} | {len(done.failed)} |"
        )
    return "\n".join(lines)


@contextlib.contextmanager
def worker() -> Iterator[Worker]:
    """A server on one thread that publishes its KV events."""
    events, replay = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    options = ("--threads", "1", "--slots", "16384")
    with serve_process(*options, "--kv-events", events, "--kv-events-replay", replay) as process:
        yield Worker(process, events, replay)


@contextlib.contextmanager
def router(name: str, folder: Path, workers: Sequence[Worker]) -> Iterator[tuple[str, str]]:
    """A router in front of `workers`; its URL, and that of its metrics."""
    port, metrics_port = free_port(), free_port()
    command = [str(folder / name / "bin" / name), *_ARGUMENTS[name](workers)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics_port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_it_answers(url, process)
            yield url, f"http://127.0.0.1:{metrics_port}/metrics"
        finally:
            process.terminate()
            process.wait()


def _vllm_router(workers: Sequence[Worker]) -> list[str]:
    arguments = ["--worker-urls", *(each.url for each in workers)]
    arguments += ["--policy", "kv_aware", "--kv-aware-session-affinity-ttl-secs", "600"]
    arguments += ["--kv-event-model", "smollm2", "--health-check-interval-secs", "2"]
    for each in workers:
        arguments += ["--kv-event-source", f"{each.url}={each.events}"]
        arguments += ["--kv-event-replay-source", f"{each.url}={each.replay}"]
    return arguments


def _smg(workers: Sequence[Worker]) -> list[str]:
    arguments = ["launch", "--worker-urls", *(each.url for each in workers)]
    arguments += ["--policy", "consistent_hashing", "--routing-key-headers", "x-session-id"]
    return [*arguments, "--health-check-interval-secs", "2"]


_ARGUMENTS: dict[str, Callable[[Sequence[Worker]], list[str]]] = {
    "vllm-router": _vllm_router,
    "smg": _smg,
}


def _events_used(name: str, metrics: str) -> int | None:
    """What the router says of itself."""
    if name != "vllm-router":
        return None
    wanted = 'vllm_router_kv_placement_lookups_total{result="hit"} '
    lines = httpx2.get(metrics).text.splitlines()
    return sum(int(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    due_s = time.monotonic() + _START_S
    while time.monotonic() < due_s and process.poll() is None:
        with contextlib.suppress(httpx2.TransportError):
            models = httpx2.get(f"{url}/v1/models", timeout=5)
            if models.status_code == 200 and models.json()["data"]:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the router did not come up at {url} (exit code {process.poll()})")


def install(folder: Path, names: Sequence[str]) -> None:
    """Make the environments of routers that are not there yet."""
    for name in names:
        home = folder / name
        if (home / "bin" / name).exists():
            continue
        venv.create(home, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", PACKAGES[name]]
        subprocess.run(pip, check=True)


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
