"""A tiny model whose prefixes leave the pool and come back: the same tokens as without a cache."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from agentkit_runtime.core import EngineCore
from agentkit_runtime.engine import Engine as RunningEngine
from agentkit_runtime.kv.closing import close_cache
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.pool import KvStorage
from agentkit_runtime.kv.prune import BySession
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.tiers.disk_file import BlockShape
from agentkit_runtime.kv.tiers.disk_open import open_disk
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.load import build_core
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.types import Delta, EngineEvent, Finished, GenerateRequest, SamplingParams
from bench.tiny import TINY, Silent, tiny_decoder
from tests.runtime.tiers.support import Always

IDS = itertools.count()


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    torch.set_num_threads(1)
    return tiny_decoder()


class Engine:
    """A core with tiers behind a pool that holds two or three prompts."""

    def __init__(
        self,
        decoder: Decoder,
        folder: Path | None = None,
        *,
        kv_format: KvFormat = KvFormat.FLOAT32,
        host_blocks: int = 64,
    ) -> None:
        self._host_blocks, self._folder = host_blocks, folder
        self.core: EngineCore = build_core(
            decoder,
            n_slots=192,
            kv_format=kv_format,
            tiers=self._open,
            check_every_step=True,
        )

    def _open(self, storage: KvStorage) -> HostAndDiskTiers:
        shape = BlockShape(
            identity=b"i" * 32,
            kv_format=str(storage.format),
            bytes_per_token=storage.bytes_per_token,
        )
        disk = open_disk(self._folder, shape, max_bytes=1 << 30) if self._folder else None
        self.tiers = HostAndDiskTiers(
            storage, host_bytes=self._host_blocks * shape.n_bytes, worth=Always(), disk=disk
        )
        return self.tiers

    def run(
        self,
        prompt: Sequence[int],
        *,
        namespace: bytes = b"ns",
        n: int = 6,
        scope: Scope = NO_SCOPE,
    ) -> tuple[list[int], Finished]:
        events: list[EngineEvent] = []
        request = GenerateRequest(
            request_id=f"r{next(IDS)}",
            prompt=tuple(prompt),
            namespace=namespace,
            text=Silent(),
            sampling=SamplingParams(max_tokens=n),
            scope=scope,
        )
        self.core.check(request)
        self.core.add(request, events.append)
        while not self.core.idle:
            if not self.core.step():
                self.tiers._readers.submit(int).result(20)
        last = events[-1]
        assert isinstance(last, Finished)
        assert last.error is None
        return [i for e in events if isinstance(e, Delta) for i in e.token_ids], last

    def push_out(self) -> None:
        """Everything leaves the device."""
        self.core.cache.evict(self.core.cache.evictable_slots)
        assert self.core.cache.free_slots == self.core.cache.n_slots
        self.tiers.flush()


def prompt(seed: int, n: int = 70) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(TINY.vocab, (n,), generator=generator).tolist()


@pytest.mark.parametrize("kv_format", list(KvFormat))
def test_a_prefix_that_was_in_host_memory_gives_the_same_tokens(
    decoder: Decoder, kv_format: KvFormat
) -> None:
    engine = Engine(decoder, kv_format=kv_format)
    cold, stats = engine.run(prompt(1))
    assert stats.stats.restored_tokens == 0
    engine.push_out()
    warm, stats = engine.run(prompt(1))
    assert warm == cold
    assert stats.stats.restored_tokens == stats.stats.cached_tokens == 64
    engine.tiers.close()


def test_a_prefix_survives_on_disk_and_gives_the_same_tokens(
    decoder: Decoder, tmp_path: Path
) -> None:
    engine = Engine(decoder, tmp_path)
    cold, _ = engine.run(prompt(2))
    engine.push_out()
    engine.tiers.close()
    again = Engine(decoder, tmp_path)
    warm, stats = again.run(prompt(2))
    assert warm == cold
    assert stats.stats.restored_tokens == 64
    assert again.tiers.stats().hits_disk == 4
    again.tiers.close()


def test_many_prompts_over_a_small_pool_come_back_by_themselves(
    decoder: Decoder, tmp_path: Path
) -> None:
    engine = Engine(decoder, tmp_path, host_blocks=12)
    shared = prompt(3, 40)
    prompts = [shared + prompt(10 + i, 30) for i in range(6)]
    first = [engine.run(p)[0] for p in prompts]
    second = [engine.run(p) for p in prompts]
    assert [ids for ids, _ in second] == first
    assert sum(end.stats.restored_tokens for _, end in second) > 100
    engine.tiers.close()


def test_another_tenant_finds_nothing_in_host_memory_or_on_disk(
    decoder: Decoder, tmp_path: Path
) -> None:
    engine = Engine(decoder, tmp_path, host_blocks=8)
    engine.run(prompt(4), namespace=b"a" * 32)
    engine.push_out()
    for tenant in (b"b", b"c"):
        _, theirs = engine.run(prompt(4), namespace=tenant * 32)
        assert (theirs.stats.cached_tokens, theirs.stats.restored_tokens) == (0, 0)
        engine.push_out()
    _, mine = engine.run(prompt(4), namespace=b"a" * 32)
    assert mine.stats.restored_tokens == 64
    assert engine.tiers.stats().hits_disk == 4
    engine.tiers.close()


def test_clearing_a_namespace_reaches_slower_tiers(decoder: Decoder, tmp_path: Path) -> None:
    engine = Engine(decoder, tmp_path)
    engine.run(prompt(5))
    engine.push_out()
    engine.core.cache.clear(b"ns")
    _, end = engine.run(prompt(5))
    assert end.stats.cached_tokens == 0
    engine.tiers.close()


@pytest.mark.parametrize("on_device", [True, False])
def test_a_pruned_session_is_nowhere_any_more_also_after_a_restart(
    decoder: Decoder, tmp_path: Path, on_device: bool
) -> None:
    engine = Engine(decoder, tmp_path)
    scope = Scope(tenant="ann", session="s")
    shared = prompt(20, 32)
    for _ in range(2):  # on disk, and on the device once more
        engine.push_out()
        engine.run(shared + prompt(21, 40), scope=scope)
        engine.run(shared + prompt(22, 40), scope=Scope(tenant="ann", session="t"))
    if not on_device:
        engine.push_out()
    assert engine.tiers.stats().disk_blocks == 6
    engine.core.cache.prune(BySession("s", "ann"))
    close_cache(engine.core.cache)
    again = Engine(decoder, tmp_path)
    _, mine = again.run(shared + prompt(21, 40))
    _, others = again.run(shared + prompt(22, 40))
    close_cache(again.core.cache)
    assert (mine.stats.cached_tokens, others.stats.cached_tokens) == (32, 64)


def test_closing_a_cache_keeps_what_is_on_the_device(decoder: Decoder, tmp_path: Path) -> None:
    engine = Engine(decoder, tmp_path, host_blocks=4)  # less than the device has
    cold, _ = engine.run(prompt(6))
    cache = engine.core.cache
    cache.pin(b"ns", pack(prompt(6)[:32]))
    close_cache(cache)
    close_cache(cache)
    again = Engine(decoder, tmp_path)
    warm, stats = again.run(prompt(6))
    assert warm == cold
    assert stats.stats.restored_tokens == 64
    close_cache(again.core.cache)


def test_closing_takes_no_longer_than_it_may(decoder: Decoder, tmp_path: Path) -> None:
    engine = Engine(decoder, tmp_path)
    engine.run(prompt(7))
    close_cache(engine.core.cache, within_s=1.0, clock=iter([0.0, 2.0]).__next__)
    assert engine.tiers.stats().written == 0


def test_closing_evicts_nothing_when_nothing_would_keep_it(decoder: Decoder) -> None:
    engine = Engine(decoder)
    engine.run(prompt(8))
    close_cache(engine.core.cache)
    assert engine.core.cache.evictable_slots >= 70
    close_cache(build_core(decoder, n_slots=64).cache)


def test_an_engine_that_closes_keeps_its_cache(decoder: Decoder, tmp_path: Path) -> None:
    engine = Engine(decoder, tmp_path)
    engine.run(prompt(9))
    RunningEngine(engine.core).start().close()
    again = Engine(decoder, tmp_path)
    _, stats = again.run(prompt(9))
    assert stats.stats.restored_tokens == 64
    again.tiers.close()
