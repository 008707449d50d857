"""What the radix tree saves on this machine: `make bench`.

Time to first token of a prompt that nobody has computed, and of the same prompt with 100 new tokens
behind it, for several lengths; a cold prefix shared by several agents at once; decode speed alone
and in a batch. All with the bundled model, ratios within one run. Writes docs/benchmarks.json.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from agentkit_runtime.core import EngineCore
from agentkit_runtime.load import EngineOptions, load_core
from agentkit_runtime.types import (
    Delta,
    EngineEvent,
    Finished,
    GenerateRequest,
    RequestStats,
    SamplingParams,
    TextDelta,
)

OUTPUT = Path(__file__).parents[2] / "docs" / "benchmarks.json"
NEW_TOKENS = 100


class _NoText:
    """Text is not what is measured here."""

    def push(self, token_id: int) -> TextDelta:
        return TextDelta("")

    def finish(self) -> str:
        return ""


class Bench:
    """Drives an engine core by hand."""

    def __init__(self, core: EngineCore, vocab: int, seed: int) -> None:
        self._core = core
        self._vocab = vocab
        self._random = random.Random(seed)
        self._n = 0

    def tokens(self, n: int) -> list[int]:
        """Return `n` random token ids: nothing that another prompt could share by chance."""
        return [self._random.randrange(100, self._vocab) for _ in range(n)]

    def run(self, prompts: Sequence[Sequence[int]], n_out: int) -> tuple[float, list[RequestStats]]:
        """Run prompts at once; returns wall seconds and what the engine says of each."""
        events: list[list[EngineEvent]] = []
        started = time.perf_counter()
        for prompt in prompts:
            seen: list[EngineEvent] = []
            events.append(seen)
            self._n += 1
            request = GenerateRequest(
                request_id=f"bench-{self._n}",
                prompt=tuple(prompt),
                namespace=b"bench",
                text=_NoText(),
                sampling=SamplingParams(max_tokens=n_out),
            )
            self._core.check(request)
            self._core.add(request, seen.append)
        while not self._core.idle:
            self._core.step()
        seconds = time.perf_counter() - started
        return seconds, [_stats(seen) for seen in events]

    def ttft(self, length: int) -> tuple[float, float]:
        """Return seconds to the first token of `length` tokens, cold, and cached plus new ones."""
        prompt = self.tokens(length)
        (cold,) = self.run([prompt], 1)[1]
        (warm,) = self.run([[*prompt, *self.tokens(NEW_TOKENS)]], 1)[1]
        assert cold.cached_tokens == 0
        assert warm.cached_tokens >= length - 1
        assert cold.ttft_s is not None
        assert warm.ttft_s is not None
        return cold.ttft_s, warm.ttft_s

    def decode_rate(self, n_lanes: int, length: int, n_out: int = 33) -> float:
        """Return tokens a second of `n_lanes` sequences that share a cached prefix of `length`."""
        prefix = self.tokens(length)
        self.run([prefix], 1)
        prompts = [[*prefix, *self.tokens(8)] for _ in range(n_lanes)]
        first, _ = self.run(prompts, 1)
        prompts = [[*prefix, *self.tokens(8)] for _ in range(n_lanes)]
        seconds, _ = self.run(prompts, n_out)
        return n_lanes * (n_out - 1) / (seconds - first)

    def shared_cold(self, n_agents: int, length: int) -> float:
        """Return computed tokens of a cold fan-out over what would be computed without sharing."""
        prefix = self.tokens(length)
        before = self._core.stats().computed_tokens
        self.run([[*prefix, *self.tokens(50)] for _ in range(n_agents)], 1)
        computed = self._core.stats().computed_tokens - before
        return computed / (n_agents * (length + 50))


def _stats(events: Sequence[EngineEvent]) -> RequestStats:
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.error is None, last.error
    assert any(isinstance(event, Delta) for event in events)
    return last.stats


def main() -> int:
    """Measure, print a table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1000, 2000, 4000])
    args = parser.parse_args()
    core, config = load_core("smollm2", EngineOptions(max_slots=60_000))
    bench = Bench(core, config.vocab, seed=7)
    bench.run([bench.tokens(200)], 2)  # first touches of memory and kernels
    note = f"SmolLM2-135M f32, {torch.get_num_threads()} CPU threads, median of {args.repeats}"
    figures: list[dict[str, object]] = []

    def add(name: str, value: float, unit: str) -> None:
        figures.append({"name": name, "value": round(value, 4), "unit": unit, "note": note})
        sys.stdout.write(f"{name:40} {value:12.4f} {unit}\n")

    for length in args.lengths:
        pairs = [bench.ttft(length) for _ in range(args.repeats)]
        cold, warm = (statistics.median(column) for column in zip(*pairs, strict=True))
        add(f"ttft_cold_{length}", cold * 1000, "ms")
        add(f"ttft_cached_{length}_plus_{NEW_TOKENS}", warm * 1000, "ms")
        add(f"ttft_cached_reduction_{length}", 1 - warm / cold, "ratio")
    for n_lanes in (1, 4, 8):
        rates = [bench.decode_rate(n_lanes, 2000) for _ in range(args.repeats)]
        add(f"decode_{n_lanes}_lanes_shared_2000", statistics.median(rates), "tokens/s")
    add("cold_fan_out_8_computed_share", bench.shared_cold(8, 1000), "ratio")
    # Other benchmarks keep their figures in the same file.
    names = {figure["name"] for figure in figures}
    others = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else []
    kept = [figure for figure in others if figure["name"] not in names]
    OUTPUT.write_text(json.dumps([*figures, *kept], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
