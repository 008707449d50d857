"""A file is written whole or not at all, and what a killed process leaves is removed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agentkit.whole_file import remove_unfinished, whole_file


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("is_private", [True, False])
def test_the_new_text_is_there_when_the_block_has_ended(tmp_path, is_private):
    target = tmp_path / "a.json"
    target.write_text("old")
    with whole_file(target, is_private=is_private) as unfinished:
        assert unfinished.exists() == is_private
        unfinished.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.json"]
    if is_private:
        assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_what_was_there(tmp_path, error):
    target = tmp_path / "a.json"
    target.write_text("old")

    def fail() -> None:
        with whole_file(target) as unfinished:
            unfinished.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.json"]


def test_what_cannot_be_put_in_its_place_leaves_nothing(tmp_path):
    target = tmp_path / "a.json"
    (target / "full").mkdir(parents=True)
    with pytest.raises(OSError), whole_file(target) as unfinished:
        unfinished.write_text("new")
    assert names(tmp_path) == ["a.json"]
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "none" / "a") as unfinished:
        unfinished.write_text("new")


def test_two_writers_do_not_meet_and_the_last_one_stays(tmp_path):
    target = tmp_path / "a.json"
    with whole_file(target) as first, whole_file(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("has_links", [True, False])
def test_of_two_writers_of_a_new_file_the_first_one_stays(tmp_path, monkeypatch, has_links):
    if not has_links:
        monkeypatch.setattr("agentkit.whole_file.os.link", no_links)
    target = tmp_path / "a.json"

    def write_second() -> None:
        with whole_file(target, is_new=True) as second:
            second.write_text("second")
            with whole_file(target, is_new=True) as first:
                first.write_text("first")

    with pytest.raises(FileExistsError):
        write_second()
    assert target.read_text() == "first"
    assert names(tmp_path) == ["a.json"]


def no_links(*_: object) -> None:
    raise PermissionError("a file system without links")


def left(path: Path, age_s: float) -> Path:
    path.write_text("half")
    then = path.stat().st_mtime - age_s
    os.utime(path, (then, then))
    return path


def test_what_was_left_for_this_file_long_ago_is_removed_and_nothing_else(tmp_path):
    left(tmp_path / ".a.json.new-0123456789ab", 7_200)
    left(tmp_path / ".a.json.new-0123456789ab-journal", 7_200)
    kept = [
        left(tmp_path / ".a.json.new-ba9876543210", 60),  # somebody may be at it
        left(tmp_path / ".b.json.new-0123456789ab", 7_200),
        left(tmp_path / "a.json.new-1", 7_200),
        left(tmp_path / ".a.json", 7_200),
    ]
    (tmp_path / ".a.json.new-folder").mkdir()
    os.utime(tmp_path / ".a.json.new-folder", (0, 0))
    with whole_file(tmp_path / "a.json") as unfinished:
        unfinished.write_text("new")
    expected = [each.name for each in kept]
    assert names(tmp_path) == sorted([*expected, "a.json", ".a.json.new-folder"])

    remove_unfinished(tmp_path)
    expected.remove(".b.json.new-0123456789ab")
    assert names(tmp_path) == sorted([*expected, "a.json", ".a.json.new-folder"])
