"""Host memory and disk together, as the cache sees them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Block, Medium, TierChange
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from tests.runtime.tiers.support import (
    BLOCK,
    Always,
    Pool,
    bench,
    content,
    disk_in,
    names_of,
    on_device,
)


def test_what_left_the_device_comes_back_from_host_memory() -> None:
    b = bench()
    names = b.save(b"ns", b"abc")
    assert b.restore(names) == names
    stats = b.tiers.stats()
    assert (stats.saved, stats.hits_host, stats.hits_disk) == (3, 3, 0)
    assert (stats.host_blocks, stats.host_bytes) == (3, 3 * BLOCK)
    assert stats.restored_tokens == 3 * BLOCK_TOKENS


def test_one_copy_for_all_blocks_of_a_call() -> None:
    b = bench()
    b.save(b"ns", b"abcdefgh")
    assert b.pool.exports == 1


def test_a_block_may_lie_in_several_places() -> None:
    b = bench()
    [whole] = on_device(b.pool, b"ns", b"a")
    b.pool.rows[200:210] = b.pool.rows[6:16]
    b.tiers.save([Block(b"ns", whole.name, (Extent(0, 6), Extent(200, 10)))])
    assert b.restore([whole.name]) == [whole.name]


def test_blocks_that_are_there_are_not_copied_again() -> None:
    b = bench()
    names = b.save(b"ns", b"abc")
    b.tiers.save(on_device(b.pool, b"ns", b"abcd"))
    assert b.tiers.stats().saved == 4
    assert b.tiers.held(names_of(b"ns", b"abcd")) == 4
    assert b.restore(names) == names


def test_the_end_of_a_sequence_leaves_host_memory_first() -> None:
    b = bench(host_blocks=4)
    old = b.save(b"ns", b"abc")
    b.save(b"ns", b"xy")
    assert b.tiers.held(old) == 2


def test_using_a_sequence_keeps_it_and_its_end_is_still_the_first_to_leave() -> None:
    b = bench(host_blocks=6)
    first, second = b.save(b"ns", b"abc"), b.save(b"ns", b"xyz")
    b.restore(first)
    b.save(b"ns", b"12")
    assert (b.tiers.held(first), b.tiers.held(second)) == (3, 1)


def test_more_blocks_than_host_memory_has_keep_the_sequence_s_beginning() -> None:
    b = bench(host_blocks=3)
    names = b.save(b"ns", b"abcdef")
    assert b.tiers.held(names) == 3
    assert b.tiers.stats().skipped_busy == 3


def test_host_memory_for_less_than_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match=r"127 bytes does not hold one block .* 128"):
        HostAndDiskTiers(Pool(), host_bytes=BLOCK - 1, worth=Always())


def test_what_host_memory_evicted_comes_back_from_disk(tmp_path: Path) -> None:
    b = bench(host_blocks=3, disk=disk_in(tmp_path))
    names = b.store(b"ns", b"abc")
    b.save(b"ns", b"xyz")
    assert b.restore(names) == names
    stats = b.tiers.stats()
    assert (stats.hits_host, stats.hits_disk, stats.written) == (0, 3, 3)
    b.tiers.close()


def test_a_sequence_may_be_half_in_host_memory_and_half_on_disk(tmp_path: Path) -> None:
    b = bench(host_blocks=5, disk=disk_in(tmp_path))
    names = b.store(b"ns", b"abcd")
    b.save(b"ns", b"xyz")  # two of the four leave
    assert b.restore(names) == names
    assert (b.tiers.stats().hits_host, b.tiers.stats().hits_disk) == (2, 2)
    b.tiers.close()


def test_blocks_survive_a_restart(tmp_path: Path) -> None:
    first = bench(disk=disk_in(tmp_path))
    names = first.save(b"ns", b"abc")
    first.tiers.close()  # writes what waits

    second = bench(disk=disk_in(tmp_path))
    assert second.restore(names) == names
    second.tiers.close()


def test_a_fetch_is_done_when_its_leading_blocks_are_known(tmp_path: Path) -> None:
    first = bench(disk=disk_in(tmp_path))
    names = first.save(b"ns", b"abc")
    first.tiers.close()

    b = bench(disk=disk_in(tmp_path))
    fetch = b.tiers.fetch(names)
    assert (fetch.done, fetch.n_blocks) == (False, 0)
    with pytest.raises(ValueError, match="0 blocks have arrived"):
        fetch.load([Extent(0, BLOCK_TOKENS)])
    b.readers.run()
    assert (fetch.done, fetch.n_blocks) == (True, 3)
    with pytest.raises(ValueError, match="slots for 17 tokens"):
        fetch.load([Extent(0, 17)])
    fetch.load([Extent(0, 2 * BLOCK_TOKENS)])
    assert torch.equal(b.pool.rows[:16], content(names[0]))
    fetch.close()
    fetch.close()
    b.tiers.close()


def test_a_block_that_cannot_be_read_ends_the_fetch_before_it(tmp_path: Path) -> None:
    first = bench(disk=disk_in(tmp_path))
    names = first.save(b"ns", b"abcd")
    first.tiers.close()

    b = bench(disk=disk_in(tmp_path))
    next(tmp_path.rglob(f"{names[1].hex()}.kv")).write_bytes(b"short")
    assert b.restore(names) == names[:1]
    assert b.tiers.held(names) == 1
    assert b.tiers.stats().hits_disk == 1  # nothing behind it is read in vain
    b.tiers.close()


def test_a_block_that_leaves_between_the_promise_and_the_fetch_ends_it() -> None:
    b = bench(host_blocks=4)
    names = b.save(b"ns", b"abc")
    assert b.tiers.held(names) == 3
    b.save(b"ns", b"wxy")
    fetch = b.tiers.fetch(names)
    assert (fetch.done, fetch.n_blocks) == (True, 1)
    fetch.close()


def test_blocks_of_an_open_fetch_do_not_leave() -> None:
    b = bench(host_blocks=3)
    names = b.save(b"ns", b"abc")
    fetch = b.tiers.fetch(names)
    b.save(b"ns", b"xyz")
    fetch.load([Extent(0, 3 * BLOCK_TOKENS)])
    assert torch.equal(b.pool.rows[32:48], content(names[2]))
    fetch.close()
    other = b.save(b"ns", b"xyz")
    assert b.restore(other) == other


def test_open_fetches_hold_at_most_as_much_memory_as_the_host_tier(tmp_path: Path) -> None:
    first = bench(disk=disk_in(tmp_path))
    names = first.save(b"ns", b"abcdef")
    first.tiers.close()
    b = bench(host_blocks=4, disk=disk_in(tmp_path))
    assert b.tiers.held(names) == 4
    fetch = b.tiers.fetch(names[:3])
    assert b.tiers.held(names) == 1
    fetch.close()
    assert b.tiers.held(names) == 4
    b.tiers.close()


def test_a_parent_that_could_not_be_copied_hides_its_children_and_nothing_else() -> None:
    """R8: the copy of the parent fails, those of its children do not."""
    b = bench()
    blocks = on_device(b.pool, b"ns", b"abc")
    b.tiers.save(blocks[1:])
    b.pool.fails = True
    b.tiers.save(blocks[:1])  # must not raise
    b.pool.fails = False
    names = [block.name for block in blocks]
    assert b.tiers.held(names) == 0
    assert b.tiers.stats().failures == 1
    b.tiers.save(blocks[:1])  # computed again, and evicted again
    assert b.restore(names) == names


def test_what_could_not_be_copied_is_not_written_either(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R8: a failed copy is not taken for a done one."""
    b = bench(disk=disk_in(tmp_path))
    b.pool.fails = True
    names = b.save(b"ns", b"ab")
    b.writer.run()
    assert b.tiers.held(names) == 0
    assert not list(tmp_path.rglob("*.kv"))
    assert len(caplog.records) == 1
    b.tiers.close()


def test_no_namespace_sees_another_s_blocks_through_host_memory_or_disk(tmp_path: Path) -> None:
    b = bench(host_blocks=3, disk=disk_in(tmp_path))
    mine = b.store(b"tenant-a", b"abc")
    theirs = names_of(b"tenant-b", b"abc")
    assert b.tiers.held(theirs) == 0
    b.save(b"tenant-a", b"xyz")
    assert b.tiers.held(theirs) == 0
    assert b.restore(theirs) == []
    assert b.restore(mine) == mine
    b.tiers.close()


def test_nothing_on_disk_lets_a_reader_test_a_guess_of_the_prompt(tmp_path: Path) -> None:
    """Names are hashes over the namespace's digest, so the digest itself must not be there."""
    b = bench(disk=disk_in(tmp_path))
    namespace = bytes(range(32))
    b.save(namespace, b"abc")
    b.tiers.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".kv" for path in files)
    assert not [path for path in tmp_path.rglob("*") if namespace.hex() in str(path)]
    assert not [path for path in files if namespace in path.read_bytes()]


@pytest.mark.parametrize("everything", [False, True])
def test_forgetting_a_namespace_reaches_host_memory_and_disk(
    tmp_path: Path, everything: bool
) -> None:
    b = bench(host_blocks=4, disk=disk_in(tmp_path))
    gone, kept = b.store(b"a", b"abc"), b.store(b"b", b"x")
    b.store(b"a", b"123")  # of "abc" nothing is left in host memory
    assert b.tiers.forget(None if everything else b"a") == (7 if everything else 6)
    assert b.tiers.held(gone) == 0
    assert b.tiers.held(kept) == (0 if everything else 1)
    b.tiers.close()
    again = bench(disk=disk_in(tmp_path))
    assert again.tiers.held(gone) == 0
    assert again.tiers.held(kept) == (0 if everything else 1)
    again.tiers.close()


def test_counts_outlive_what_they_count(tmp_path: Path) -> None:
    b = bench(disk=disk_in(tmp_path))
    b.store(b"ns", b"abc")
    b.tiers.forget()
    stats = b.tiers.stats()
    assert (stats.disk_blocks, stats.written, stats.written_bytes > 0) == (0, 3, True)
    b.tiers.close()


def test_a_late_write_does_not_bring_a_forgotten_namespace_back(tmp_path: Path) -> None:
    b = bench(disk=disk_in(tmp_path))
    names = b.save(b"a", b"abc")
    b.tiers.forget(b"a")
    b.writer.run()
    assert b.tiers.held(names) == 0
    assert not list(tmp_path.rglob("*.kv"))
    # And what is saved afterwards is not taken for what was cancelled.
    b.save(b"a", b"abc")
    b.writer.run()
    assert len(list(tmp_path.rglob("*.kv"))) == 3
    b.tiers.close()


def test_a_late_read_does_not_bring_a_forgotten_namespace_back(tmp_path: Path) -> None:
    first = bench(disk=disk_in(tmp_path))
    names = first.save(b"a", b"abc")
    first.tiers.close()
    b = bench(disk=disk_in(tmp_path))
    fetch = b.tiers.fetch(names)
    b.tiers.forget(b"a")
    assert (fetch.done, fetch.n_blocks) == (True, 0)
    b.readers.run()
    assert (fetch.done, fetch.n_blocks) == (True, 0)
    with pytest.raises(ValueError, match="0 blocks"):
        fetch.load([Extent(0, 16)])
    fetch.close()
    b.tiers.close()


def test_forgetting_ends_fetches_of_that_namespace_only() -> None:
    b = bench()
    mine, theirs = b.save(b"a", b"ab"), b.save(b"b", b"ab")
    first, second = b.tiers.fetch(mine), b.tiers.fetch(theirs)
    b.tiers.forget(b"a")
    assert (first.n_blocks, second.n_blocks) == (0, 2)
    first.close()
    second.close()


def test_a_full_queue_loses_the_write_and_counts_it(tmp_path: Path) -> None:
    b = bench(host_blocks=6, disk=disk_in(tmp_path))
    names = b.save(b"ns", b"abcdef")
    assert b.tiers.stats().skipped_busy == 3  # half of host memory may wait
    b.writer.run()
    b.tiers.save(on_device(b.pool, b"ns", b"abcdef"))  # evicted once more: a second chance
    b.writer.run()
    assert b.tiers.stats().written == 6
    assert b.tiers.held(names) == 6
    b.tiers.close()


def test_blocks_that_are_cheaper_to_compute_are_not_saved(tmp_path: Path) -> None:
    b = bench(disk=disk_in(tmp_path))
    b.worth.cheap = {Medium.DISK}
    names = b.save(b"ns", b"ab")
    b.worth.cheap = {Medium.HOST, Medium.DISK}
    b.save(b"ns", b"xy")
    b.writer.run()
    stats = b.tiers.stats()
    assert (stats.host_blocks, stats.disk_blocks, stats.skipped_cheap) == (2, 0, 4)
    assert b.restore(names) == names
    b.tiers.close()


def test_each_medium_tells_of_its_own_blocks(tmp_path: Path) -> None:
    """R49: a block that leaves one medium is still on the other."""
    b = bench(host_blocks=2, disk=disk_in(tmp_path))
    told: list[TierChange] = []
    b.tiers.listen(told.append)
    first = b.store(b"ns", b"ab")
    second = b.save(b"ns", b"xy")
    assert replay(told, Medium.HOST) == set(second)
    assert replay(told, Medium.DISK) == set(first)
    b.tiers.forget(b"ns")
    b.writer.run()
    assert replay(told, Medium.HOST) == replay(told, Medium.DISK) == set()
    b.tiers.close()


def replay(changes: list[TierChange], medium: Medium) -> set[bytes]:
    """What a router believes after these changes; nothing is stored or removed twice."""
    there: set[bytes] = set()
    for change in changes:
        if change.medium is medium:
            names = set(change.names)
            assert not (there & names if change.stored else names - there)
            there = there | names if change.stored else there - names
    return there


def test_a_listener_is_told_what_was_there_before_it_came(tmp_path: Path) -> None:
    first = bench(disk=disk_in(tmp_path))
    names = first.save(b"ns", b"ab")
    first.tiers.close()
    b = bench(disk=disk_in(tmp_path))
    told: list[TierChange] = []
    b.tiers.listen(told.append)
    assert replay(told, Medium.DISK) == set(names)
    b.tiers.close()


def test_a_listener_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    b = bench()
    b.tiers.listen(lambda change: 1 / 0)  # type: ignore[arg-type,return-value]
    names = b.save(b"ns", b"ab")
    assert b.restore(names) == names
    assert "ZeroDivisionError" in caplog.text


def test_lookups_are_counted_by_how_they_ended() -> None:
    b = bench()
    names = b.save(b"ns", b"ab")
    b.tiers.held(names_of(b"ns", b"z"))
    b.worth.fetching = lambda media, *, cached_tokens: 0  # type: ignore[method-assign]
    b.tiers.held(names)
    assert (b.tiers.stats().misses, b.tiers.stats().declined) == (1, 1)


def test_speeds_and_prefills_are_handed_on(tmp_path: Path) -> None:
    b = bench(host_blocks=2, disk=disk_in(tmp_path))
    names = b.store(b"ns", b"ab")
    b.save(b"ns", b"xy")
    b.restore(names)
    b.tiers.note_prefill(100, 0.5)
    assert b.worth.notes == [("disk", 2), ("load", 32), ("prefill", 100)]
    b.tiers.close()


def test_a_flush_waits_for_the_disk_and_says_how_much_may_follow(tmp_path: Path) -> None:
    b = bench(disk=disk_in(tmp_path))
    b.save(b"ns", b"abc")
    assert b.tiers.flush() == 50  # half of host memory
    assert len(list(tmp_path.rglob("*.kv"))) == 3
    b.tiers.close()
    assert b.tiers.flush() == bench().tiers.flush() == 0


def test_closed_tiers_hold_nothing_and_fail_nothing(tmp_path: Path) -> None:
    b = bench(disk=disk_in(tmp_path))
    names = b.save(b"ns", b"abc")
    fetch = b.tiers.fetch(names)
    b.tiers.close()
    b.tiers.close()
    assert (fetch.done, fetch.n_blocks) == (True, 0)
    fetch.close()
    b.save(b"ns", b"x")
    assert b.tiers.held(names) == 0
    late = b.tiers.fetch(names)
    assert (late.done, late.n_blocks) == (True, 0)
    late.close()
    b.tiers.forget(b"ns")


def test_without_memory_a_fetch_brings_nothing_and_keeps_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(host_blocks=2)
    names = b.save(b"ns", b"ab")
    empty = torch.empty
    calls = iter([True])

    def fails_once(*args: object, **kwargs: object) -> torch.Tensor:
        if next(calls, False):
            raise RuntimeError("not enough memory")
        return empty(*args, **kwargs)  # type: ignore[call-overload,no-any-return]

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(torch, "empty", fails_once)
        fetch = b.tiers.fetch(names)
    assert (fetch.done, fetch.n_blocks) == (True, 0)
    assert "no memory" in caplog.text
    fetch.close()
    other = b.save(b"ns", b"xy")  # both places are free again
    assert b.restore(other) == other
