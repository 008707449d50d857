"""What the world does to a server: killed in the middle of its work, a full disk, clients that go.

    python runtime/bench/serve_faults.py [--kills 10] [--clients 200]

kills    the server is killed (SIGKILL) under load, again and again, over one disk cache; each time
         it comes back, finds its disk, and gives the answers that a server without a cache gives
disk     the disk cache lies on a file system of 8 MiB (needs root for a tmpfs): answers go on, and
         the log says what is the matter
clients  clients send half a request, or go in the middle of an answer: nothing stays behind
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.serve_load import document
from bench.serve_process import ServeProcess, serve_process

PROMPTS = tuple((n % 3, f"What does paper {n % 3} say about the {word}?") for n, word in enumerate(
    ("boat", "keel", "loan", "council", "winter", "ledger")
))  # fmt: skip
LOADERS = 6
OVER_DISK = ("--slots", "1024")
"""Room for one document and a half: with three of them in turn, each leaves for the disk."""


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def messages(paper: int, question: str) -> list[dict[str, str]]:
    """A conversation that begins with a document."""
    return [
        {"role": "system", "content": document(paper)},
        {"role": "user", "content": question},
    ]


async def answers(server: ServeProcess) -> list[str]:
    """The answers to all prompts."""
    said = []
    async with httpx2.AsyncClient(base_url=server.url, timeout=120) as client:
        for paper, question in PROMPTS:
            body = {
                "model": "smollm2",
                "messages": messages(paper, question),
                "max_tokens": 16,
            }
            answer = await client.post("/v1/chat/completions", json=body)
            assert answer.status_code == 200, answer.text
            said.append(answer.json()["choices"][0]["message"]["content"])
    return said


def wrong_answers(server: ServeProcess, expected: list[str]) -> int:
    """How many answers are not those of a server without a cache behind it."""
    said = asyncio.run(answers(server))
    return sum(a != b for a, b in zip(said, expected, strict=True))


def tiers(server: ServeProcess) -> dict[str, int]:
    """What the server says of host memory and disk."""
    state = httpx2.get(f"{server.url}/admin/v1/state?history=0").json()
    return dict(state["tiers"])


async def load_until_killed(server: ServeProcess, after_s: float, seed: int) -> None:
    """Ask from several sides, and kill the server in the middle of it."""
    rng = random.Random(seed)

    async def loader(n: int) -> None:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            with contextlib.suppress(httpx2.TransportError, httpx2.StreamError):
                for turn in range(1000):
                    body = {
                        "model": "smollm2",
                        "messages": messages(rng.randrange(3), f"{seed} {n} {turn}"),
                        "max_tokens": 24,
                        "stream": True,
                    }
                    await client.post("/v1/chat/completions", json=body)

    tasks = [asyncio.create_task(loader(n)) for n in range(LOADERS)]
    await asyncio.sleep(after_s)
    await asyncio.to_thread(server.kill)
    await asyncio.gather(*tasks)


def kills(n: int) -> int:
    """Kill and restart; returns how many answers were wrong."""
    with serve_process("--threads", "2") as server:
        expected = asyncio.run(answers(server))
    n_wrong, n_from_disk = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(n + 1):
            with serve_process(*OVER_DISK, "--disk-cache", folder) as server:
                found = tiers(server)["disk_blocks"]
                wrong, seen = wrong_answers(server, expected), tiers(server)
                n_wrong += wrong
                n_from_disk += seen["hits_disk"] if number else 0
                say(
                    f"  start {number + 1}: {found} blocks on disk, {wrong} wrong answers, "
                    f"{seen['hits_disk']} blocks read from disk, {seen['failures']} failures"
                )
                if number < n:
                    after_s = random.Random(number).uniform(0.2, 4.0)
                    asyncio.run(load_until_killed(server, after_s, number))
    say(f"kills: {n}, wrong answers: {n_wrong}, blocks read from disk behind them: {n_from_disk}")
    return n_wrong + (n > 0 and not n_from_disk)


@contextlib.contextmanager
def small_disk() -> Iterator[Path | None]:
    """A folder on a file system of 8 MiB; None where that cannot be made."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True
        )
        try:
            yield Path(folder) if made.returncode == 0 else None
        finally:
            if made.returncode == 0:
                subprocess.run(["umount", "-l", folder], check=True)


def full_disk() -> int:
    """Answers over a disk cache that is full at once; returns how much was not as it should be."""
    with serve_process() as server:
        expected = asyncio.run(answers(server))
    with small_disk() as folder:
        if folder is None:
            say("disk: left out, no tmpfs can be mounted here")
            return 0
        with serve_process(*OVER_DISK, "--disk-cache", str(folder)) as server:
            n_wrong = sum(wrong_answers(server, expected) for _ in range(3))
            healthy = httpx2.get(f"{server.url}/health").status_code == 200
            failures = tiers(server)["failures"]
            told = [line for line in server.lines if "disk" in line.lower()]
    say(f"disk: full, wrong answers: {n_wrong}, healthy: {healthy}, failed writes: {failures}")
    say(f"  said: {told[-2:]}")
    return n_wrong + (not healthy) + (not failures) + (not told)


async def leaving_client(server: ServeProcess, n: int) -> None:
    """Send a request, or a part of one, and go."""
    rng = random.Random(n)
    body = json.dumps(
        {
            "model": "smollm2",
            "messages": messages(rng.randrange(3), f"client {n}"),
            "stream": rng.random() < 0.7,
        }
    ).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    whole = head + body
    host, _, port = server.url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    cut = rng.choice([len(whole), len(whole), len(head) + len(body) // 2, len(head), 20])
    writer.write(whole[:cut])
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    await asyncio.sleep(rng.uniform(0, 1.5))
    if rng.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()


def clients(n: int) -> int:
    """Clients that go; returns how much stayed behind."""

    async def all_of_them(server: ServeProcess) -> list[object]:
        limit = asyncio.Semaphore(32)

        async def one(number: int) -> None:
            async with limit:
                await leaving_client(server, number)

        return await asyncio.gather(*map(one, range(n)), return_exceptions=True)

    with serve_process() as server:
        asyncio.run(answers(server))
        before = server.n_files
        failed = [e for e in asyncio.run(all_of_them(server)) if isinstance(e, BaseException)]
        began_s = time.monotonic()
        said = asyncio.run(answers(server))
        took_s = time.monotonic() - began_s
        left = server.n_files - before
    say(f"clients: {n} gone ({len(failed)} could not come), {left} file handles left behind")
    say(f"  the next {len(said)} answers took {took_s:.1f} s")
    return max(0, left) + len(failed)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--clients", type=int, default=200)
    asked = parser.parse_args()
    bad = clients(asked.clients) + full_disk() + kills(asked.kills)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
