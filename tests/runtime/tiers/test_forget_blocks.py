"""What is pruned is gone everywhere: host memory, disk, and all that is on its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentkit_runtime.kv.prune import ByPin, ByPrefix, BySession, ByTag, Selector
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Medium, TierChange
from agentkit_runtime.kv.tokens import pack
from tests.runtime.kv.world import World
from tests.runtime.tiers.support import bench, disk_in
from tests.runtime.tiers.test_tiered import replay

FRONT = list(range(2 * BLOCK_TOKENS))
MINE = [*FRONT, *range(100, 100 + 2 * BLOCK_TOKENS)]
OTHER = [*FRONT, *range(200, 200 + BLOCK_TOKENS)]


def test_blocks_leave_host_memory_and_disk_also_after_a_restart(tmp_path: Path) -> None:
    b = bench(host_blocks=4, disk=disk_in(tmp_path))
    names = b.store(b"a", b"abc")
    b.store(b"b", b"xyz")  # of "abc" two blocks are on disk only
    told: list[TierChange] = []
    b.tiers.listen(told.append)
    assert b.tiers.forget_blocks([*names[1:], b"unknown"]) == 2
    assert b.tiers.held(names) == 1
    assert replay(told, Medium.DISK) >= {names[0]}
    assert replay(told, Medium.DISK).isdisjoint(names[1:])
    assert {path.stem for path in tmp_path.rglob("*.kv")}.isdisjoint(n.hex() for n in names[1:])
    b.tiers.close()
    again = bench(disk=disk_in(tmp_path))
    assert again.tiers.held(names) == 1
    assert again.tiers.held(names[1:]) == 0
    again.tiers.close()


def test_a_late_write_does_not_bring_a_forgotten_block_back(tmp_path: Path) -> None:
    b = bench(disk=disk_in(tmp_path))
    names = b.save(b"a", b"abc")
    b.tiers.forget_blocks(names[:1])
    b.writer.run()
    assert {path.stem for path in tmp_path.rglob("*.kv")} == {name.hex() for name in names[1:]}
    b.save(b"a", b"abc")  # computed again: an ordinary block
    b.writer.run()
    assert b.tiers.held(names) == 3
    assert len(list(tmp_path.rglob("*.kv"))) == 3
    b.tiers.close()


def test_forgetting_blocks_ends_the_fetches_that_bring_one_of_them(tmp_path: Path) -> None:
    first = bench(disk=disk_in(tmp_path))
    names, others = first.store(b"a", b"ab"), first.store(b"a", b"xy")
    first.tiers.close()
    b = bench(disk=disk_in(tmp_path))
    fetch, other = b.tiers.fetch(names), b.tiers.fetch(others)
    b.tiers.forget_blocks(names[1:])
    b.readers.run()
    assert (fetch.done, fetch.n_blocks) == (True, 0)
    assert (other.done, other.n_blocks) == (True, 2)
    fetch.close()
    other.close()
    b.tiers.close()


def test_a_file_that_cannot_be_deleted_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(disk=disk_in(tmp_path))
    (name,) = b.store(b"a", b"a")

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError("read-only")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert b.tiers.forget_blocks([name]) == 1
    assert f"{name.hex()}.kv could not be deleted, do it: read-only" in caplog.text
    assert b.tiers.held([name]) == 0
    b.tiers.close()


@pytest.mark.parametrize("kind", ["prefix", "pin", "session", "tag"])
def test_pruning_drops_the_copies_of_what_it_prunes_and_of_nothing_else(kind: str) -> None:
    world = World(400)
    scope = Scope(tenant="ann", session="s", tags=frozenset({"draft"}))
    selectors: dict[str, Selector] = {
        "prefix": ByPrefix(b"n", pack(MINE)),
        "session": BySession("s", "ann"),
        "tag": ByTag("draft", "ann"),
    }
    for _ in range(2):  # computed, evicted, and computed again: now there are copies of all
        world.cache.evict(300)
        world.whole(b"n", MINE, scope)
        world.whole(b"n", OTHER)
    assert len(world.tiers.blocks) == 5
    if kind == "pin":
        handle = world.pin(b"n", MINE, scope, None)
        assert handle is not None
        selectors["pin"] = ByPin(handle)
    world.cache.prune(selectors[kind], dry_run=True)
    assert len(world.tiers.blocks) == 5
    world.cache.prune(selectors[kind])
    assert len(world.tiers.blocks) == 3
    assert world.cache.restorable(b"n", pack(MINE)) is None
    assert world.cache.peek(b"n", pack(OTHER)) == len(OTHER)
    world.cache.evict(300)
    other = world.cache.restorable(b"n", pack(OTHER))
    assert other is not None
    assert other.gained == len(OTHER)
    world.check()


def test_a_block_that_another_root_of_the_namespace_has_keeps_its_copy() -> None:
    """A tenant's own root and its part behind a published prefix name blocks alike."""
    world = World(400)
    tokens = [*FRONT, *range(100, 100 + BLOCK_TOKENS)]
    reader = Scope(tenant="ann", session="s", public=b"public")
    world.whole(b"n", tokens)
    world.cache.evict(300)
    world.whole(b"n", tokens)
    world.whole(b"public", FRONT)
    world.cache.publish(b"public", pack(FRONT))
    world.whole(b"n", tokens, reader)
    world.cache.prune(BySession("s", "ann"))
    assert len(world.tiers.blocks) == 3
    world.cache.prune(ByPrefix(b"n", pack(tokens)))
    assert len(world.tiers.blocks) == 0
    world.check()


def test_a_session_that_had_left_the_device_is_found_in_slower_tiers() -> None:
    world = World(400)
    mine, others = (Scope(tenant="ann", session=name) for name in "st")
    world.whole(b"n", MINE, mine)
    world.whole(b"n", OTHER, others)
    world.cache.evict(300)
    assert (len(world.tiers.blocks), world.tree.total_tokens) == (5, 0)
    world.cache.prune(BySession("s", "ann"))
    assert len(world.tiers.blocks) == 3
    assert world.cache.restorable(b"n", pack(OTHER)) is not None
    world.cache.prune(BySession("t", "ann"))
    assert len(world.tiers.blocks) == 2  # what both had in common: nobody's alone


def test_an_evicted_block_is_of_whoever_had_it_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentkit_runtime.kv.blocks.MAX_LEFT", 2)
    world = World(400)
    for name in "st":
        world.whole(b"n", FRONT, Scope(tenant="ann", session=name))
        world.cache.evict(300)
    world.cache.prune(BySession("s", "ann"))
    assert len(world.tiers.blocks) == 2
    world.whole(b"n", OTHER[2 * BLOCK_TOKENS :], Scope(tenant="ann", session="u"))
    world.cache.evict(300)  # of two blocks one is remembered
    world.cache.prune(BySession("t", "ann"))
    assert len(world.tiers.blocks) == 2
