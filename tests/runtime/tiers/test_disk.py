"""Files that are damaged, missing, somebody else's, or cannot be written."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentkit_runtime.kv.tiers import disk as disk_module
from agentkit_runtime.kv.tiers.disk import DiskStore
from agentkit_runtime.kv.tiers.disk_file import HEADER_BYTES, BlockShape, namespace_tag
from agentkit_runtime.kv.tiers.disk_open import open_disk
from tests.runtime.tiers.support import BLOCK, SHAPE, disk_in

TAG = namespace_tag(b"ns")


def name(i: int) -> bytes:
    return bytes([i]) * 32


def rows(i: int) -> bytes:
    return bytes((i + j) % 256 for j in range(BLOCK))


def write(disk: DiskStore, i: int, *, used_s: float = 1.0, tag: bytes = TAG) -> bool:
    return disk.write(name(i), tag, memoryview(rows(i)), used_s=used_s, wanted=lambda: True)


def read(disk: DiskStore, i: int) -> bytes | None:
    into = bytearray(BLOCK)
    return bytes(into) if disk.read(name(i), memoryview(into)) else None


def file_of(folder: Path, i: int) -> Path:
    return next(folder.rglob(f"{name(i).hex()}.kv"))


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_a_block_is_read_as_it_was_written(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    assert write(disk, 1)
    assert read(disk, 1) == rows(1)
    assert read(disk, 2) is None
    assert disk.failures == 0
    disk.close()


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        disk = disk_in(tmp_path / "kv")
        write(disk, 1)
        disk.close()
    finally:
        os.umask(old)
    for path in (tmp_path / "kv").rglob("*"):
        if path.name != ".lock":
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("byte", range(HEADER_BYTES))
def test_a_flipped_bit_anywhere_in_the_header_is_found(tmp_path: Path, byte: int) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    flip(file_of(tmp_path, 1), byte * 8 + byte % 8)
    assert read(disk, 1) is None
    assert (len(disk), disk.failures) == (0, 1)
    assert not list(tmp_path.rglob("*.kv"))  # it is of no use to anybody
    disk.close()


@pytest.mark.parametrize("bit", range(0, BLOCK * 8, 97))
def test_a_flipped_bit_anywhere_in_the_rows_is_found(tmp_path: Path, bit: int) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    flip(file_of(tmp_path, 1), HEADER_BYTES * 8 + bit)
    assert read(disk, 1) is None
    disk.close()


@pytest.mark.parametrize("length", [0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + BLOCK - 1])
def test_a_file_that_was_cut_is_found(tmp_path: Path, length: int) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    os.truncate(file_of(tmp_path, 1), length)
    assert read(disk, 1) is None
    disk.close()


def test_a_file_with_something_behind_it_is_found(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    with file_of(tmp_path, 1).open("ab") as file:
        file.write(b"x")
    assert read(disk, 1) is None
    disk.close()


def test_a_file_under_the_name_of_another_block_is_found(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    write(disk, 2)
    shutil.copy(file_of(tmp_path, 1), file_of(tmp_path, 2))
    assert (read(disk, 2), read(disk, 1)) == (None, rows(1))
    disk.close()


def test_a_file_of_another_namespace_under_the_same_name_is_found(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    other = tmp_path / "other"
    theirs = disk_in(other)
    write(theirs, 1, tag=namespace_tag(b"other"))
    shutil.copy(file_of(other, 1), file_of(tmp_path, 1))
    assert read(disk, 1) is None
    disk.close()
    theirs.close()


def test_a_restart_finds_whole_files_and_deletes_the_rest(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    for i in range(3):
        write(disk, i)
    disk.close()
    os.truncate(file_of(tmp_path, 1), 40)
    (disk.root / "7.part").write_bytes(b"half")
    again = disk_in(tmp_path)
    assert set(again.names()) == {name(0), name(2)}
    assert read(again, 2) == rows(2)
    assert not list(tmp_path.rglob("*.part"))
    assert len(list(tmp_path.rglob("*.kv"))) == 2
    again.close()


@pytest.mark.parametrize(
    "shape",
    [
        replace(SHAPE, identity=b"j" * 32),
        replace(SHAPE, kv_format="int8"),
        replace(SHAPE, bytes_per_token=2 * SHAPE.bytes_per_token),
    ],
    ids=["identity", "format", "size"],
)
def test_another_model_reads_none_of_it(tmp_path: Path, shape: Any) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    disk.close()
    other = disk_in(tmp_path, shape=shape)
    into = bytearray(shape.n_bytes)
    assert not other.read(name(1), memoryview(into))
    other.close()


def test_files_of_another_model_stay_until_the_room_is_needed(tmp_path: Path) -> None:
    disk = disk_in(tmp_path, max_blocks=3)
    write(disk, 1, used_s=10.0)
    disk.close()
    other = disk_in(tmp_path, max_blocks=3, shape=replace(SHAPE, identity=b"j" * 32))
    write(other, 2, used_s=5.0)
    write(other, 3, used_s=20.0)
    assert len(list(tmp_path.rglob("*.kv"))) == 3
    write(other, 4, used_s=30.0)
    assert set(other.names()) == {name(3), name(4)}  # 2 was the oldest
    write(other, 5, used_s=40.0)
    assert set(other.names()) == {name(3), name(4), name(5)}
    assert not list(tmp_path.rglob(f"{name(1).hex()}.kv"))
    other.close()


def test_what_was_not_used_for_longest_leaves_first_also_after_a_restart(tmp_path: Path) -> None:
    disk = disk_in(tmp_path, max_blocks=3)
    for i in range(3):
        write(disk, i, used_s=float(i))
    assert read(disk, 0) == rows(0)
    write(disk, 3, used_s=3.0)
    assert set(disk.names()) == {name(0), name(2), name(3)}
    disk.close()
    disk = disk_in(tmp_path, max_blocks=3)
    write(disk, 4, used_s=4.0)
    assert set(disk.names()) == {name(0), name(3), name(4)}
    disk.touch(name(3), 1e12)
    write(disk, 5, used_s=5.0)
    assert set(disk.names()) == {name(0), name(3), name(5)}
    disk.close()


def test_the_bound_holds_for_all_files(tmp_path: Path) -> None:
    disk = disk_in(tmp_path, max_blocks=5)
    for i in range(20):
        write(disk, i, used_s=float(i))
        used = sum(path.stat().st_size for path in tmp_path.rglob("*.kv"))
        assert used == disk.n_bytes <= 5 * (BLOCK + 150)
    assert len(disk) == 5
    disk.close()


def test_a_bound_under_one_block_writes_nothing(tmp_path: Path) -> None:
    disk = open_disk(tmp_path, SHAPE, max_bytes=BLOCK)
    assert disk is not None
    assert not write(disk, 1)
    assert not list(tmp_path.rglob("*.kv"))
    disk.close()


def test_touching_for_ever_needs_no_more_memory() -> None:
    from agentkit_runtime.kv.tiers.disk_index import DiskEntry, DiskIndex

    index = DiskIndex()
    for i in range(4):
        index.add(DiskEntry(Path(f"{i}"), 1, 0.0, TAG, name(i)))
    for tick in range(20_000):
        index.touch(name(tick % 3), 1.0 + tick)
    assert len(index._oldest) < 2_000
    oldest = [index.pop_oldest() for _ in range(4)]
    assert [entry.name for entry in oldest if entry] == [name(3), name(2), name(0), name(1)]
    assert index.pop_oldest() is None


def no_space(*args: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["_write_part", "_rename"])
def test_a_full_disk_is_said_once_and_tried_again_later(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
) -> None:
    disk = disk_in(tmp_path)
    now = [1_000.0]
    disk._now = lambda: now[0]
    write(disk, 0)
    with monkeypatch.context() as patch:
        patch.setattr(DiskStore, step, no_space)
        assert not write(disk, 1)
        assert not write(disk, 2)
        now[0] += disk_module.PAUSE_S
        assert not write(disk, 3)
    assert disk.failures == 2  # the second was not even tried
    assert caplog.text.count("No space left") == 1
    assert not write(disk, 4)
    now[0] += disk_module.PAUSE_S
    assert write(disk, 5)
    assert set(disk.names()) == {name(0), name(5)}
    assert not list(tmp_path.rglob("*.part"))
    disk.close()


def test_a_write_that_stops_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_in(tmp_path)
    whole = DiskStore._write_part

    def half(self: DiskStore, part: Path, header: bytes, data: memoryview, used_s: float) -> None:
        whole(self, part, header, data[: BLOCK // 2], used_s)
        no_space()

    monkeypatch.setattr(DiskStore, "_write_part", half)
    assert not write(disk, 1)
    assert not [path for path in disk.root.iterdir() if path.name != ".lock"]
    disk.close()


def test_a_folder_that_vanishes_is_not_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_in(tmp_path / "kv")
    write(disk, 1)
    write(disk, 2)
    shutil.rmtree(tmp_path / "kv")
    assert read(disk, 1) is None
    assert not write(disk, 3)
    disk.forget(TAG)
    disk.sweep()
    assert len(disk) == 0
    assert not (tmp_path / "kv").exists()
    assert len(caplog.records) == 2
    disk.close()


def unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()  # also for root, who may read everything


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [unreadable, gone])
def test_a_file_that_cannot_be_read_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    disk = disk_in(tmp_path)
    for i in range(3):
        write(disk, i)
        harm(file_of(tmp_path, i))
    assert [read(disk, i) for i in range(3)] == [None] * 3
    assert (len(disk), disk.failures, len(caplog.records)) == (0, 3, 1)
    disk.close()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_folder_that_cannot_be_had_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    path = tmp_path / "kv"
    if kind == "file":
        path.write_text("no folder")
    else:
        path.symlink_to(tmp_path / "nowhere")
    assert open_disk(path, SHAPE, max_bytes=10_000) is None
    assert "running without disk" in caplog.text


def test_a_folder_that_cannot_be_listed_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refused)
        assert open_disk(tmp_path, SHAPE, max_bytes=10_000) is None
    assert "Permission denied" in caplog.text
    disk_in(tmp_path).close()  # the lock was let go


def test_only_one_engine_uses_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    assert open_disk(tmp_path, SHAPE, max_bytes=10_000) is None
    assert "in use by another engine" in caplog.text
    assert read(disk, 1) == rows(1)
    disk.close()
    disk_in(tmp_path).close()


def test_another_process_is_kept_out_and_a_dead_one_keeps_nobody_out(tmp_path: Path) -> None:
    code = (
        "import sys, os; from pathlib import Path\n"
        "from agentkit_runtime.kv.tiers.disk_file import BlockShape\n"
        "from agentkit_runtime.kv.tiers.disk_open import open_disk\n"
        "shape = BlockShape(identity=b'i' * 32, kv_format='float32', bytes_per_token=8)\n"
        "disk = open_disk(Path(sys.argv[1]), shape, max_bytes=10_000)\n"
        "print(disk is not None, flush=True)\n"
        "os._exit(0)\n"
    )

    def elsewhere() -> str:
        paths = os.pathsep.join(sys.path)
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    disk = disk_in(tmp_path)
    assert elsewhere() == "False"
    disk.close()
    assert elsewhere() == "True"
    disk_in(tmp_path).close()


def test_what_a_killed_process_was_writing_is_whole_or_not_there(tmp_path: Path) -> None:
    code = (
        "import itertools, sys; from pathlib import Path\n"
        "from agentkit_runtime.kv.tiers.disk_file import BlockShape\n"
        "from agentkit_runtime.kv.tiers.disk_open import open_disk\n"
        "shape = BlockShape(identity=b'i' * 32, kv_format='float32', bytes_per_token=1 << 16)\n"
        "disk = open_disk(Path(sys.argv[1]), shape, max_bytes=8 * (shape.n_bytes + 1000))\n"
        "for i in itertools.count():\n"
        "    rows = memoryview(bytes([i % 251]) * shape.n_bytes)\n"
        "    disk.write(bytes([i % 251]) * 32, b't' * 32, rows, used_s=i, wanted=lambda: True)\n"
        "    print(i, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    for _ in range(12):
        child.stdout.readline()
    child.kill()
    child.communicate()

    shape = BlockShape(identity=b"i" * 32, kv_format="float32", bytes_per_token=1 << 16)
    disk = open_disk(tmp_path, shape, max_bytes=100 * shape.n_bytes)
    assert disk is not None, "a dead process keeps nobody out"
    assert 6 <= len(disk) <= 8, "the bound held, and what was there before is still there"
    assert not list(tmp_path.rglob("*.part"))
    into = bytearray(shape.n_bytes)
    for block in disk.names():
        assert disk.read(block, memoryview(into))
        assert bytes(into) == block[:1] * shape.n_bytes
    disk.close()


def test_what_is_forgotten_is_out_of_reach_at_once_and_deleted_by_the_sweep(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    other = namespace_tag(b"other")
    write(disk, 1)
    write(disk, 2, tag=other)
    assert disk.forget(TAG) == [name(1)]
    assert (read(disk, 1), read(disk, 2)) == (None, rows(2))
    assert len(list(disk.root.glob("*/*/*.kv"))) == 1
    assert len(list(disk.root.glob("gone-*"))) == 1
    disk.sweep()
    assert not list(disk.root.glob("gone-*"))
    assert write(disk, 1)  # and may come again
    assert set(disk.forget(None)) == {name(1), name(2)}
    disk.close()


def test_a_crash_before_the_sweep_does_not_bring_it_back(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)
    disk.forget(TAG)
    disk.close()
    again = disk_in(tmp_path)
    assert len(again) == 0
    again.sweep()
    assert not list(again.root.glob("gone-*"))
    again.close()


def test_what_is_not_wanted_any_more_is_not_published(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    assert not disk.write(name(1), TAG, memoryview(rows(1)), used_s=1.0, wanted=lambda: False)
    assert (len(disk), disk.failures) == (0, 0)
    assert not [path for path in disk.root.iterdir() if path.name != ".lock"]
    disk.close()


def test_a_folder_that_cannot_be_forgotten_is_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = disk_in(tmp_path)
    write(disk, 1)

    def refused(*args: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refused)
        disk.forget(TAG)
    assert caplog.records[-1].levelno == logging.ERROR
    assert "delete them" in caplog.text
    assert read(disk, 1) is None
    disk.close()


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    disk = disk_in(tmp_path, max_blocks=1)
    write(disk, 1)
    notes = [disk.root / "notes.txt", file_of(tmp_path, 1).with_name("notes.kv")]
    for path in notes:
        path.write_text("mine")
    disk.close()
    again = disk_in(tmp_path, max_blocks=1)
    write(again, 2)
    assert set(again.names()) == {name(2)}
    assert all(path.read_text() == "mine" for path in notes)
    again.close()
