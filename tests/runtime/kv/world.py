"""A cache with everything attached, and a shadow of the pool that knows what each slot holds.

Every operation is checked where it happens: a sequence must read its own prefix, computed for its
own namespace or for a published prefix; a dry run must promise what the prune then does; the
events must describe the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

import pytest

from agentkit_runtime.errors import NotCached, OutOfSlots, PinRefused
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventLog,
    KvEvent,
)
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.policy import PolicyName
from agentkit_runtime.kv.prune import ByNamespace, ByPin, ByPrefix, BySession, ByTag, Selector
from agentkit_runtime.kv.restore import Restore
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Block, Medium, TierChange
from agentkit_runtime.kv.tiers.stats import TierStats
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree

PUBLIC = b"public"

Content = int
"""Stands for the KV of a token behind a prefix in a namespace."""


def contents(namespace: bytes, tokens: Sequence[int]) -> list[Content]:
    """What the slots of these tokens must hold."""
    chained: list[Content] = []
    value = int.from_bytes(namespace[:4].ljust(4, b"\0"), "little")
    for token in tokens:
        value = (value * 1_000_003 + token + 17) % (1 << 61)
        chained.append(value)
    return chained


class FakeFetch:
    def __init__(self, tiers: FakeTiers, blocks: list[list[Content]]) -> None:
        self._tiers = tiers
        self._blocks = blocks
        self.done = False
        self.n_blocks = 0
        self.closed = False

    def arrive(self, n_blocks: int | None = None) -> None:
        self.done = True
        self.n_blocks = len(self._blocks) if n_blocks is None else min(n_blocks, len(self._blocks))

    def load(self, extents: Sequence[Extent]) -> None:
        assert not self.closed
        if self._tiers.load_fails:
            raise RuntimeError("the device is gone")
        slots = [slot for run in extents for slot in range(run.start, run.end)]
        assert len(slots) % BLOCK_TOKENS == 0
        assert len(slots) <= self.n_blocks * BLOCK_TOKENS
        flat = [content for block in self._blocks for content in block]
        self._tiers.content.update(zip(slots, flat, strict=False))

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._tiers.n_open -= 1


class FakeTiers:
    """Host memory for `capacity` blocks, the oldest leaves first."""

    def __init__(self, content: dict[int, Content], capacity: int = 1_000) -> None:
        self.content = content
        self.capacity = capacity
        self.blocks: dict[bytes, tuple[bytes, list[Content]]] = {}
        self.n_open = 0
        self.load_fails = False
        self.worth_it = True
        self.fetches: list[FakeFetch] = []
        self._listener: Callable[[TierChange], None] | None = None

    def save(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            slots = [slot for run in block.extents for slot in range(run.start, run.end)]
            assert len(slots) == BLOCK_TOKENS
            self.blocks[block.name] = block.namespace, [self.content[slot] for slot in slots]
            self._tell(True, block.name)
        while len(self.blocks) > self.capacity:
            name = next(iter(self.blocks))
            del self.blocks[name]
            self._tell(False, name)

    def held(self, names: Sequence[bytes], *, cached_tokens: int = 0) -> int:
        n = 0
        while n < len(names) and names[n] in self.blocks:
            n += 1
        return n if self.worth_it else 0

    def fetch(self, names: Sequence[bytes]) -> FakeFetch:
        self.n_open += 1
        fetch = FakeFetch(self, [self.blocks[name][1] for name in names])
        self.fetches.append(fetch)
        return fetch

    def forget(self, namespace: bytes | None = None) -> int:
        gone = [n for n, (owner, _) in self.blocks.items() if namespace in (None, owner)]
        for name in gone:
            del self.blocks[name]
            self._tell(False, name)
        return len(gone)

    def forget_blocks(self, names: Sequence[bytes]) -> int:
        gone = [name for name in names if self.blocks.pop(name, None) is not None]
        for name in gone:
            self._tell(False, name)
        return len(gone)

    def note_prefill(self, n_tokens: int, seconds: float, *, context: int = 0) -> None:
        raise NotImplementedError

    def stats(self) -> TierStats:
        counts = dict.fromkeys((field.name for field in fields(TierStats)), 0)
        return TierStats(**counts | {"host_blocks": len(self.blocks)})

    def listen(self, listener: Callable[[TierChange], None] | None) -> None:
        self._listener = listener

    def close(self) -> None:
        raise NotImplementedError

    def _tell(self, stored: bool, name: bytes) -> None:
        if self._listener is not None:
            self._listener(TierChange(Medium.HOST, stored, (name,)))


@dataclass
class Run:
    """A running sequence."""

    lease: Lease
    tokens: list[int]
    computed: int

    def slots(self) -> list[int]:
        return [slot for run in self.lease.extents for slot in range(run.start, run.end)]


@dataclass
class Mirror:
    """What a router makes of the events."""

    blocks: dict[Medium, set[bytes]] = field(default_factory=lambda: {m: set() for m in Medium})
    next_seq: int = 1

    def take(self, seq: int, event: KvEvent) -> None:
        assert seq == self.next_seq
        self.next_seq += 1
        match event:
            case BlockStored():
                known = self.blocks[event.medium]
                if event.medium is Medium.DEVICE:
                    assert len(event.token_ids) == 64 * len(event.block_hashes)
                known |= set(event.block_hashes)
            case BlockRemoved():
                assert set(event.block_hashes) <= self.blocks[event.medium], "never stored"
                self.blocks[event.medium] -= set(event.block_hashes)
            case AllBlocksCleared():
                assert not self.blocks[Medium.DEVICE]


class World:
    def __init__(
        self,
        n_slots: int,
        *,
        policy: PolicyName = "hints",
        eviction_step: int = 4,
        tier_blocks: int = 12,
    ) -> None:
        self.now_s = 1_000.0
        self.allocator = SlotAllocator(n_slots)
        self.tree = RadixTree(policy=policy)
        self.cache = KvCache(
            self.allocator, self.tree, eviction_step=eviction_step, clock=lambda: self.now_s
        )
        self.content: dict[int, Content] = {}
        self.log = EventLog()
        self.mirror = Mirror()
        self.log.subscribe(self.mirror.take)
        self.cache.record_events(self.log)
        self.tiers = FakeTiers(self.content, tier_blocks)
        self.cache.attach_tiers(self.tiers)
        self.running: list[Run] = []
        self.restores: list[Restore] = []
        self.counts: dict[str, int] = {}

    def count(self, what: str, n: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + n

    # -- sequences

    def begin(self, namespace: bytes, tokens: Sequence[int], scope: Scope = NO_SCOPE) -> Run:
        limit = max(0, len(tokens) - 1)
        packed = pack(tokens)
        expected = self.cache.peek(namespace, packed, max_match=limit, scope=scope)
        lease = self.cache.acquire(namespace, packed, max_match=limit, scope=scope)
        assert lease.cached == expected, "peek and acquire disagree"
        run = Run(lease, list(tokens), lease.cached)
        self.running.append(run)
        self.verify(run)
        return run

    def compute(self, run: Run, n_tokens: int, *, commit: bool = True) -> bool:
        end = min(len(run.tokens), run.computed + n_tokens)
        try:
            self.cache.grow(run.lease, end)
        except OutOfSlots:
            self.count("out of slots")
            return False
        new = run.slots()[run.computed : end]
        values = contents(run.lease.namespace, run.tokens[:end])[run.computed :]
        self.content.update(zip(new, values, strict=True))
        run.computed = end
        if commit:
            self.cache.commit(run.lease, pack(run.tokens[:end]))
            if run.lease.node.condemned:
                self.count("commit refused")
                assert run.lease.committed < end or run.lease.committed == run.lease.cached
        self.verify(run)
        return True

    def release(self, run: Run) -> None:
        self.verify(run)
        self.running.remove(run)
        self.cache.release(run.lease)

    def whole(self, namespace: bytes, tokens: Sequence[int], scope: Scope = NO_SCOPE) -> bool:
        """Compute and share a whole sequence."""
        run = self.begin(namespace, tokens, scope)
        done = self.compute(run, len(tokens))
        self.release(run)
        return done

    def verify(self, run: Run) -> None:
        """It reads what was computed for its own prefix, by itself, its tenant or the operator.

        A block that a published prefix ends in keeps the operator's part when it comes back from a
        slower tier, also where that prefix is not published any more.
        """
        lease = run.lease
        own = contents(lease.namespace, run.tokens)
        public = contents(PUBLIC, run.tokens)
        held = [self.content[slot] for slot in run.slots()[: run.computed]]
        assert held[: lease.public] == public[: lease.public]
        assert all(pair[0] in pair[1:] for pair in zip(held, own, public, strict=False))

    # -- the rest

    def pin(
        self, namespace: bytes, tokens: Sequence[int], scope: Scope, ttl_s: float | None
    ) -> str | None:
        try:
            pin = self.cache.pin(namespace, pack(tokens), scope=scope, ttl_s=ttl_s)
        except (NotCached, PinRefused) as refused:
            self.count(type(refused).__name__)
            return None
        self.count("pinned")
        assert self.cache.peek(namespace, pack(tokens), scope=scope) == len(tokens)
        return pin.handle

    def prune(self, selector: Selector) -> None:
        before = (self.tree.total_tokens, self.allocator.free_slots)
        try:
            promised = self.cache.prune(selector, dry_run=True)
        except LookupError:
            assert isinstance(selector, ByPin)
            self.count("no such pin")
            return
        except ValueError:
            assert not isinstance(selector, BySession | ByTag)
            self.count("prune refused")
            return
        assert before == (self.tree.total_tokens, self.allocator.free_slots)
        done = self.cache.prune(selector)
        assert done == replace(promised, dry_run=False)
        assert self.allocator.free_slots == before[1] + done.freed_tokens
        self.count("freed", done.freed_tokens)
        self.count("condemned", done.condemned_tokens)
        again = (
            self.cache.prune(selector, dry_run=True) if not isinstance(selector, ByPin) else None
        )
        assert again is None or again.nodes == 0, "what was pruned is not found again"
        if isinstance(selector, ByPrefix) and selector.tokens:
            assert self.cache.peek(selector.namespace, selector.tokens) < len(selector.tokens) // 4
        if isinstance(selector, ByNamespace):
            assert all(owner != selector.namespace for owner, _ in self.tiers.blocks.values())

    def publish(self, tokens: Sequence[int]) -> str | None:
        if not tokens or not self.whole(PUBLIC, tokens):
            return None
        try:
            handle = self.cache.publish(PUBLIC, pack(tokens)).handle
        except (NotCached, PinRefused) as refused:
            self.count(type(refused).__name__)
            return None
        assert self.cache.publish(PUBLIC, pack(tokens)).handle == handle
        self.count("published")
        return handle

    def begin_restore(self, namespace: bytes, tokens: Sequence[int], scope: Scope) -> bool:
        wanted = self.cache.restorable(namespace, pack(tokens), scope=scope)
        if wanted is None:
            return False
        assert wanted.cached == self.cache.peek(namespace, pack(tokens), scope=scope)
        self.restores.append(self.cache.begin_restore(wanted))
        return True

    def finish_restore(self, restore: Restore, arrived: int | None) -> int:
        self.restores.remove(restore)
        assert isinstance(restore.fetch, FakeFetch)
        restore.fetch.arrive(arrived)
        before = self.tree.total_tokens
        if self.tiers.load_fails and arrived != 0:
            free = self.cache.available
            try:
                self.cache.finish_restore(restore)
            except RuntimeError:
                self.count("load failed")
                assert self.cache.available >= free
            return 0
        gained = self.cache.finish_restore(restore)
        self.count("restored", gained)
        assert self.tree.total_tokens <= before + gained
        return gained

    def check(self) -> None:
        self.cache.check_integrity([run.lease for run in self.running])
        names = {name for root in self.tree.roots() for n in root.subtree() for name in n.names}
        assert names == self.mirror.blocks[Medium.DEVICE]
        assert set(self.tiers.blocks) == self.mirror.blocks[Medium.HOST]
        assert self.tiers.n_open == len(self.restores)
        for run in self.running:
            self.verify(run)

    def end(self) -> None:
        """Everything goes, and nothing is left over."""
        for run in list(self.running):
            self.release(run)
        for restore in list(self.restores):
            self.cache.cancel_restore(restore)
            self.restores.remove(restore)
        self.cache.clear()
        self.check()
        assert self.cache.pins() == []
        assert list(self.allocator.free_runs()) == [Extent(0, self.cache.n_slots)], "slots leaked"
        assert list(self.tree.roots()) == []
        with pytest.raises(StopIteration):
            next(self.tree.condemned())
