"""Tree, free list and leases against a plain-dict oracle, in random order.

The oracle is a plain dict for each namespace, from every known prefix to the time of its last use.
It predicts exactly what is matched, protected, evictable and evicted. A shadow of the pool records
for which prefix each slot was computed, so a slot that is reused while somebody still reads it, or
that is shared before it was computed, shows up as wrong content.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentkit_runtime.errors import OutOfSlots
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.extent import Extent, total
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tokens import pack, unpack
from agentkit_runtime.kv.tree import RadixTree

Prefix = tuple[int, ...]

namespaces = st.sampled_from([b"one", b"two"])
prompts = st.lists(st.integers(0, 1), min_size=1, max_size=9).map(tuple)
generated = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple)
shares = st.sampled_from([0.0, 0.5, 1.0, 1.0])
"""How much of what is computed gets committed."""


class Oracle:
    """What the tree must know. Forgets token by token, the stalest unneeded prefix first."""

    def __init__(self) -> None:
        self.known: dict[bytes, dict[Prefix, int]] = {}
        self._now = 0

    def use(self, namespace: bytes, tokens: Prefix) -> int:
        """Record a use of the longest known prefix; returns its length."""
        self._now += 1
        known = self.known.setdefault(namespace, {})
        length = self.longest(namespace, tokens)
        known.update({tokens[:end]: self._now for end in range(1, length + 1)})
        return length

    def add(self, namespace: bytes, tokens: Prefix) -> None:
        self._now += 1
        known = self.known.setdefault(namespace, {})
        known.update({tokens[:end]: self._now for end in range(1, len(tokens) + 1)})

    def longest(self, namespace: bytes, tokens: Prefix) -> int:
        known = self.known.get(namespace, {})
        return max((end for end in range(len(tokens) + 1) if tokens[:end] in known), default=0)

    def evict(self, n_tokens: int, protected: set[tuple[bytes, Prefix]]) -> int:
        for n_evicted in range(n_tokens):
            leaves = [
                (used, namespace, prefix)
                for namespace, known in self.known.items()
                for prefix, used in known.items()
                if (namespace, prefix) not in protected
                and not any((*prefix, token) in known for token in (0, 1, 2))
            ]
            if not leaves:
                return n_evicted
            _, namespace, prefix = min(leaves)
            del self.known[namespace][prefix]
        return n_tokens

    def total(self) -> int:
        return sum(len(known) for known in self.known.values())


class Sequence:
    """A running sequence: its lease, its tokens, and how many of them are computed."""

    def __init__(self, lease: Lease, tokens: Prefix) -> None:
        self.lease = lease
        self.tokens = tokens
        self.computed = lease.cached

    def slots(self) -> list[int]:
        return [slot for run in self.lease.extents for slot in range(run.start, run.end)]


class CacheAgainstOracle(RuleBasedStateMachine):
    @initialize(n_slots=st.integers(8, 48), eviction_step=st.integers(1, 6))
    def start(self, n_slots: int, eviction_step: int) -> None:
        self.allocator = SlotAllocator(n_slots)
        self.tree = RadixTree()
        self.cache = KvCache(self.allocator, self.tree, eviction_step=eviction_step)
        self.eviction_step = eviction_step
        self.oracle = Oracle()
        self.running: list[Sequence] = []
        self.content: dict[int, tuple[bytes, Prefix] | None] = {}

    # -- rules

    @precondition(lambda self: len(self.running) < 4)
    @rule(namespace=namespaces, prompt=prompts, uncached=st.integers(0, 3))
    def acquire(self, namespace: bytes, prompt: Prefix, uncached: int) -> None:
        self.begin(namespace, prompt, max_match=max(0, len(prompt) - uncached))

    @precondition(lambda self: self.running and len(self.running) < 4)
    @rule(data=st.data(), more=prompts, run=st.booleans(), release=st.booleans())
    def fork(self, data: st.DataObject, more: Prefix, run: bool, release: bool) -> None:
        """Another sequence goes on from somewhere in a running one; it may come and go at once."""
        parent = data.draw(st.sampled_from(self.running))
        ends = [parent.lease.committed, len(parent.tokens), parent.lease.committed // 2]
        shared = data.draw(st.sampled_from(ends))
        prompt = (*parent.tokens[:shared], *more)
        child = self.begin(parent.lease.namespace, prompt, max_match=len(prompt) - 1)
        if run:
            self.step(child, len(prompt), 0, 1.0)
        if release and child in self.running:
            self.running.remove(child)
            self.cache.release(child.lease)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), n_tokens=st.integers(1, 6), reserve=st.integers(0, 4), commit=shares)
    def prefill(self, data: st.DataObject, n_tokens: int, reserve: int, commit: float) -> None:
        sequence = data.draw(st.sampled_from(self.running))
        self.step(sequence, n_tokens, reserve, commit)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), new=generated, reserve=st.integers(0, 4), commit=shares)
    def generate(self, data: st.DataObject, new: Prefix, reserve: int, commit: float) -> None:
        sequence = data.draw(st.sampled_from(self.running))
        sequence.tokens += new
        self.step(sequence, len(sequence.tokens) - sequence.computed, reserve, commit)

    @precondition(lambda self: len(self.running) < 3)
    @rule(namespace=namespaces, prompt=prompts)
    def two_equal_prompts_in_one_batch(self, namespace: bytes, prompt: Prefix) -> None:
        twins = [self.begin(namespace, prompt, max_match=len(prompt) - 1) for _ in range(2)]
        ready = [twin for twin in twins if self.grow(twin, len(prompt), 0)]
        for twin in ready:
            self.compute(twin, len(prompt))
        for twin in ready:
            self.commit(twin, len(prompt))
        if len(ready) == 2:
            first, second = (twin.slots()[: len(prompt)] for twin in twins)
            assert first == second, "equal prompts must end on the same slots"

    @precondition(lambda self: self.running)
    @rule(data=st.data(), times=st.integers(1, 2))
    def release_or_abort(self, data: st.DataObject, times: int) -> None:
        sequence = data.draw(st.sampled_from(self.running))
        self.running.remove(sequence)
        for _ in range(times):
            self.cache.release(sequence.lease)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(self.running))
        lease = sequence.lease
        kept = data.draw(st.integers(0, lease.capacity))
        self.cache.shrink(lease, kept)
        assert lease.capacity == max(kept, lease.committed)
        sequence.computed = min(sequence.computed, lease.capacity)

    @precondition(lambda self: self.allocator.free_slots < 4)
    @rule(n_tokens=st.integers(0, 6))
    def evict(self, n_tokens: int) -> None:
        assert self.cache.evict(n_tokens) == self.oracle.evict(n_tokens, self.protected())

    @precondition(lambda self: self.cache.available < self.cache.n_slots // 2)
    @rule(namespace=st.none() | namespaces)
    def clear(self, namespace: bytes | None) -> None:
        before = self.oracle.total()
        protected = self.protected()
        for name, known in self.oracle.known.items():
            if namespace in (None, name):
                self.oracle.known[name] = {
                    prefix: used for prefix, used in known.items() if (name, prefix) in protected
                }
        assert self.cache.clear(namespace) == before - self.oracle.total()

    @rule(namespace=namespaces, prompt=prompts)
    def peek(self, namespace: bytes, prompt: Prefix) -> None:
        n_nodes = sum(len(list(root.subtree())) for root in self.tree.roots())
        expected = self.oracle.longest(namespace, prompt)
        assert self.cache.peek(namespace, pack(prompt)) == expected
        assert n_nodes == sum(len(list(root.subtree())) for root in self.tree.roots())

    # -- what holds after every step

    @invariant()
    def integrity_holds(self) -> None:
        self.cache.check_integrity([sequence.lease for sequence in self.running])

    @invariant()
    def counts_are_those_of_the_oracle(self) -> None:
        assert self.tree.total_tokens == self.oracle.total()
        assert self.tree.protected_tokens == len(self.protected())
        private = sum(s.lease.capacity - s.lease.committed for s in self.running)
        assert self.allocator.free_slots == self.cache.n_slots - self.oracle.total() - private
        assert self.cache.free_slots == self.allocator.free_slots
        assert self.cache.evictable_slots == self.oracle.total() - len(self.protected())
        assert self.cache.available == self.cache.free_slots + self.cache.evictable_slots

    @invariant()
    def every_sequence_reads_its_own_prefix(self) -> None:
        for sequence in self.running:
            for position, slot in enumerate(sequence.slots()[: sequence.computed]):
                prefix = (sequence.lease.namespace, sequence.tokens[: position + 1])
                assert self.content[slot] == prefix, f"position {position} reads slot {slot}"

    @invariant()
    def every_node_of_the_tree_holds_its_own_prefix(self) -> None:
        spelled: dict[bytes, set[Prefix]] = {}
        for root in self.tree.roots():
            found = spelled.setdefault(root.namespace, set())
            for node in root.subtree():
                path = [(step.edge, step.extent) for step in node.path()]
                tokens = tuple(unpack(b"".join(edge for edge, _ in path)))
                slots = [slot for _, run in path for slot in range(run.start, run.end)]
                for end, slot in enumerate(slots, start=1):
                    assert self.content[slot] == (root.namespace, tokens[:end])
                    found.add(tokens[:end])
        known = {name: set(prefixes) for name, prefixes in self.oracle.known.items() if prefixes}
        assert {name: found for name, found in spelled.items() if found} == known

    def teardown(self) -> None:
        for sequence in self.running:
            self.cache.release(sequence.lease)
        self.cache.clear()
        assert list(self.allocator.free_runs()) == [Extent(0, self.cache.n_slots)], "slots leaked"
        assert list(self.tree.roots()) == []

    # -- one operation on both sides

    def begin(self, namespace: bytes, prompt: Prefix, *, max_match: int | None) -> Sequence:
        expected = self.oracle.use(namespace, prompt[:max_match])
        lease = self.cache.acquire(namespace, pack(prompt), max_match=max_match)
        assert (lease.cached, lease.committed, lease.capacity) == (expected,) * 3
        sequence = Sequence(lease, prompt)
        self.running.append(sequence)
        return sequence

    def step(self, sequence: Sequence, n_tokens: int, reserve: int, commit: float) -> None:
        """What a scheduler does for one sequence: compute a chunk, or preempt it."""
        end = min(len(sequence.tokens), sequence.computed + n_tokens)
        if not self.grow(sequence, end, reserve):
            self.running.remove(sequence)
            self.cache.release(sequence.lease)
            return
        self.compute(sequence, end)
        uncommitted = end - sequence.lease.committed
        self.commit(sequence, sequence.lease.committed + round(commit * uncommitted))

    def grow(self, sequence: Sequence, end: int, reserve: int) -> bool:
        lease = sequence.lease
        before, capacity = sequence.slots(), lease.capacity
        missing, free = end - capacity, self.allocator.free_slots
        if missing > free + self.oracle.total() - len(self.protected()):
            with pytest.raises(OutOfSlots):
                self.cache.grow(lease, end, reserve=reserve)
            assert (sequence.slots(), lease.capacity) == (before, capacity)
            return False
        if missing > free:
            self.oracle.evict(max(missing - free, self.eviction_step), self.protected())
        self.cache.grow(lease, end, reserve=reserve)
        slots = sequence.slots()
        assert slots[:capacity] == before
        assert len(slots) == lease.capacity
        assert max(end, capacity) <= lease.capacity <= max(end + reserve, capacity)
        # What a new slot held before must never be read: poison it.
        self.content.update(dict.fromkeys(slots[capacity:]))
        return True

    def compute(self, sequence: Sequence, end: int) -> None:
        """Write the KV of the next positions, the way a model step does."""
        runs = sequence.lease.extents_for(sequence.computed, end - sequence.computed)
        assert total(runs) == end - sequence.computed
        slots = [slot for run in runs for slot in range(run.start, run.end)]
        for position, slot in enumerate(slots, start=sequence.computed):
            prefix = (sequence.lease.namespace, sequence.tokens[: position + 1])
            self.content[slot] = prefix
        sequence.computed = end

    def commit(self, sequence: Sequence, end: int) -> None:
        lease = sequence.lease
        if end > lease.committed:
            self.oracle.add(lease.namespace, sequence.tokens[:end])
        capacity = lease.capacity
        self.cache.commit(lease, pack(sequence.tokens[:end]))
        assert (lease.committed, lease.capacity) == (end, capacity)

    def protected(self) -> set[tuple[bytes, Prefix]]:
        return {
            (sequence.lease.namespace, sequence.tokens[:end])
            for sequence in self.running
            for end in range(1, sequence.lease.committed + 1)
        }


TestCacheAgainstOracle = CacheAgainstOracle.TestCase
TestCacheAgainstOracle.settings = settings(
    max_examples=120,
    stateful_step_count=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
