"""What a large body costs those who are being answered: gaps between tokens of streams beside it.

    python runtime/bench/serve_bodies.py [--streams 16] [--mb 10]

Streams run all the time. Bodies of several shapes come one by one; for each the longest and the
99th percentile of the gaps between pieces of the streams are shown, from the body's first byte to
its answer, and beside them the gaps of as long a time without a body. Most of the bodies are
refused: it is their reading that is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.serve_process import serve_process

SHAPES: dict[str, Callable[[int], dict[str, Any]]] = {
    "one text": lambda n: {"messages": [_message("lorem ipsum " * (n // 12))]},
    "20,000 messages": lambda n: {"messages": [_message("x" * (n // 20_000 - 36))] * 20_000},
    "small messages": lambda n: {"messages": [_message("x")] * (n // 34)},
    "tools": lambda n: {"messages": [_message("x")], "tools": [_tool(i) for i in range(n // 820)]},
    "empty lists": lambda n: {"messages": [_message("x")], "x": [[]] * (n // 3)},
    "token ids": lambda n: {"prompt": [7] * (n // 2), "path": "/v1/completions"},
}


class Streams:
    """Answers without an end, and when their pieces came."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.gaps: list[tuple[float, float]] = []
        """When a piece came, and the seconds since the one before."""

    async def run(self, rank: int) -> None:
        """Ask again and again."""
        body = {
            "model": "smollm2",
            "messages": [_message(f"Tell a long story, number {rank}.")],
            "stream": True,
            "max_tokens": 400,
            "ignore_eos": True,
        }
        while True:
            async with self._client.stream("POST", "/v1/chat/completions", json=body) as answer:
                before: float | None = None
                async for _ in answer.aiter_bytes():
                    now = time.perf_counter()
                    if before is not None:
                        self.gaps.append((now, now - before))
                    before = now

    def between(self, start: float, end: float) -> list[float]:
        """The gaps that ended in this time, in ms, rising."""
        return sorted(1e3 * gap for came, gap in self.gaps if start <= came <= end)


def _message(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _tool(rank: int) -> dict[str, Any]:
    fields = {f"p{n}": {"type": "string", "description": "x" * 30} for n in range(10)}
    schema = {"type": "object", "properties": fields}
    return {"type": "function", "function": {"name": f"t{rank}", "parameters": schema}}


async def measure(url: str, n_streams: int, n_bytes: int) -> None:
    """Print a line for each shape."""
    async with httpx2.AsyncClient(base_url=url, timeout=120.0) as client:
        streams = Streams(client)
        tasks = [asyncio.create_task(streams.run(rank)) for rank in range(n_streams)]
        await asyncio.sleep(5)
        sys.stdout.write(
            f"{'':18}{'MB':>6}{'status':>8}{'s':>7}{'longest':>9}{'p99':>7}{'without':>9}{'p99':>7}\n"
        )
        for name, make in SHAPES.items():
            document = {"model": "smollm2", **make(n_bytes)}
            path = document.pop("path", "/v1/chat/completions")
            raw = await asyncio.to_thread(json.dumps, document, separators=(",", ":"))
            await asyncio.sleep(1)
            start = time.perf_counter()
            answer = await client.post(
                path, content=raw.encode(), headers={"content-type": "application/json"}
            )
            end = time.perf_counter()
            await asyncio.sleep(max(1.0, end - start))
            beside = streams.between(start, end + 0.2)
            without = streams.between(end + 0.2, time.perf_counter())
            sys.stdout.write(
                f"{name:18}{len(raw) / 1e6:6.1f}{answer.status_code:8}{end - start:7.2f}"
                f"{beside[-1]:9.0f}{_p99(beside):7.0f}{without[-1]:9.0f}{_p99(without):7.0f}\n"
            )
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


async def small(url: str) -> None:
    """The time that a body of 2 KB takes, alone: the median of 300."""
    body = {"model": "smollm2", "messages": [_message("lorem ipsum " * 150)]}
    async with httpx2.AsyncClient(base_url=url, timeout=120.0) as client:
        seconds = []
        for _ in range(300):
            start = time.perf_counter()
            await client.post("/v1/chat/completions/render", json=body)
            seconds.append(time.perf_counter() - start)
    sys.stdout.write(f"2 KB alone: {1e3 * statistics.median(seconds):.2f} ms\n")


def _p99(rising: list[float]) -> float:
    return rising[int(0.99 * (len(rising) - 1))]


def main() -> None:
    """Measure a server of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--mb", type=float, default=10.0)
    options = parser.parse_args()
    with serve_process("--slots", "16384", "--threads", "1") as server:
        asyncio.run(small(server.url))
        asyncio.run(measure(server.url, options.streams, int(options.mb * 1e6)))


if __name__ == "__main__":
    main()
