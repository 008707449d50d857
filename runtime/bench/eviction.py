"""Hit rates of the eviction policies on recorded requests, beside what nobody could beat.

    python runtime/bench/eviction.py TRACE.jsonl[.xz] ... [--seeds 1 2 3]

A trace is one of Mooncake's, or has sessions of agents; `eviction_traces` says how they look.
Writes figures to docs/benchmarks.json, and a plot to docs/plots where matplotlib is installed. Ends
with an error when hints and pins have cost hits at any size of the cache.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[n]) for n in (1, 2)]

from agentkit_runtime.kv.policy import PolicyName
from bench.eviction_belady import optimum
from bench.eviction_plot import draw
from bench.eviction_replay import ALL_ADVICE, NO_ADVICE, Advice, replay
from bench.eviction_traces import (
    BLOCK_TOKENS,
    Request,
    is_agent_trace,
    mooncake,
    sessions,
    started_within,
)
from bench.figures import DOCS, Figures, merge, table

LRU, OURS, BELADY = "LRU", "hints + pins", "optimum"

Setup = tuple[PolicyName, Advice]
CHATS: Mapping[str, Setup] = {
    LRU: ("lru", NO_ADVICE),
    OURS: ("hints", ALL_ADVICE),
    "LFU": ("lfu", NO_ADVICE),
    "SLRU": ("slru", NO_ADVICE),
}
AGENTS: Mapping[str, Setup] = {
    LRU: ("lru", NO_ADVICE),
    "LRU + pins": ("lru", Advice(pins=True)),
    "done": ("hints", Advice(done=True)),
    "waits + done": ("hints", Advice(waits=True, done=True)),
    OURS: ("hints", ALL_ADVICE),
}
CHAT_SIZES = {"1k": 1_000, "5.86k": 5_860, "10k": 10_000, "30k": 30_000, "50k": 50_000}
CHAT_SIZES |= {"100k": 100_000, "all": 0}
AGENT_SIZES = {"250k": 250_000, "500k": 500_000, "1m": 1_000_000, "2m": 2_000_000, "4m": 4_000_000}


@dataclass(frozen=True, slots=True)
class Curves:
    """Hit rates by policy, one for each size of the cache."""

    title: str
    sizes: Sequence[str]
    rates: Mapping[str, Sequence[float]]

    @property
    def margin(self) -> float:
        """Return what hints and pins add to LRU where they add least."""
        pairs = zip(self.rates[OURS], self.rates[LRU], strict=True)
        return min(ours - lru for ours, lru in pairs)

    def rate(self, policy: str, size: str) -> float:
        """Return one hit rate."""
        return self.rates[policy][self.sizes.index(size)]

    def as_table(self) -> str:
        """Return a Markdown table, a row for each policy."""
        rows = [[name, *(f"{rate:.3f}" for rate in rates)] for name, rates in self.rates.items()]
        return table([self.title, *self.sizes], rows)


def chats(path: Path, figures: Figures) -> Curves:
    """Measure a trace of Mooncake's; sizes are in blocks."""
    requests = mooncake(path)
    name = path.name.partition(".")[0].rpartition("_")[2]
    unique = len({block for request in requests for block in request.blocks})
    sizes = {label: n or unique for label, n in CHAT_SIZES.items()}
    curves = _measure(f"{name}, {unique:,} blocks", requests, sizes, CHATS)
    note = f"share of {len(requests):,} prompts' blocks found by a cache of 10,000"
    for key, policy in (("lru", LRU), ("belady", BELADY)):
        figures.add(f"eviction_{key}_{name}_10k", curves.rate(policy, "10k"), "ratio", note)
    return curves


def agents(path: Path, figures: Figures, seeds: Sequence[int]) -> list[Curves]:
    """Measure recorded sessions of agents, drawn anew for each seed; sizes are in tokens."""
    recorded = sessions(path)
    sizes = {label: n // BLOCK_TOKENS for label, n in AGENT_SIZES.items()}
    drawn = []
    for seed in seeds:
        requests = started_within(recorded, seed=seed)
        drawn.append(_measure(f"agents, draw {seed}", requests, sizes, AGENTS))
    note = f"64 recorded sessions within an hour, draw {seeds[0]}"
    keys = {"lru": LRU, "hints": "waits + done", "hints_pins": OURS, "belady": BELADY}
    for size in ("250k", "1m"):
        for key, policy in keys.items():
            rate = drawn[0].rate(policy, size)
            figures.add(f"eviction_{key}_agents_{size}", rate, "ratio", note)
    worst = min(curves.margin for curves in drawn)
    note = f"hints + pins less LRU, least of all sizes and {len(seeds)} draws"
    figures.add("eviction_hints_pins_least_gain", worst, "ratio", note)
    return drawn


def _measure(
    title: str,
    requests: Sequence[Request],
    sizes: Mapping[str, int],
    setups: Mapping[str, Setup],
) -> Curves:
    rates = {
        name: [replay(requests, n_blocks, policy, advice) for n_blocks in sizes.values()]
        for name, (policy, advice) in setups.items()
    }
    paths = [request.blocks for request in requests]
    rates[BELADY] = [optimum(paths, n_blocks) for n_blocks in sizes.values()]
    curves = Curves(title, list(sizes), rates)
    sys.stdout.write(curves.as_table() + "\n")
    sys.stdout.flush()
    return curves


def main(argv: Sequence[str] | None = None) -> int:
    """Replay the traces; 1 when our policy is below LRU anywhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("traces", nargs="+", type=Path, help=".jsonl or .jsonl.xz")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="draws of sessions")
    parser.add_argument("--out", type=Path, default=DOCS / "benchmarks.json")
    args = parser.parse_args(argv)
    figures = Figures()
    measured: list[Curves] = []
    for path in args.traces:
        if is_agent_trace(path):
            measured += agents(path, figures, args.seeds)
        else:
            measured.append(chats(path, figures))
    merge(args.out, figures.rows)
    plotted = {curves.title: (curves.sizes, curves.rates) for curves in measured}
    draw(plotted, (LRU, OURS, BELADY), args.out.parent / "plots" / "eviction.png")
    below = [curves.title for curves in measured if curves.margin < 0.0]
    for title in below:
        sys.stderr.write(f"{title}: hints and pins are below LRU\n")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
