"""The work of `serve_overhead.py` without a server: `ChatService` in a process of its own.

    python runtime/bench/overhead_inprocess.py THREADS SLOTS

Each line on standard input is a workload as JSON; the answer is what it took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from agentkit_runtime.chat import ChatFinished, ChatMessage, ChatRequest
from agentkit_runtime.local import LocalRuntime
from agentkit_runtime.types import SamplingParams


def request(body: dict[str, object]) -> ChatRequest:
    """The chat that a body of OpenAI's API asks for."""
    messages = body["messages"]
    assert isinstance(messages, list)
    sampling = SamplingParams(max_tokens=int(str(body["max_tokens"])), temperature=0.0)
    return ChatRequest(messages=tuple(ChatMessage(**one) for one in messages), sampling=sampling)


async def answer(runtime: LocalRuntime, bodies: Sequence[dict[str, object]]) -> int:
    """Answer all at a time; returns how many tokens were generated."""

    async def one(body: dict[str, object]) -> int:
        async for event in runtime.chat(request(body)):
            if isinstance(event, ChatFinished):
                return event.stats.completion_tokens
        raise AssertionError("an answer without an end")

    return sum(await asyncio.gather(*map(one, bodies)))


def main() -> None:
    """Answer workloads until standard input ends."""
    threads, slots = map(int, sys.argv[1:3])
    runtime = LocalRuntime.load("smollm2", threads=threads, max_slots=slots)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        bodies = json.loads(line)
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        tokens = asyncio.run(answer(runtime, bodies))
        took = [tokens, time.perf_counter() - wall_s, time.process_time() - cpu_s]
        sys.stdout.write(f"{json.dumps(took)}\n")
        sys.stdout.flush()
    runtime.close()


if __name__ == "__main__":
    main()
