"""Folders of programs: nothing is left of them, however they are nested, and whoever was killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentkit_tools._scratch import remove, scratch_folder

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_a_folder_is_removed_with_all_in_it_and_links_are_not_followed(temporary, secret):
    with scratch_folder() as (path, _):
        folder = Path(path)
        (folder / "work" / "inner").mkdir(parents=True)
        (folder / "work" / "inner" / "a.txt").write_text("x")
        (folder / "work" / "outside").symlink_to(secret.parent)
        (folder / "work" / "inner" / "file").symlink_to(secret)
        os.mkfifo(folder / "pipe")
        (folder / "work" / "inner").chmod(0)
        (folder / "work").chmod(0)
    assert list(temporary.iterdir()) == []
    assert secret.read_text() == "TOP SECRET\n"


def test_folders_that_are_nested_too_deeply_to_be_named_are_removed(temporary):
    folder = temporary / "deep"
    folder.mkdir()
    held = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=held)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=held)
        os.close(held)
        held = inner
    os.close(held)
    remove(str(folder))
    assert list(temporary.iterdir()) == []


def test_what_a_killed_supervisor_left_is_removed_by_the_next_and_what_is_in_use_stays(temporary):
    forgotten = temporary / "agentkit-python-forgotten"
    (forgotten / "work").mkdir(parents=True)
    (temporary / "python-of-somebody").mkdir()
    (temporary / "agentkit-python-link").symlink_to(temporary / "python-of-somebody")
    with scratch_folder() as (first, _), scratch_folder() as (second, _):
        assert not forgotten.exists()
        assert Path(first).is_dir()
        assert Path(second).is_dir()
    assert sorted(path.name for path in temporary.iterdir()) == [
        "agentkit-python-link",
        "python-of-somebody",
    ]
