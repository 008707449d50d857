"""64 streams with shared prefixes against a real server for ten minutes, and a person among them.

    python runtime/bench/serve_load.py [--seconds 600] [--streams 64] [--write]

Streams of the batch class ask again and again, in conversations of three turns that begin with one
of eight documents; what is refused (429) is tried again when the server says so. Meanwhile a person
asks something every two seconds (interactive class): the time to the first token is compared with
the same questions to the idle server, before and after. Then the load ends, and it is looked
whether anything was left behind: slots, memory, file handles, threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import DOCS, Figures, merge
from bench.serve_process import ServeProcess, serve_process

N_DOCUMENTS = 8
DOCUMENT_WORDS = 500
"""About 700 tokens."""
TURNS = 3
BATCH_TOKENS = 24
PERSON_TOKENS = 8
PERSON_EVERY_S = 2.0
SLOTS = 24_576
BASELINE_QUESTIONS = 30
WORDS = ("museum", "harbour", "ledger", "winter", "painting", "boat", "council", "keel", "loan")


@dataclass(slots=True)
class Seen:
    """What the clients have seen."""

    tokens: int = 0
    answers: int = 0
    refused: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    hit_tokens: int = 0
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One streamed answer."""

    text: str
    ttft_s: float
    usage: dict[str, object]


class Refused(Exception):
    """429, with the seconds after which to come again."""

    def __init__(self, retry_s: float) -> None:
        super().__init__(retry_s)
        self.retry_s = retry_s


def document(n: int) -> str:
    """The n-th document that conversations begin with."""
    rng = random.Random(n)
    return f"Paper {n}. " + " ".join(rng.choice(WORDS) for _ in range(DOCUMENT_WORDS))


async def ask(
    client: httpx2.AsyncClient,
    messages: Sequence[dict[str, str]],
    *,
    priority: str,
    session: str,
    max_tokens: int,
) -> Answer:
    """One streamed chat. Raises Refused for 429, AssertionError for anything that is wrong."""
    body = {
        "model": "smollm2",
        "messages": list(messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": max_tokens,
    }
    headers = {"x-agentkit-priority": priority, "x-session-id": session}
    began_s, ttft_s = time.perf_counter(), None
    text: list[str] = []
    usage: dict[str, object] | None = None
    async with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        if answer.status_code == 429:
            await answer.aread()
            raise Refused(float(answer.headers["retry-after"]))
        assert answer.status_code == 200, f"status {answer.status_code}: {await answer.aread()!r}"
        done = False
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                done = True
                continue
            chunk = json.loads(line[6:])
            assert "error" not in chunk, chunk["error"]
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                piece = choice["delta"].get("content") or ""
                if piece and ttft_s is None:
                    ttft_s = time.perf_counter() - began_s
                text.append(piece)
    assert done, "the stream ended without [DONE]"
    assert usage is not None, "the stream told no usage"
    return Answer("".join(text), ttft_s or time.perf_counter() - began_s, usage)


async def batch_stream(
    client: httpx2.AsyncClient, n: int, seen: Seen, ends_s: float, *, shared: bool = True
) -> None:
    """Conversations, one after the other, until `ends_s`; not `shared`: each about a new paper."""
    rng = random.Random(1000 + n)
    for number in range(1_000_000):
        paper = rng.randrange(N_DOCUMENTS) if shared else N_DOCUMENTS + 1000 * n + number
        messages = [{"role": "system", "content": document(paper)}]
        for turn in range(TURNS):
            topic = " ".join(rng.choice(WORDS) for _ in range(12))
            messages.append({"role": "user", "content": f"Question {turn}: what of {topic}?"})
            answer = await _batch_turn(client, messages, f"s{n}-{number}", seen, ends_s)
            if answer is None:
                return
            messages.append({"role": "assistant", "content": answer.text})


async def _batch_turn(
    client: httpx2.AsyncClient,
    messages: Sequence[dict[str, str]],
    session: str,
    seen: Seen,
    ends_s: float,
) -> Answer | None:
    while time.perf_counter() < ends_s:
        try:
            answer = await ask(
                client, messages, priority="batch", session=session, max_tokens=BATCH_TOKENS
            )
        except Refused as refused:
            seen.refused += 1
            await asyncio.sleep(refused.retry_s)
        except Exception as error:  # counted and shown: the run goes on
            seen.errors[f"{type(error).__name__}: {error}"[:200]] += 1
            await asyncio.sleep(1)
        else:
            details = answer.usage["prompt_tokens_details"]
            assert isinstance(details, dict)
            seen.answers += 1
            seen.tokens += int(str(answer.usage["completion_tokens"]))
            seen.hit_tokens += int(details["cached_tokens"])
            seen.prompt_tokens += int(str(answer.usage["prompt_tokens"]))
            return answer
    return None


async def person(
    client: httpx2.AsyncClient, n: int, seen: Seen, *, every_s: float, first: int = 0
) -> list[float]:
    """`n` questions; seconds to the first token of each."""
    times: list[float] = []
    for number in range(first, first + n):
        rng = random.Random(f"person {number}")
        topic = " ".join(rng.choice(WORDS) for _ in range(30))
        messages = [
            {"role": "system", "content": document(number % N_DOCUMENTS)},
            {"role": "user", "content": f"Please say what you know of {topic}."},
        ]
        began_s = time.perf_counter()
        try:
            answer = await ask(
                client, messages, priority="interactive", session="p", max_tokens=PERSON_TOKENS
            )
            times.append(answer.ttft_s)
        except (Refused, AssertionError, httpx2.HTTPError) as error:
            seen.errors[f"interactive: {type(error).__name__}: {error}"[:200]] += 1
        await asyncio.sleep(max(0.0, every_s - (time.perf_counter() - began_s)))
    return times


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has measured."""

    before: list[float]
    under: list[float]
    after: list[float]
    seen: Seen
    settled: tuple[float, int, int]
    """MB, file handles, threads, in the middle of the load."""
    ended: tuple[float, int, int]
    recovered_s: float
    """Seconds behind the load until a batch request was let in again and nothing was held."""


def kernel(server: ServeProcess) -> tuple[float, int, int]:
    """Memory, file handles, threads."""
    return server.rss_mb, server.n_files, server.n_threads


async def measure(server: ServeProcess, seconds: float, n_streams: int) -> Outcome:
    """The whole run."""
    seen = Seen()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=n_streams + 4)
    async with httpx2.AsyncClient(base_url=server.url, timeout=300, limits=limits) as client:
        for n in range(N_DOCUMENTS):  # each document is warm
            await person(client, 1, seen, every_s=0, first=-1 - n)
        before = await person(client, BASELINE_QUESTIONS, seen, every_s=0.0)
        ends_s = time.perf_counter() + seconds
        load = [
            asyncio.create_task(batch_stream(client, n, seen, ends_s)) for n in range(n_streams)
        ]
        settle_s = seconds / 2
        n = max(5, int((seconds - settle_s) / PERSON_EVERY_S) - 2)
        under = await person(client, n, seen, every_s=PERSON_EVERY_S, first=1000)
        settled = kernel(server)
        under += await person(client, n, seen, every_s=PERSON_EVERY_S, first=2000)
        await asyncio.gather(*load)
        ended_s = time.perf_counter()
        with suppress(Refused):
            await idle_and_open(client)
        recovered_s = time.perf_counter() - ended_s
        ended = kernel(server)
        after = await person(client, BASELINE_QUESTIONS, seen, every_s=0.0, first=5000)
    return Outcome(before, under, after, seen, settled, ended, recovered_s)


async def idle_and_open(client: httpx2.AsyncClient) -> None:
    """Ask as the batch class until it is let in."""
    for _ in range(60):
        try:
            await ask(
                client,
                [{"role": "user", "content": "hello"}],
                priority="batch",
                session="late",
                max_tokens=1,
            )
        except Refused as refused:
            await asyncio.sleep(refused.retry_s)
        else:
            return
    raise AssertionError("batch requests are still refused two minutes behind the load")


def show(outcome: Outcome, seconds: float, n_streams: int) -> Figures:
    """Print what was measured."""
    figures, seen = Figures(), outcome.seen
    base, under = statistics.median(outcome.before), statistics.median(outcome.under)
    note = f"{n_streams} batch streams for {seconds:.0f} s, a question every {PERSON_EVERY_S:g} s"
    figures.add("serve_ttft_idle_ms", 1000 * base, "ms", "median of interactive requests, idle")
    figures.add("serve_ttft_loaded_ms", 1000 * under, "ms", f"the same; {note}")
    figures.add("serve_ttft_loaded_vs_idle", under / base, "x", f"medians; {note}")
    p90 = [statistics.quantiles(times, n=10)[-1] for times in (outcome.before, outcome.under)]
    figures.add("serve_ttft_p90_loaded_vs_idle", p90[1] / p90[0], "x", f"90th percentiles; {note}")
    figures.add(
        "serve_ttft_after_vs_before",
        statistics.median(outcome.after) / base,
        "x",
        "idle again, behind the load",
    )
    figures.add("serve_batch_tokens_per_s", seen.tokens / seconds, "tok/s", note)
    figures.add("serve_batch_answers", seen.answers, "", note)
    figures.add("serve_batch_refused", seen.refused, "", "429 with Retry-After, tried again")
    figures.add("serve_hit_ratio", seen.hit_tokens / max(1, seen.prompt_tokens), "", note)
    figures.add("serve_errors", seen.errors.total(), "", "anything but 200 and 429")
    figures.add("serve_recovered_s", outcome.recovered_s, "s", "until batch is let in again")
    for index, name in enumerate(("rss_mb", "file_handles", "threads")):
        grown = outcome.ended[index] - outcome.settled[index]
        figures.add(f"serve_grown_{name}", grown, "", f"{outcome.settled[index]:.0f} when settled")
    for error, n in seen.errors.most_common(10):
        sys.stdout.write(f"{n} x {error}\n")
    return figures


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--write", action="store_true", help="keep the figures in docs/")
    parser.add_argument("options", nargs="*", help="more options of `serve`, behind --")
    asked = parser.parse_args()
    # A pool that is full long before the middle: memory that still grows then is a leak.
    with serve_process("--slots", str(SLOTS), *asked.options) as server:
        outcome = asyncio.run(measure(server, asked.seconds, asked.streams))
        figures = show(outcome, asked.seconds, asked.streams)
        code = server.stop()
    sys.stdout.write(f"exit code {code}\n")
    if asked.write:
        merge(DOCS / "benchmarks.json", figures.rows)
    failed = outcome.seen.errors.total() or code
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
