"""Real threads, met at barriers instead of waited for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.tiered import HostAndDiskTiers
from tests.runtime.tiers.support import (
    BLOCK,
    Always,
    Pool,
    arrive,
    bench,
    content,
    disk_in,
    names_of,
    on_device,
)

LONG_S = 20.0
"""Nobody waits so long unless the test fails."""


def threaded(disk: DiskStore, pool: Pool, *, host_blocks: int = 200) -> HostAndDiskTiers:
    return HostAndDiskTiers(pool, host_bytes=host_blocks * BLOCK, worth=Always(), disk=disk)


def stored(folder: Path, prompt: bytes = b"abcdef") -> list[bytes]:
    """Leave a sequence on disk."""
    b = bench(disk=disk_in(folder))
    names = b.save(b"ns", prompt)
    b.tiers.close()
    return names


def test_threads_write_and_read_what_a_restart_finds(tmp_path: Path) -> None:
    pool = Pool()
    tiers = threaded(disk_in(tmp_path), pool)
    for space in (b"a", b"b"):
        tiers.save(on_device(pool, space, bytes(range(30))))
    tiers.close()

    tiers = threaded(disk_in(tmp_path), pool)
    for space in (b"a", b"b"):
        names = names_of(space, bytes(range(30)))
        fetch = tiers.fetch(names)
        arrive(tiers, fetch)
        fetch.load([Extent(0, 30 * BLOCK_TOKENS)])
        for index, name in enumerate(names):
            rows = pool.rows[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
            assert bool((rows == content(name)).all())
        fetch.close()
    tiers.close()


class HeldDisk:
    """Makes one method of a disk wait until the test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        original = getattr(DiskStore, method)

        def held(*args: object, **kwargs: object) -> object:
            self.entered.set()
            assert self.go_on.wait(LONG_S)
            return original(*args, **kwargs)

        monkeypatch.setattr(DiskStore, method, held)


def test_the_engine_s_thread_never_waits_for_a_slow_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = HeldDisk(monkeypatch, "_write_part")
    pool = Pool()
    tiers = threaded(disk_in(tmp_path), pool, host_blocks=8)
    tiers.save(on_device(pool, b"ns", b"ab"))
    assert slow.entered.wait(LONG_S)
    # The writer hangs in the disk; all of this must come back.
    tiers.save(on_device(pool, b"ns", b"cdefghijkl"))
    names = names_of(b"ns", b"ab")
    assert tiers.held(names) == 2
    fetch = tiers.fetch(names)
    assert fetch.done
    fetch.load([Extent(0, 32)])
    fetch.close()
    tiers.note_prefill(100, 1.0)
    assert tiers.forget(b"ns") == 8
    assert tiers.held(names) == 0
    slow.go_on.set()
    tiers.close()
    assert not list(tmp_path.rglob("*.kv"))


def test_a_namespace_forgotten_while_its_file_is_written_stays_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = HeldDisk(monkeypatch, "_write_part")
    pool = Pool()
    tiers = threaded(disk_in(tmp_path), pool)
    tiers.save(on_device(pool, b"ns", b"a"))
    assert slow.entered.wait(LONG_S)
    tiers.forget(b"ns")
    slow.go_on.set()
    tiers.close()
    assert not list(tmp_path.rglob("*.kv"))
    assert not list(tmp_path.rglob("*.part"))


def test_closing_while_a_read_is_under_way_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = stored(tmp_path)
    slow = HeldDisk(monkeypatch, "read")
    tiers = threaded(disk_in(tmp_path), Pool())
    fetch = tiers.fetch(names)
    assert slow.entered.wait(LONG_S)
    fetch.close()
    with ThreadPoolExecutor(1) as closer:
        closing = closer.submit(tiers.close)
        slow.go_on.set()
        closing.result(LONG_S)
    assert (fetch.done, fetch.n_blocks) == (True, 0)


def test_a_closed_fetch_stops_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = stored(tmp_path, bytes(range(50)))
    slow = HeldDisk(monkeypatch, "read")
    tiers = threaded(disk_in(tmp_path), Pool())
    fetch = tiers.fetch(names)
    assert slow.entered.wait(LONG_S)
    fetch.close()
    slow.go_on.set()
    tiers.close()
    assert tiers.stats().hits_disk <= 2  # one for each reader


def test_readers_and_the_writer_at_once_disturb_nobody(tmp_path: Path) -> None:
    """Saves, evictions and fetches of many sequences over a disk that holds few of them."""
    pool = Pool()
    tiers = threaded(disk_in(tmp_path, max_blocks=40), pool, host_blocks=12)
    for turn in range(60):
        prompt = bytes([turn % 7]) + bytes(range(1, 6))
        names = names_of(b"ns", prompt)
        fetch = tiers.fetch(names[: tiers.held(names)])
        arrive(tiers, fetch)
        n = fetch.n_blocks
        fetch.load([Extent(0, n * BLOCK_TOKENS)] if n else [])
        for index, name in enumerate(names[:n]):
            rows = pool.rows[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
            assert bool((rows == content(name)).all())
        fetch.close()
        tiers.save(on_device(pool, b"ns", prompt, first_slot=500))
    tiers.close()
    stats = tiers.stats()
    assert stats.restored_tokens > 0
    assert stats.failures == 0


def test_what_is_saved_while_the_interpreter_ends_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors take no work any more when `atexit` closes the engine of a program's own."""
    pool = Pool()
    tiers = threaded(disk_in(tmp_path), pool)
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    assert tiers.flush() > 0
    tiers.save(on_device(pool, b"ns", b"abc"))
    assert tiers.flush() > 0
    tiers.close()
    monkeypatch.undo()
    again = bench(disk=disk_in(tmp_path))
    assert again.restore(names_of(b"ns", b"abc")) == names_of(b"ns", b"abc")
    again.tiers.close()
