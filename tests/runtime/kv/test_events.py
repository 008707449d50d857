from __future__ import annotations

import logging

import pytest

from agentkit_runtime.kv.blocks import BlockIndex
from agentkit_runtime.kv.cache import KvCache
from agentkit_runtime.kv.events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventLog,
    Gap,
    KvEvent,
)
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.prune import ByNamespace
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.slots import SlotAllocator
from agentkit_runtime.kv.tiers.base import Medium, chain, first_parent
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.kv.tree import RadixTree
from tests.runtime.kv.world import PUBLIC, World

PROMPT = list(range(200, 250))
NAMES = tuple(chain(first_parent(b"n"), pack(PROMPT)))


@pytest.fixture
def world() -> World:
    return World(300)


def events(world: World, since: int = 0) -> list[KvEvent]:
    kept = world.log.since(since)
    assert not isinstance(kept, Gap)
    return [event for _, event in kept]


def test_whole_blocks_are_reported_with_their_tokens_and_their_parent(world: World) -> None:
    world.whole(b"n", PROMPT)
    (stored,) = events(world)
    assert stored == BlockStored(
        block_hashes=NAMES,
        parent_block_hash=first_parent(b"n"),
        token_ids=pack(PROMPT[:48]),
        medium=Medium.DEVICE,
        format=KvFormat.FLOAT32,
        namespace=b"n",
        block_size=16,
    )


def test_chunks_chain_on_wherever_they_end(world: World) -> None:
    run = world.begin(b"n", PROMPT)
    for n_tokens in (10, 5, 2, 15, 18):
        world.compute(run, n_tokens)
        world.check()
    seen = [event for event in events(world) if isinstance(event, BlockStored)]
    assert [event.block_hashes for event in seen] == [(name,) for name in NAMES]
    parents = [event.parent_block_hash for event in seen]
    assert parents == [first_parent(b"n"), *NAMES[:2]]


def test_a_branch_is_chained_to_the_last_block_it_shares(world: World) -> None:
    world.whole(b"n", PROMPT)
    world.whole(b"n", [*PROMPT[:20], *range(30)])
    stored = events(world)[-1]
    assert isinstance(stored, BlockStored)
    assert stored.parent_block_hash == NAMES[0]
    assert stored.token_ids == pack([*PROMPT[16:20], *range(28)])


def test_a_block_is_removed_with_its_last_token(world: World) -> None:
    world.whole(b"n", PROMPT)
    seq = world.log.seq
    world.cache.evict(2)
    assert events(world, seq) == []
    world.cache.evict(1)
    removed = [event for event in events(world, seq) if isinstance(event, BlockRemoved)]
    assert removed == [BlockRemoved((NAMES[2],), Medium.DEVICE)]


def test_leaving_the_device_is_not_leaving_the_host(world: World) -> None:
    """R49."""
    world.whole(b"n", PROMPT)
    seq = world.log.seq
    world.cache.evict(300)
    seen = events(world, seq)
    assert BlockRemoved(NAMES, Medium.DEVICE) in seen
    assert {e.medium for e in seen if isinstance(e, BlockRemoved)} == {Medium.DEVICE}
    hosted = [e for e in seen if isinstance(e, BlockStored)]
    assert {e.medium for e in hosted} == {Medium.HOST}
    assert {name for e in hosted for name in e.block_hashes} == set(NAMES)
    world.cache.prune(ByNamespace(b"n"))
    assert events(world)[-1] == BlockRemoved((NAMES[2],), Medium.HOST)


def test_a_published_prefix_is_reported_once_and_under_the_public_root(world: World) -> None:
    world.publish(PROMPT[:40])
    seq = world.log.seq
    for tenant in (b"ann", b"bob"):
        world.whole(tenant, [*PROMPT, *PROMPT], Scope(public=PUBLIC))
    stored = [event for event in events(world, seq) if isinstance(event, BlockStored)]
    assert [event.namespace for event in stored] == [b"ann", b"bob"]
    # The block that the prefix ends in belongs to the tenant, and is named in its own chain.
    whole = chain(first_parent(b"ann"), pack([*PROMPT, *PROMPT]))
    assert stored[0].parent_block_hash == whole[1]
    assert stored[0].block_hashes == tuple(whole[2:])
    assert not set(stored[0].block_hashes) & set(stored[1].block_hashes)


def test_what_a_tenant_has_twice_is_removed_once(world: World) -> None:
    world.whole(b"ann", PROMPT)
    world.publish(PROMPT[:16])
    world.whole(b"ann", PROMPT, Scope(public=PUBLIC))
    names = chain(first_parent(b"ann"), pack(PROMPT))
    seq = world.log.seq
    world.cache.evict(50)
    removed = [e for e in events(world, seq) if isinstance(e, BlockRemoved)]
    assert removed == [BlockRemoved((names[0],), Medium.DEVICE)]
    world.check()


def test_an_empty_cache_is_reported_as_such(world: World) -> None:
    run = world.begin(b"n", PROMPT)
    world.compute(run, 50)
    world.cache.clear()
    assert AllBlocksCleared() not in events(world), "something is still in use"
    world.release(run)
    world.cache.clear()
    assert events(world)[-1] == AllBlocksCleared()


def test_numbers_have_no_holes_and_a_reader_can_go_on(world: World) -> None:
    for first in range(5):
        world.whole(b"n", [first, *PROMPT])
    kept = world.log.since(0)
    assert not isinstance(kept, Gap)
    assert [entry.seq for entry in kept] == [1, 2, 3, 4, 5]
    assert world.log.since(3) == kept[3:]
    assert world.log.since(5) == []


def test_a_reader_who_is_too_late_is_told_so() -> None:
    log = EventLog(max_events=3)
    for _ in range(10):
        log.emit(AllBlocksCleared())
    assert log.since(6) == Gap(8)
    kept = log.since(7)
    assert not isinstance(kept, Gap)
    assert [entry.seq for entry in kept] == [8, 9, 10]


def test_the_ring_is_bounded_in_bytes_too() -> None:
    log = EventLog(max_bytes=1_000)
    for _ in range(10):
        log.emit(BlockRemoved((b"x" * 32,) * 10, Medium.DEVICE))
    assert log.since(0) == Gap(8)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        EventLog(max_events=0)


def test_a_subscriber_that_fails_does_not_stop_the_cache(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def fails(seq: int, _: KvEvent) -> None:
        seen.append(seq)
        raise RuntimeError("no network")

    world.log.subscribe(fails)
    with caplog.at_level(logging.ERROR):
        world.whole(b"n", PROMPT)
        world.whole(b"n", PROMPT[::-1])
    assert seen == [1]
    assert "no network" in caplog.text
    world.check()


def test_who_unsubscribes_hears_no_more(world: World) -> None:
    seen: list[int] = []
    leave = world.log.subscribe(lambda seq, _: seen.append(seq))
    world.whole(b"n", PROMPT)
    leave()
    leave()
    world.whole(b"n", PROMPT[::-1])
    assert seen == [1]


def test_names_are_kept_only_when_somebody_wants_them() -> None:
    plain, watched = RadixTree(), RadixTree()
    watched.watch(BlockIndex())
    for tree in (plain, watched):
        tree.insert(b"n", pack(PROMPT), [Extent(0, 50)])
    assert plain.match(b"n", pack(PROMPT)).node.names == []
    assert tuple(watched.match(b"n", pack(PROMPT)).node.names) == NAMES


def test_listening_starts_with_an_empty_cache() -> None:
    cache = KvCache(SlotAllocator(32), RadixTree())
    lease = cache.acquire(b"n", b"")
    cache.grow(lease, 3)
    cache.commit(lease, pack([1, 2, 3]))
    with pytest.raises(ValueError, match="has 3 tokens already; watch it before its first use"):
        cache.record_events(EventLog())
