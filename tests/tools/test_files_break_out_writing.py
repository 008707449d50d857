"""No write, move or deletion reaches anything outside the root, whoever swaps files meanwhile."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_tools import _changes
from agentkit_tools._editing import FileChanges
from agentkit_tools._errors import Refused
from agentkit_tools._root import Root

pytestmark = pytest.mark.timeout(60)

OUTSIDE = [
    ("../outside/new.txt", "contains '..'"),
    ("notes/../../outside/new.txt", "contains '..'"),
    ("/etc/new.txt", "is not relative"),
    ("a\0b", "NUL"),
    ("x" * 5000, "too long"),
    ("x" * 300, "File name too long"),
    ("file_link", "is a link"),
    ("folder_link/new.txt", "is a link"),
    ("folder_link", "is a link"),
    ("inner_link/new.txt", "is a link"),
    ("dangling", "is a link"),
    ("dangling/x", "is a link"),
    ("loop/x", "is a link"),
    ("pipe", "is a special"),
    ("socket", "is a special"),
    ("notes", "is a folder"),
    ("", "is the root folder"),
    ("nowhere/x.txt", "there is no 'nowhere'"),
    ("a\\..\\b", "characters that a new name cannot have"),
    ("new\nline", "characters that a new name cannot have"),
    ("a\u202etxt.exe", "characters that a new name cannot have"),
    ("a\u200bb", "characters that a new name cannot have"),
    ("a\udcff", "characters that a new name cannot have"),
    ("\ud83d", "characters that no file name can have"),
    (".git/hooks/pre-commit", r"inside '\.git'"),
    (".GIT", r"inside '\.git'"),
    ("notes/.git", r"inside '\.git'"),
    (".g\u200cit/hooks/pre-commit", r"inside '\.git'"),
    (".\uff27it\ufe0f/config", r"inside '\.git'"),
    ("GIT~1/config", r"inside '\.git'"),
    (".git. ./config", r"inside '\.git'"),
    (".git::$INDEX_ALLOCATION/config", r"inside '\.git'"),
]


@pytest.fixture
def changes(root: Root, folder: Path) -> FileChanges:
    (folder / "loop").symlink_to("loop")
    return FileChanges(root)


def seen(folder: Path) -> list[tuple[str, int, int]]:
    """What is there, without the times at which somebody looked at it."""
    return sorted(
        (str(path), path.lstat().st_ino, path.lstat().st_mtime_ns) for path in folder.rglob("*")
    )


@pytest.mark.parametrize(("path", "words"), OUTSIDE)
def test_a_path_that_leads_nowhere_good_is_not_written(changes, folder, path, words):
    before = seen(folder.parent)
    for change in (
        lambda: changes.write_file(path, "x"),
        lambda: changes.move_file("a.txt", path),
        lambda: changes.move_file("a.txt", path, overwrite=True),
    ):
        with pytest.raises(Refused, match=words):
            change()
    assert seen(folder.parent) == before


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.sampled_from(
            [
                *("..", ".", "", "notes", "deep", "file_link", "folder_link", "secret.txt"),
                *("outside", "root", "pipe", "a.txt", "..\\..", "．．", "‥", "\0", "b.md"),
                *("A.TXT", "dangling"),
            ]
        ),
        max_size=5,
    ).map("/".join),
    st.sampled_from(["", "/", "../"]),
    st.sampled_from(["write", "overwrite", "edit", "make", "move", "move_to", "delete"]),
)
def test_no_path_ever_changes_anything_outside(changes, folder, secret, path, prefix, what):
    path = prefix + path
    before = seen(secret.parent)
    with contextlib.suppress(Refused):
        match what:
            case "write" | "overwrite":
                changes.write_file(path, "x", overwrite=what == "overwrite")
            case "edit":
                changes.edit_file(path, "SECRET", "x")
            case "make":
                changes.make_folder(path)
            case "move":
                changes.move_file(path, "notes/moved", overwrite=True)
            case "move_to":
                changes.write_file("moving", "x", overwrite=True)
                changes.move_file("moving", path, overwrite=True)
            case "delete":
                changes.delete_file(path, recursive=True)
    assert seen(secret.parent) == before
    assert secret.read_text() == "TOP SECRET\n"


def test_names_that_only_look_like_a_way_out_are_names(changes, folder):
    for name in ("．．", "‥", "...", "~", "C:", "%2e%2e", "ﬁle", "cafe\u0301", "café", "A.TXT"):
        changes.make_folder(f"odd/{name}")
        changes.write_file(f"odd/{name}/x.txt", name)
        assert (folder / "odd" / name / "x.txt").read_text() == name
    assert (folder / "a.txt").read_bytes() == b"one\ntwo\r\nthree\n"


def test_files_with_odd_names_are_changed_under_the_name_that_is_shown(changes, folder):
    raw = os.fsencode(folder) + b"/caf\xe9\n.txt"
    with open(raw, "w") as file:
        file.write("old")
    changes.edit_file("caf\\udce9\\n.txt", "old", "new")
    with open(raw) as file:
        assert file.read() == "new"
    changes.move_file("caf\\udce9\\n.txt", "plain.txt")
    assert (folder / "plain.txt").read_text() == "new"


def test_a_root_whose_place_is_taken_by_a_link_stays_the_folder_it_was(changes, folder, secret):
    folder.rename(folder.parent / "moved")
    folder.symlink_to(secret.parent)
    changes.write_file("secret.txt", "x")
    changes.edit_file("a.txt", "one", "1")
    with pytest.raises(Refused, match="is a link"):
        changes.write_file("folder_link/secret.txt", "x", overwrite=True)
    assert secret.read_text() == "TOP SECRET\n"
    assert (folder.parent / "moved" / "secret.txt").read_text() == "x"


def test_a_hard_link_that_leads_outside_is_not_written_through(changes, folder, secret):
    os.link(secret, folder / "inside.txt")
    changes.edit_file("inside.txt", "TOP", "NO")
    changes.write_file("inside.txt", "mine", overwrite=True)
    changes.delete_file("inside.txt")
    assert secret.read_text() == "TOP SECRET\n"


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_that_is_swapped_in_at_any_moment_is_not_written_through(folder, secret, swapped):
    """Ours: a thread swaps an innocent entry and a link to the outside as fast as it can."""
    (folder / "race").mkdir()
    target = folder / "race" / "x"
    aside, link = folder / "race" / "aside", folder / "race" / "link"
    if swapped == "file":
        target.write_text("innocent\n")
        path = "race/x"
    else:
        target.mkdir()
        path = "race/x/secret.txt"
    before = seen(secret.parent)
    stop = threading.Event()
    n_swaps = 0

    def swap() -> None:
        nonlocal n_swaps
        while not stop.is_set():
            with contextlib.suppress(FileNotFoundError):
                link.symlink_to(secret if swapped == "file" else secret.parent)
                target.rename(aside)
                link.rename(target)
                target.unlink()
                aside.rename(target)
            n_swaps += 1
            for path in (aside, link):
                with contextlib.suppress(OSError):
                    path.unlink()

    swapper = threading.Thread(target=swap)
    answers: set[str] = set()
    deadline = time.monotonic() + 40
    with Root(folder) as root:
        changes = FileChanges(root)
        swapper.start()
        try:
            n_tries = 0
            while n_tries < 100 or n_swaps <= 10 or not {"done", "refused"} <= answers:
                assert time.monotonic() < deadline, (answers, n_swaps)
                n_tries += 1
                for change in (
                    lambda: changes.write_file(path, "try\n", overwrite=True),
                    lambda: changes.edit_file(path, "try", "done"),
                    lambda: changes.delete_file(path),
                ):
                    try:
                        change()
                        answers.add("done")
                    except Refused:
                        answers.add("refused")
        finally:
            stop.set()
            swapper.join(10)
    assert seen(secret.parent) == before
    assert secret.read_text() == "TOP SECRET\n"


@pytest.mark.parametrize("victim", ["file", "folder"])
@pytest.mark.parametrize("what", ["write", "edit", "move_to", "delete"])
def test_a_link_in_the_place_of_what_was_checked_is_replaced_and_not_followed(
    changes, folder, secret, monkeypatch, victim, what
):
    """Ours: the swap happens right after the look, where a path-based server would lose."""
    place = folder / "victim"
    if victim == "file":
        place.write_text("TOP innocent")
        path, leads_to = "victim", secret
    else:
        place.mkdir()
        path, leads_to = "victim/secret.txt", secret.parent
    before = seen(secret.parent)
    stat = os.stat

    def stat_then_swap(name, **options):
        result = stat(name, **options)
        if name == "victim" and not place.is_symlink():
            place.rename(folder / "aside")
            place.symlink_to(leads_to)
        return result

    monkeypatch.setattr(os, "stat", stat_then_swap)
    with contextlib.suppress(Refused):
        match what:
            case "write":
                changes.write_file(path, "x", overwrite=True)
            case "edit":
                changes.edit_file(path, "TOP", "x")
            case "move_to":
                changes.move_file("a.txt", path, overwrite=True)
            case "delete":
                changes.delete_file(path)
    assert seen(secret.parent) == before
    assert secret.read_text() == "TOP SECRET\n"


def test_a_folder_that_becomes_a_link_is_not_emptied(changes, folder, secret, monkeypatch):
    (folder / "victim").mkdir()
    (folder / "victim" / "x").write_text("x")
    checked = _changes._check_deletable

    def check_then_swap(*arguments):
        checked(*arguments)
        (folder / "victim").rename(folder / "aside")
        (folder / "victim").symlink_to(secret.parent)

    monkeypatch.setattr(_changes, "_check_deletable", check_then_swap)
    with pytest.raises(Refused, match="cannot be changed: Cannot call rmtree on a symbolic link"):
        changes.delete_file("victim", recursive=True)
    assert secret.read_text() == "TOP SECRET\n"


def test_no_descriptor_is_left_open(changes, folder):
    before = len(os.listdir("/proc/self/fd"))
    for number in range(30):
        changes.write_file(f"notes/deep/{number}", "x")
        changes.edit_file(f"notes/deep/{number}", "x", "y")
        changes.move_file(f"notes/deep/{number}", f"{number}")
        with contextlib.suppress(Refused):
            changes.write_file("file_link/x", "x")
        with contextlib.suppress(Refused):
            changes.make_folder("a.txt/x")
    assert len(os.listdir("/proc/self/fd")) == before
