"""What the radix tree saves, and what it costs: figures a, b and f, with the bundled model."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agentkit_runtime.kv.events import EventLog
from agentkit_runtime.load import EngineOptions, load_core
from bench.figures import Figures
from bench.gpu_rig import Rig, timed_methods

SCHEDULING = ("plan", "commit", "finish", "drop", "add", "accept")
"""Methods of the scheduler; they include all that is done to the tree and the free list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Tokens and repetitions."""

    lengths: tuple[int, ...] = (1_000, 2_000, 4_000, 7_000, 8_000)
    new: int = 150
    repeats: int = 3
    unshared: int = 500
    shared: tuple[int, ...] = (2_000, 4_000)
    n_cached: int = 64
    n_uncached: int = 6
    n_requests: int = 12
    n_out: int = 32


QUICK = Sizes(
    lengths=(200, 400), new=20, repeats=1, unshared=100, shared=(400,), n_cached=4, n_out=4
)


def open_rig(options: EngineOptions | None = None) -> Rig:
    """Load the bundled model, with events on, and touch its memory and kernels."""
    core, config = load_core("smollm2", options or EngineOptions(max_slots=40_000))
    core.cache.record_events(EventLog())
    rig = Rig(core, config, torch.device("cpu"))
    rig.run([rig.tokens(200), rig.tokens(100)], 3, apart=True)
    rig.forget()
    return rig


def first_token(rig: Rig, sizes: Sizes, figures: Figures) -> None:
    """a. Time to first token against prompt length, cold, and cached with new tokens behind."""
    note = f"{_note()}, median of {sizes.repeats}, cached: {sizes.new} new tokens behind the prompt"
    for length in sizes.lengths:
        pairs = [_ttft(rig, length, sizes.new) for _ in range(sizes.repeats)]
        cold, warm = (statistics.median(column) for column in zip(*pairs, strict=True))
        label = _label(length)
        figures.add(f"ttft_cold_{label}", cold * 1_000, "ms", note)
        figures.add(f"ttft_cached_{label}", warm * 1_000, "ms", note)
        figures.add(f"ttft_cached_reduction_{label}", 1 - warm / cold, "ratio", note)


def no_reuse(rig: Rig, sizes: Sizes, figures: Figures) -> None:
    """b. Prompts that share nothing: what tree, hashing and scheduling cost of the run."""
    rig.forget()
    prompts = [rig.tokens(sizes.unshared) for _ in range(sizes.n_requests)]
    with timed_methods(rig.core.scheduler, SCHEDULING) as spent:
        seconds, stats = rig.run(prompts, sizes.n_out)
    assert not any(each.cached_tokens for each in stats), "random prompts share nothing"
    note = (
        f"{_note()}, events on; {sizes.n_requests} requests of {sizes.unshared} + {sizes.n_out} "
        f"tokens at once, {spent() * 1_000:.1f} ms of {seconds:.1f} s"
    )
    figures.add("no_reuse_overhead", spent() / seconds, "ratio", note)


def mostly_shared(rig: Rig, sizes: Sizes, figures: Figures) -> None:
    """f. Requests of which nine tenths are shared, and the same without a cache."""
    for length, suffix in zip(sizes.shared, ("", *map(_suffix, sizes.shared[1:])), strict=True):
        n_shared, n_own = length * 9 // 10, length // 10
        rates = []
        # Without a cache each takes the same time, so fewer of them give the rate.
        for apart, n_requests in ((True, sizes.n_uncached), (False, sizes.n_cached)):
            rig.forget()
            prefix = rig.tokens(n_shared)
            prompts = [prefix + rig.tokens(n_own) for _ in range(n_requests)]
            rates.append(n_requests / rig.run(prompts, 4, apart=apart)[0])
        note = (
            f"{_note()}; requests of {n_shared} shared + {n_own} own tokens, 4 generated, all at "
            f"once: {sizes.n_cached} of which nothing was there, {rates[1]:.3f} a second; "
            f"{sizes.n_uncached} in namespaces of their own, {rates[0]:.3f} a second"
        )
        figures.add(f"throughput_cached_vs_uncached{suffix}", rates[1] / rates[0], "ratio", note)


def measure(figures: Figures, sizes: Sizes, only: Sequence[str]) -> None:
    """Measure those of a, b and f that are wanted."""
    parts = {"ttft": first_token, "overhead": no_reuse, "shared": mostly_shared}
    wanted = [part for name, part in parts.items() if name in only]
    if wanted:
        rig = open_rig()
        for part in wanted:
            part(rig, sizes, figures)


def _ttft(rig: Rig, length: int, n_new: int) -> tuple[float, float]:
    rig.forget()
    prompt = rig.tokens(length)
    _, (cold,) = rig.run([prompt], 1)
    _, (warm,) = rig.run([prompt + rig.tokens(n_new)], 1)
    assert cold.cached_tokens == 0
    assert warm.cached_tokens >= length - 1
    assert cold.ttft_s is not None
    assert warm.ttft_s is not None
    return cold.ttft_s, warm.ttft_s


def _suffix(length: int) -> str:
    return f"_{_label(length)}"


def _label(length: int) -> str:
    return f"{length // 1_000}k" if length % 1_000 == 0 else str(length)


def _note() -> str:
    return f"SmolLM2-135M, default options, {torch.get_num_threads()} CPU threads"
