"""The namespace key beside the disk tier."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agentkit_runtime.kv.tiers.keys import (
    KEY_BYTES,
    key_file,
    load_or_create_key,
    load_or_create_key_file,
    replace_key,
)


def test_a_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    key = load_or_create_key(tmp_path / "kv")
    assert len(key) == KEY_BYTES
    assert load_or_create_key(tmp_path / "kv") == key
    [path] = (tmp_path / "kv").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_each_folder_has_its_own_key(tmp_path: Path) -> None:
    assert load_or_create_key(tmp_path / "a") != load_or_create_key(tmp_path / "b")


def test_a_key_that_others_could_read_is_closed(tmp_path: Path) -> None:
    load_or_create_key(tmp_path)
    path = tmp_path / "namespace.key"
    path.chmod(0o644)
    load_or_create_key(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_file_that_is_no_key_is_refused_with_what_to_do(tmp_path: Path, length: int) -> None:
    (tmp_path / "namespace.key").write_bytes(b"k" * length)
    with pytest.raises(ValueError, match=f"has {length}: delete it"):
        load_or_create_key(tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        load_or_create_key(tmp_path / "file")


def test_all_who_start_at_once_get_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 4
    barrier = threading.Barrier(n)
    link = os.link

    def all_at_once(source: Path, target: Path) -> None:
        barrier.wait(timeout=10)
        link(source, target)

    monkeypatch.setattr(os, "link", all_at_once)
    keys: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: keys.append(load_or_create_key(tmp_path))) for _ in range(n)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == n
    assert len(set(keys)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["namespace.key"]


def test_a_new_key_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    load_or_create_key(tmp_path)
    replace_key(key_file(tmp_path), b"k" * KEY_BYTES)
    assert load_or_create_key(tmp_path) == b"k" * KEY_BYTES
    assert [path.name for path in tmp_path.iterdir()] == ["namespace.key"]


def test_a_key_of_another_length_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    key = load_or_create_key(tmp_path)
    with pytest.raises(ValueError, match="must have 32 bytes, got 5"):
        replace_key(key_file(tmp_path), b"short")
    assert load_or_create_key(tmp_path) == key


def test_a_folder_that_cannot_be_made_says_which_setting_is_wrong() -> None:
    with pytest.raises(OSError, match=r"disk_cache cannot be used .*: '/proc/x'"):
        load_or_create_key(Path("/proc/x"))


def test_a_key_can_be_kept_in_a_file_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "tenants.key"
    key = load_or_create_key_file(path)

    assert load_or_create_key_file(path) == key
    assert [file.name for file in path.parent.iterdir()] == ["tenants.key"]
    assert path.stat().st_mode & 0o777 == 0o600
