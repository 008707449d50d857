"""Random models on a device, and an engine core that is driven by hand and timed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.attention.select import AttentionName
from agentkit_runtime.core import EngineCore
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.load import build_core
from agentkit_runtime.loading.layout import expected_shapes
from agentkit_runtime.model.blocks import Blocks
from agentkit_runtime.model.config import ModelConfig
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.weights import load_weights
from agentkit_runtime.sched.scheduler import SchedulerOptions
from agentkit_runtime.types import (
    EngineEvent,
    Finished,
    GenerateRequest,
    RequestStats,
    SamplingParams,
)
from bench.tiny import Silent

LLAMA_1B = ModelConfig(
    family="llama",
    n_layers=16,
    hidden=2048,
    n_heads=32,
    n_kv_heads=8,
    head_dim=64,
    intermediate=8192,
    vocab=128_256,
    rms_eps=1e-5,
    rope_theta=500_000.0,
    max_position=131_072,
    tied_embeddings=True,
)
"""The shape of Llama 3.2 1B."""
TINY = ModelConfig(
    family="llama",
    n_layers=2,
    hidden=64,
    n_heads=4,
    n_kv_heads=2,
    head_dim=64,
    intermediate=96,
    vocab=512,
    rms_eps=1e-5,
    rope_theta=10_000.0,
    max_position=4096,
    tied_embeddings=True,
)


@dataclass(frozen=True, slots=True)
class RandomOnDevice:
    """A checkpoint of noise, drawn where it is used: a model's speed does not depend on it."""

    config: ModelConfig
    device: torch.device
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """See `TensorSource.has`."""
        return name in self._known()

    def tensor(self, name: str) -> Tensor:
        """See `TensorSource.tensor`. Products keep the size of what goes in."""
        shape = self._known()[name]
        generator = torch.Generator(self.device).manual_seed(len(name) + sum(map(ord, name)))
        drawn = torch.randn(shape, generator=generator, device=self.device)
        if len(shape) == 1:
            return drawn.mul_(0.1).add_(1.0) if name.endswith("norm.weight") else drawn.mul_(0.1)
        return drawn if "embed" in name else drawn.mul_(shape[1] ** -0.5)

    def blocks(self, name: str) -> Blocks | None:
        """See `TensorSource.blocks`."""
        return None

    def _known(self) -> dict[str, tuple[int, ...]]:
        if not self.shapes:
            self.shapes.update(expected_shapes(self.config))
        return self.shapes


def random_decoder(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> Decoder:
    """Make a decoder with random weights."""
    weights = load_weights(RandomOnDevice(config, device), device=device, dtype=dtype)
    return Decoder(config, weights, SdpaAttention(sliding_window=config.sliding_window))


def random_core(
    config: ModelConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    n_slots: int,
    attention: AttentionName,
    kv_format: KvFormat | None = None,
    step_tokens: int = 2048,
) -> tuple[EngineCore, Decoder]:
    """Make an engine core over random weights, with attention measured on this machine."""
    decoder = random_decoder(config, device, dtype)
    core = build_core(
        decoder,
        n_slots=n_slots,
        device=device,
        dtype=dtype,
        kv_format=kv_format,
        attention=attention,
        options=SchedulerOptions(step_tokens=step_tokens),
    )
    return core, decoder


class Rig:
    """Drives an engine core by hand. Every run ends when the device has nothing left to do."""

    def __init__(
        self,
        core: EngineCore,
        config: ModelConfig,
        device: torch.device,
        *,
        decoder: Decoder | None = None,
        seed: int = 7,
    ) -> None:
        self.core, self.config, self.decoder = core, config, decoder
        self._device = device
        self._random = random.Random(seed)
        self._n = 0

    def tokens(self, n: int) -> list[int]:
        """Return `n` random ids, which no other prompt shares but by chance."""
        return [self._random.randrange(self.config.vocab) for _ in range(n)]

    def run(
        self, prompts: Sequence[Sequence[int]], n_out: int, *, apart: bool = False
    ) -> tuple[float, list[RequestStats]]:
        """Run prompts at once; returns wall seconds and what the engine says of each.

        With `apart` every request has a namespace of its own: nothing is shared or found again.
        """
        events: list[list[EngineEvent]] = []
        self.wait()
        started = time.perf_counter()
        for prompt in prompts:
            seen: list[EngineEvent] = []
            events.append(seen)
            self._n += 1
            request = GenerateRequest(
                request_id=f"gpu-{self._n}",
                prompt=tuple(prompt),
                namespace=f"apart-{self._n}".encode() if apart else b"shared",
                text=Silent(),
                sampling=SamplingParams(max_tokens=n_out),
            )
            self.core.check(request)
            self.core.add(request, seen.append)
        while not self.core.idle:
            self.core.step()
        self.wait()
        return time.perf_counter() - started, [_stats(seen) for seen in events]

    def wait(self) -> None:
        """Wait for the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def forget(self) -> None:
        """Empty the radix tree."""
        self.core.cache.clear()


def _stats(events: Sequence[EngineEvent]) -> RequestStats:
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.error is None, last.error
    return last.stats


@contextmanager
def timed_methods(owner: Any, names: Sequence[str]) -> Iterator[Callable[[], float]]:
    """Time all calls of an object's methods; yields a function that returns the seconds so far."""
    seconds = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal seconds
            started = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                seconds += time.perf_counter() - started

        return call

    for name in names:
        setattr(owner, name, timed(getattr(owner, name)))
    try:
        yield lambda: seconds
    finally:
        for name in names:
            delattr(owner, name)


def best_seconds(work: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Least time of several runs, each until the device is done."""
    best = float("inf")
    for _ in range(repeats + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - started)
    return best
