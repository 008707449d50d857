"""Correctness and speed on a CUDA GPU, in under ten minutes: `python runtime/bench/gpu.py`.

Installs and fetches nothing. The model has random weights in the shape of Llama 3.2 1B; a model
folder can be named instead. Without a GPU it says so and ends well; `--device cpu --quick` runs the
same code on tiny shapes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

if __name__ == "__main__":  # run from a checkout that is not installed
    sys.path.insert(0, str(Path(__file__).parents[1]))

from agentkit_runtime.attention.select import AttentionName
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree
from agentkit_runtime.load import EngineOptions, load_core
from bench.gpu_checks import run_checks
from bench.gpu_rig import LLAMA_1B, TINY, Rig, best_seconds, random_core, timed_methods

NEW_TOKENS = 150
_SCHEDULING = ("add", "plan", "commit", "accept", "finish")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    lengths: tuple[int, ...] = (1000, 2000, 4000, 7000, 16_000)
    shared: int = 4000
    teams: tuple[int, ...] = (4, 8, 16)
    n_out: int = 64
    requests: int = 32
    repeats: int = 3
    n_slots: int = 200_000
    budget_s: float = 540.0


QUICK = Sizes(lengths=(200,), shared=200, teams=(4,), n_out=4, requests=4, repeats=1, n_slots=4000)


@dataclass(slots=True)
class Report:
    """Collects figures, and prints them as they come."""

    note: str
    figures: list[dict[str, object]] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        """Add one figure."""
        row = {"name": f"gpu_{name}", "value": round(value, 5), "unit": unit, "note": self.note}
        self.figures.append(row)
        sys.stdout.write(f"{name:44} {value:14.4f} {unit}\n")
        sys.stdout.flush()


def first_tokens(rig: Rig, sizes: Sizes, report: Report) -> None:
    """a. Time to first token against prompt length, uncached and cached with new tokens."""
    for length in sizes.lengths:
        cold, warm = [], []
        for _ in range(sizes.repeats):
            rig.forget()
            prompt = rig.tokens(length)
            cold.append(rig.run([prompt], 1)[0])
            seconds, (stats,) = rig.run([prompt + rig.tokens(NEW_TOKENS)], 1)
            assert stats.cached_tokens >= length - 1
            warm.append(seconds)
        a, b = statistics.median(cold), statistics.median(warm)
        report.add(f"ttft_cold_{length}", a * 1000, "ms")
        report.add(f"ttft_cached_{length}_plus_{NEW_TOKENS}", b * 1000, "ms")
        report.add(f"ttft_cached_reduction_{length}", 1 - b / a, "ratio")


def no_reuse(rig: Rig, sizes: Sizes, report: Report) -> None:
    """b. What tree, hashing and scheduling cost where nothing is shared."""
    prompts = [rig.tokens(sizes.shared // 4) for _ in range(sizes.requests)]
    rig.forget()
    with timed_methods(rig.core.scheduler, _SCHEDULING) as spent:
        seconds, _ = rig.run(prompts, sizes.n_out, apart=True)
    report.add("no_reuse_overhead", spent() / seconds, "ratio")


def tree_alone(rig: Rig, sizes: Sizes, report: Report) -> None:
    """c. The radix tree without a model: agents on one prefix, each with its own tail."""
    prefix = rig.tokens(sizes.shared)
    keys = [pack(prefix + rig.tokens(NEW_TOKENS)) for _ in range(8 * sizes.requests)]
    n = sizes.shared + NEW_TOKENS

    def insert() -> RadixTree:
        tree = RadixTree()
        for i, key in enumerate(keys):
            tree.insert(b"bench", key, [Extent(i * n, n)])
        return tree

    tree = insert()
    cpu = torch.device("cpu")
    insert_s = best_seconds(insert, cpu, sizes.repeats) / len(keys)
    match_s = best_seconds(lambda: [tree.match(b"bench", key) for key in keys], cpu) / len(keys)
    report.add("tree_insert", insert_s * 1e6, "us")
    report.add("tree_match", match_s * 1e6, "us")


def teams(rig: Rig, sizes: Sizes, report: Report) -> None:
    """d. Subagents over a shared prefix, cold and warm."""
    for n in sizes.teams:
        for state in ("cold", "warm"):
            seconds = []
            for _ in range(sizes.repeats):
                rig.forget()
                prefix = rig.tokens(sizes.shared)
                if state == "warm":
                    rig.run([prefix], 1)
                prompts = [prefix + rig.tokens(100) for _ in range(n)]
                seconds.append(rig.run(prompts, sizes.n_out)[0])
            wall = statistics.median(seconds)
            report.add(f"team_{n}_{state}_wall", wall, "s")
            report.add(f"team_{n}_{state}_rate", n * sizes.n_out / wall, "tokens/s")
    if rig.decoder is None:
        return
    stats = rig.decoder.attention.stats
    report.add("attention_shared_reads_per_step", stats.shared_reads / stats.plans, "count")
    report.add("attention_parts_per_step", stats.parts / stats.plans, "count")


def floors(
    rig: Rig, sizes: Sizes, report: Report, device: torch.device, dtype: torch.dtype
) -> None:
    """e. Batch-1 decode and cold prefill, beside memory bandwidth and matrix products."""
    prompt = rig.tokens(sizes.shared)
    rig.forget()
    prefill = min(rig.run([prompt], 1, apart=True)[0] for _ in range(sizes.repeats))
    short = rig.tokens(32)
    one = min(rig.run([short], 1)[0] for _ in range(sizes.repeats))
    many = min(rig.run([short], 1 + sizes.n_out)[0] for _ in range(sizes.repeats))
    step = (many - one) / sizes.n_out
    n = 4096 if device.type == "cuda" else 256
    square = torch.randn(n, n, device=device, dtype=dtype)
    block = torch.empty(16 * n * n, device=device, dtype=torch.uint8)
    flops = 2 * n**3 / best_seconds(lambda: square @ square, device)
    bandwidth = 2 * block.numel() / best_seconds(block.clone, device)
    weights = rig.config.block_weights + rig.config.vocab * rig.config.hidden
    report.add("decode_rate_1", 1 / step, "tokens/s")
    report.add("decode_of_bandwidth", weights * dtype.itemsize / bandwidth / step, "ratio")
    report.add("prefill_rate", sizes.shared / prefill, "tokens/s")
    products = 2 * rig.config.block_weights * sizes.shared
    report.add("prefill_of_gemm", products / flops / prefill, "ratio")


def throughput(rig: Rig, sizes: Sizes, report: Report) -> None:
    """f. A workload of which nine tenths of each prompt are shared, cached and uncached."""
    n = sizes.shared // 2
    rates = []
    for apart in (True, False):
        rig.forget()
        prefix = rig.tokens(n * 9 // 10)
        prompts = [prefix + rig.tokens(n // 10) for _ in range(sizes.requests)]
        rates.append(sizes.requests * n / rig.run(prompts, 1, apart=apart)[0])
    report.add("throughput_uncached", rates[0], "tokens/s")
    report.add("throughput_cached", rates[1], "tokens/s")
    report.add("throughput_cached_vs_uncached", rates[1] / rates[0], "ratio")


def measure(
    rig: Rig, sizes: Sizes, report: Report, device: torch.device, dtype: torch.dtype
) -> None:
    """Measure all figures, as long as there is time."""
    rig.run([rig.tokens(200), rig.tokens(300)], 3, apart=True)  # kernels are loaded
    deadline = time.monotonic() + sizes.budget_s
    parts: dict[str, Callable[[], None]] = {
        "a": lambda: first_tokens(rig, sizes, report),
        "b": lambda: no_reuse(rig, sizes, report),
        "c": lambda: tree_alone(rig, sizes, report),
        "d": lambda: teams(rig, sizes, report),
        "e": lambda: floors(rig, sizes, report, device, dtype),
        "f": lambda: throughput(rig, sizes, report),
    }
    for name, part in parts.items():
        if time.monotonic() > deadline:
            sys.stdout.write(f"no time left for figure {name}\n")
            continue
        part()


def check(device: torch.device, dtype: torch.dtype, backends: Sequence[AttentionName]) -> list[str]:
    """Run the correctness checks; returns the names of those that failed."""
    dtypes = [torch.float32] if dtype is torch.float32 else [torch.float32, dtype]
    failed, n = [], 0
    for result in run_checks(device, dtypes, backends):
        n += 1
        if not result.passed:
            failed.append(result.name)
            sys.stdout.write(f"WRONG {result.name}: {result.error:.3g} > {result.bound}\n")
    sys.stdout.write(f"correctness: {n - len(failed)} of {n} checks passed\n")
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, measure, write the figures. 1 when a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, seconds")
    parser.add_argument("--model", help="a model file or folder instead of random weights")
    parser.add_argument("--out", type=Path, default=Path("gpu-benchmarks.json"))
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.stdout.write(
            "no CUDA GPU here, so nothing was measured; try --device cpu --quick for the code\n"
        )
        return 0
    on_gpu = device.type == "cuda"
    dtype = torch.bfloat16 if on_gpu else torch.float32
    backends: list[AttentionName] = ["sdpa"]
    if on_gpu and importlib.util.find_spec("flashinfer") is not None:
        backends.append("flashinfer")
    failed = check(device, dtype, backends)
    sizes, shape = (QUICK, TINY) if options.quick else (Sizes(), LLAMA_1B)
    figures: list[dict[str, object]] = []
    for backend in backends:
        if options.model is not None:
            engine = EngineOptions(device=str(device), attention=backend, max_slots=sizes.n_slots)
            rig = Rig(*load_core(options.model, engine), device)
            label = options.model
        else:
            core, decoder = random_core(
                shape, device, dtype, n_slots=sizes.n_slots, attention=backend
            )
            rig = Rig(core, shape, device, decoder=decoder)
            label = "random weights, Llama 3.2 1B" if shape is LLAMA_1B else "random weights, tiny"
        name = torch.cuda.get_device_name(device) if on_gpu else "CPU"
        report = Report(f"{label}, {dtype}, {backend}, {name}")
        sys.stdout.write(f"{report.note}\n")
        measure(rig, sizes, report, device, dtype)
        figures += report.figures
    options.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
