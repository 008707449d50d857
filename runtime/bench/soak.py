"""A randomised soak: everything that the runtime can do, at once, against an uncached oracle.

Eight tenants fork, continue and abandon conversations on a tiny model with a pool that is far too
small, with host memory and disk behind it, while operators pin, prune, publish, hint and clear and
a false clock runs. The cache's integrity is checked after every step, each greedy output is
compared with a plain forward pass, and no request may read what another tenant computed. One seed
is one run: threads of the tiers work when the soak says so.

    python runtime/bench/soak.py --requests 10000 --kv-format int8
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from agentkit_runtime.attention.kernels import ReferenceKernels
from agentkit_runtime.attention.sdpa import SdpaAttention
from agentkit_runtime.core import EngineCore
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tiers.base import Medium
from agentkit_runtime.kv.tiers.disk_file import BlockShape
from agentkit_runtime.kv.tiers.disk_open import open_disk
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from agentkit_runtime.kv.tree import RadixTree
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.pool_for import pool_for
from agentkit_runtime.sched.options import SchedulerOptions
from agentkit_runtime.types import Finished, FinishReason, GenerateRequest, SamplingParams
from bench.by_hand import ByHand
from bench.soak_faults import EXPECTED, FaultyDecoder
from bench.soak_oracle import Oracle
from bench.soak_traffic import MAX_PROMPT, PUBLIC, TENANTS, Ask, Even, Operator, Traffic
from bench.tiny import Silent, tiny_decoder

BACKENDS = ("device", "reference")

MAX_EMPTY_STEPS = 300
"""So many steps in a row without work are a hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """One run."""

    requests: int = 300
    kv_format: KvFormat = KvFormat.FLOAT32
    seed: int = 0
    backend: str = "device"
    """Attention kernels: those of the device, or the reference ones."""
    n_slots: int = 288
    """Slots of the pool: hardly two of the longest requests fit."""
    in_flight: int = 10
    """Most requests at a time."""
    max_prompt: int = MAX_PROMPT
    """Most tokens of a prompt."""
    fault_rate: float = 0.0
    """How probable each kind of fault is in a step; see `soak_faults`."""
    scheduler: SchedulerOptions = field(
        default_factory=lambda: SchedulerOptions(step_tokens=48, max_lanes=6, reserve_tokens=8)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakReport:
    """What happened. Nothing went wrong: the soak raises then."""

    requests: int
    steps: int
    ended: dict[str, int]
    hit_tokens: int
    restored_tokens: int
    disk_blocks: int
    """Blocks read from disk."""
    preemptions: int
    accepted_tokens: int
    near_ties: int
    faults: dict[str, int]
    seconds: float


class AlwaysWorth:
    """Computing a tiny model is faster than fetching: a soak wants the opposite."""

    def fetching(self, media: Sequence[Medium], *, cached_tokens: int) -> int:
        """Fetch all that is there."""
        return len(media)

    def saving(self, medium: Medium, *, index: int) -> bool:
        """Save everything."""
        return True

    def note_prefill(self, n_tokens: int, seconds: float, context: int) -> None:
        """Learn nothing."""

    def note_load(self, n_tokens: int, seconds: float) -> None:
        """Learn nothing."""

    def note_disk_read(self, n_blocks: int, seconds: float) -> None:
        """Learn nothing."""


class Soak:
    """One run; `folder` is for the disk tier."""

    def __init__(self, options: SoakOptions, folder: Path) -> None:
        self._options = options
        self._rng = random.Random(options.seed)
        self._now_s = 0.0
        decoder = _decoder(options.backend)
        self._oracle = Oracle(decoder, options.kv_format)
        self._faulty = FaultyDecoder(decoder, self._rng, options.fault_rate)
        self._core = self._open(decoder, folder)
        self._traffic = Traffic(self._rng, decoder.config.vocab, options.max_prompt)
        self._operator = Operator(self._rng, self._core, self._traffic, self._advance, self._forgot)
        self._open_asks: list[Ask] = []
        self._known: list[list[bytes]] = [[] for _ in range(TENANTS)]
        self._ended: Counter[str] = Counter()
        self._steps = self._accepted = self._restored = self._empty_steps = 0

    def run(self) -> SoakReport:
        """Run it. Raises AssertionError or IntegrityError, with the seed, for what is wrong."""
        began = time.monotonic()
        n_asked = 0
        while n_asked < self._options.requests or self._open_asks:
            if n_asked < self._options.requests and len(self._open_asks) < self._options.in_flight:
                n_asked += self._submit()
            if self._rng.random() < 0.05 and self._open_asks:
                self._core.abort(self._rng.choice(self._open_asks).request.request_id)
            if self._rng.random() < 0.15:
                self._operator.act()
            self._step()
        self._wind_up()
        core = self._core.stats()
        return SoakReport(
            requests=n_asked,
            steps=self._steps,
            ended=dict(self._ended),
            hit_tokens=core.hit_tokens,
            restored_tokens=self._restored,
            disk_blocks=self._tiers.stats().hits_disk,
            preemptions=core.preemptions,
            accepted_tokens=self._accepted,
            near_ties=self._oracle.near_ties,
            faults=dict(self._faulty.counts),
            seconds=time.monotonic() - began,
        )

    def _open(self, decoder: Decoder, folder: Path) -> EngineCore:
        options = self._options
        pool = pool_for(decoder, n_slots=options.n_slots, kv_format=options.kv_format)
        shape = BlockShape(
            identity=bytes(32),
            kv_format=str(options.kv_format),
            bytes_per_token=pool.bytes_per_token,
        )
        disk = open_disk(folder, shape, max_bytes=60 * (shape.n_bytes + 200))
        assert disk is not None, "the folder must be a new one"
        self._writer, self._readers = ByHand(), ByHand()
        self._tiers = HostAndDiskTiers(
            pool,
            host_bytes=10 * shape.n_bytes,
            worth=AlwaysWorth(),
            disk=disk,
            writer=self._writer,
            readers=self._readers,
        )
        tree = RadixTree(policy="hints")
        cache = KvCache(SlotAllocator(options.n_slots), tree, clock=self._clock)
        cache.attach_tiers(self._tiers)
        return EngineCore(
            decoder=cast(Decoder, self._faulty),
            storage=pool,
            cache=cache,
            options=options.scheduler,
            clock=self._clock,
            check_every_step=True,
        )

    def _submit(self) -> int:
        asks = self._traffic.ask()
        if self._rng.random() < 0.02:  # an operator fills the public root
            prompt = self._traffic.shared[0]
            asks = [Ask(_fill(f"public-{self._steps}", prompt), -1)]
        for ask in asks:
            self._core.check(ask.request)
            self._core.add(ask.request, ask.events.append)
            self._open_asks.append(ask)
        return len(asks)

    def _step(self) -> None:
        worked = self._core.step()
        self._steps += 1
        self._empty_steps = 0 if worked or self._core.idle else self._empty_steps + 1
        self._check_counts()
        self._advance(self._rng.choice([0.0, 0.001, 0.02]))
        self._writer.run(self._rng.randint(0, 8))
        self._readers.run(self._rng.randint(0, 2))
        for ask in [ask for ask in self._open_asks if ask.finished is not None]:
            self._open_asks.remove(ask)
            self._judge(ask)

    def _check_counts(self) -> None:
        where = f"seed {self._options.seed}, step {self._steps}"
        stats = self._core.stats()
        pending = sum(ask.finished is None for ask in self._open_asks)
        assert stats.running + stats.waiting == pending, f"{where}: {pending} pending, {stats}"
        assert stats.held_slots >= 0, f"{where}: more than all slots are free or cached: {stats}"
        assert self._empty_steps < MAX_EMPTY_STEPS, f"{where}: nothing moves: {stats}"

    def _judge(self, ask: Ask) -> None:
        finished = ask.finished
        assert finished is not None
        where = f"seed {self._options.seed}, {ask.request.request_id}"
        self._ended[finished.reason] += 1
        if finished.reason is FinishReason.ERROR:
            assert self._explains(finished.error or ""), f"{where}: {finished.error}"
        ids, logprobs, request = ask.ids, ask.logprobs, ask.request
        assert finished.stats.completion_tokens == len(ids), f"{where}: {finished}, {len(ids)} ids"
        assert sum(isinstance(event, Finished) for event in ask.events) == 1, f"{where}: two ends"
        assert len(logprobs) == (0 if request.sampling.logprobs is None else len(ids)), where
        grammar = None if request.grammar is None else Even()
        wrong = self._oracle.check(request.prompt, ids, grammar=grammar, logprobs=logprobs)
        assert wrong is None, f"{where}: {wrong}"
        if finished.reason is FinishReason.STOP:
            assert ids[-1] in request.eos_ids, f"{where}: stopped at {ids[-1]}"
        if finished.reason is FinishReason.LENGTH:
            wanted = ask.request.sampling.max_tokens
            assert len(ids) == wanted, f"{where}: {len(ids)} tokens instead of {wanted}"
        stats = finished.stats
        self._accepted += stats.accepted_tokens
        self._restored += stats.restored_tokens
        if ask.tenant >= 0:
            if not ask.spared:
                self._require_own(ask, stats.cached_tokens, where)
            self._known[ask.tenant].append(bytes((*ask.request.prompt, *ids)))
            self._traffic.learn(ask)

    def _explains(self, error: str) -> bool:
        """Whether a request may end with this error: a fault struck, or pins left no room."""
        if error.startswith("no KV slots"):
            return self._options.n_slots < 2 * self._options.max_prompt
        return self._options.fault_rate > 0 and error.startswith(EXPECTED)

    def _forgot(self, tenant: int | None) -> None:
        """From now on nothing of a tenant may be read that was computed before."""
        for ask in self._open_asks:
            ask.spared = ask.spared or tenant in (None, ask.tenant)
        for index in range(TENANTS):
            if tenant in (None, index):
                self._known[index] = []

    def _require_own(self, ask: Ask, n_cached: int, where: str) -> None:
        """What was read from the cache was computed for this tenant, or published."""
        own = self._known[ask.tenant]
        others = [a for a in self._open_asks if a.tenant == ask.tenant]
        sequences = [bytes((*a.request.prompt, *a.ids)) for a in others]
        cached = bytes(ask.request.prompt[:n_cached])
        published = bytes(self._traffic.shared[0]) if ask.request.scope.public == PUBLIC else b""
        found = n_cached <= len(published) and published.startswith(cached)
        found = found or any(known.startswith(cached) for known in own + sequences)
        assert found, f"{where}: {n_cached} cached tokens that tenant {ask.tenant} never had"

    def _wind_up(self) -> None:
        """Nothing is left over when everything is given back."""
        cache = self._core.cache
        for prefix in cache.published():
            cache.unpublish(prefix.handle)
        cache.clear()
        self._core.check_integrity()
        assert cache.free_slots == cache.n_slots, f"{cache.n_slots - cache.free_slots} slots leaked"
        self._writer.run()
        self._tiers.held([b""])
        stats = self._tiers.stats()
        assert (stats.host_blocks, stats.disk_blocks) == (0, 0), "blocks outlived a flush"
        assert stats.failures == 0, f"{stats.failures} blocks failed"
        self._tiers.close()

    def _advance(self, seconds: float) -> None:
        self._now_s += seconds

    def _clock(self) -> float:
        return self._now_s


def soak(options: SoakOptions, folder: Path) -> SoakReport:
    """Run one soak with the disk tier in `folder`, which must be empty."""
    return Soak(options, folder).run()


def _decoder(backend: str) -> Decoder:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {backend!r}")
    kernels = ReferenceKernels() if backend == "reference" else None
    return tiny_decoder(attention=SdpaAttention(kernels=kernels))


def _fill(request_id: str, prompt: tuple[int, ...]) -> GenerateRequest:
    return GenerateRequest(
        request_id=request_id,
        prompt=prompt,
        namespace=PUBLIC,
        text=Silent(),
        sampling=SamplingParams(max_tokens=0),
    )


def main() -> None:
    """Run soaks from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kv-format", choices=[*map(str, KvFormat), "all"], default="float32")
    parser.add_argument("--backend", choices=BACKENDS, default="device")
    parser.add_argument("--fault-rate", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the tensors are tiny
    chosen = list(KvFormat) if arguments.kv_format == "all" else [KvFormat(arguments.kv_format)]
    for kv_format in chosen:
        options = SoakOptions(
            requests=arguments.requests,
            kv_format=kv_format,
            seed=arguments.seed,
            backend=arguments.backend,
            fault_rate=arguments.fault_rate,
        )
        print(f"seed {options.seed}, {kv_format} ...", flush=True)  # noqa: T201
        with tempfile.TemporaryDirectory() as folder:
            print(soak(options, Path(folder)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
