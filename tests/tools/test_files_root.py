"""Nothing outside the root is read or named, whatever the path and whoever swaps files."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_tools._errors import Refused
from agentkit_tools._paths import NotFound, split
from agentkit_tools._root import Root

LIMIT = 1000

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../outside/secret.txt", "contains '..'"),
        ("notes/../../outside/secret.txt", "contains '..'"),
        ("notes/..", "contains '..'"),
        ("/etc/passwd", "is not relative"),
        ("//etc/passwd", "is not relative"),
        ("~/x", "there is no '~'"),
        ("C:\\x", "there is no 'C:"),
        ("c:/x", "there is no 'c:'"),
        ("a\0b", "NUL"),
        ("x" * 5000, "too long"),
        ("file_link", "is a link, and links are not followed"),
        ("folder_link/secret.txt", "'folder_link' is a link, and links are not followed"),
        ("inner_link/b.md", "'inner_link' is a link"),
        ("dangling", "is a link"),
        ("pipe", "is a pipe, socket or device"),
        ("socket", "is a pipe, socket or device"),
        ("notes", "is a folder; list it with list_files"),
        (".", "is a folder; list it with list_files"),
        ("", "is a folder; list it with list_files"),
        ("a.txt/x", "'a.txt' is not a folder"),
        ("a\udcff", "there is no"),
        ("\ud83d", "contains characters that no file name can have"),
        ("x" * 300, "File name too long"),
    ],
)
def test_paths_that_lead_nowhere_good_are_refused_with_the_reason(root, path, words):
    with pytest.raises(Refused) as caught:
        root.read(path, LIMIT)
    assert words in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("path", ["notes/b.md", "./notes/b.md", "notes//b.md", "notes/./b.md"])
def test_ordinary_paths_are_read(root, path):
    assert root.read(path, LIMIT).startswith(b"# Title")


def test_unicode_names_are_read(root):
    assert root.read("notes/grüße 🎈.txt", LIMIT).decode() == "Grüße aus Köln\n"


def test_a_missing_file_says_in_which_folder_it_was_looked_for(root):
    with pytest.raises(NotFound) as caught:
        root.read("notes/c.md", LIMIT)
    assert (caught.value.folder, caught.value.name) == ("notes", "c.md")
    with pytest.raises(NotFound) as caught:
        root.read("nothing/c.md", LIMIT)
    assert (caught.value.folder, caught.value.name) == (".", "nothing")


def test_the_size_limit_holds_also_for_files_that_grow_while_read(root, folder, monkeypatch):
    (folder / "big").write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(Refused, match="larger than 1000 bytes"):
        root.read("big", LIMIT)
    # The size at the check is small; what is read is large.
    (folder / "grows").write_bytes(b"x")
    stat = os.stat

    def stat_then_grow(name, **options):
        result = stat(name, **options)
        (folder / "grows").write_bytes(b"x" * 5000)
        return result

    monkeypatch.setattr(os, "stat", stat_then_grow)
    with pytest.raises(Refused, match="larger than 1000 bytes"):
        root.read("grows", LIMIT)


def test_devices_and_proc_are_not_opened(tmp_path):
    with Root("/dev") as devices:
        for name in ("zero", "null", "tty"):
            with pytest.raises(Refused, match=r"device|cannot be opened|there is no"):
                devices.read(name, LIMIT)
    if Path("/proc/self").exists():
        with Root("/proc") as proc:
            for path in (
                "self/root/etc/passwd",
                f"{os.getpid()}/root/etc/passwd",
                f"{os.getpid()}/cwd/x",
            ):
                with pytest.raises(Refused, match="is a link"):
                    proc.read(path, LIMIT)


def test_a_root_that_is_a_link_is_the_folder_that_it_names(folder, tmp_path):
    (tmp_path / "alias").symlink_to(folder)
    with Root(tmp_path / "alias") as opened:
        assert opened.read("a.txt", LIMIT).startswith(b"one")
    with pytest.raises(OSError, match="No such file"):
        Root(tmp_path / "absent")
    with pytest.raises(OSError, match="Not a directory"):
        Root(folder / "a.txt")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                *("..", ".", "", "notes", "deep", "file_link", "folder_link", "inner_link"),
                *("secret.txt", "outside", "root", "pipe", "a.txt", "~", "\\", "..\\..", "%2e%2e"),
                *("…", "\0"),
            ]
        ),
        max_size=6,
    ),
    st.sampled_from(["", "/", "./", "../"]),
)
def test_no_path_ever_shows_the_secret(root, parts, prefix):
    path = prefix + "/".join(parts)
    with contextlib.suppress(Refused):
        assert b"SECRET" not in root.read(path, LIMIT)
    with contextlib.suppress(Refused):
        assert all("secret" not in entry.name for entry in root.walk(path))


def test_split_gives_only_plain_components():
    assert split("./a//b/./c/") == ("a", "b", "c")
    assert split(".") == split("") == ()


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_swapping_a_file_or_folder_for_a_link_at_any_moment_gains_nothing(folder, secret, swapped):
    """Ours: a thread swaps an innocent entry and a link to the outside as fast as it can."""
    (folder / "race").mkdir()
    target = folder / "race" / "x"
    stop = threading.Event()

    def make(name: str) -> Path:
        made = folder / "race" / name
        if swapped == "file":
            made.write_text("innocent\n")
        else:
            made.mkdir()
            (made / "secret.txt").write_text("innocent\n")
        return made

    def swap() -> None:
        while not stop.is_set():
            link = folder / "race" / "link"
            link.symlink_to(secret if swapped == "file" else secret.parent)
            if swapped == "folder" and target.exists() and not target.is_symlink():
                target.rename(folder / "race" / "aside")
                link.rename(target)
                target.unlink()
                (folder / "race" / "aside").rename(target)
            else:
                link.replace(target)
                make("y").replace(target)

    make("x")
    swapper = threading.Thread(target=swap)
    path = "race/x" if swapped == "file" else "race/x/secret.txt"
    seen: set[str] = set()
    n_reads = 0
    deadline = time.monotonic() + 20
    with Root(folder) as root:
        swapper.start()
        try:
            # Until both states were met, so that the race was one.
            while n_reads < 500 or not {"innocent\n", "refused"} <= seen:
                assert time.monotonic() < deadline
                n_reads += 1
                try:
                    seen.add(root.read(path, LIMIT).decode())
                except Refused:
                    seen.add("refused")
        finally:
            stop.set()
            swapper.join(10)
    assert seen <= {"innocent\n", "refused", ""}


@pytest.mark.parametrize("path", ["victim", "victim/secret.txt"])
def test_a_link_that_takes_the_place_of_what_was_checked_is_not_followed(
    root, folder, secret, monkeypatch, path
):
    victim = folder / "victim"
    if path == "victim":
        victim.write_text("innocent")
    else:
        victim.mkdir()
    stat = os.stat

    def stat_then_swap(name, **options):
        result = stat(name, **options)
        if name == "victim" and not victim.is_symlink():
            victim.rename(folder / "aside")
            victim.symlink_to(secret if path == "victim" else secret.parent)
        return result

    monkeypatch.setattr(os, "stat", stat_then_swap)
    with pytest.raises(Refused, match="cannot be opened"):
        root.read(path, LIMIT)
    assert victim.is_symlink()


def test_a_pipe_that_takes_a_files_place_after_the_check_does_not_block(root, folder, monkeypatch):
    (folder / "victim").write_text("x")
    stat = os.stat

    def stat_then_swap(name, **options):
        result = stat(name, **options)
        if name == "victim":
            (folder / "victim").unlink()
            os.mkfifo(folder / "victim")
        return result

    monkeypatch.setattr(os, "stat", stat_then_swap)
    with pytest.raises(Refused, match="is no regular file"):
        root.read("victim", LIMIT)


def test_a_file_that_goes_after_the_check_is_not_found(root, folder, monkeypatch):
    stat = os.stat

    def stat_then_delete(name, **options):
        result = stat(name, **options)
        (folder / "a.txt").unlink(missing_ok=True)
        return result

    monkeypatch.setattr(os, "stat", stat_then_delete)
    with pytest.raises(NotFound):
        root.read("a.txt", LIMIT)


def test_the_walk_is_in_a_fixed_order_and_follows_no_link(root):
    assert [(entry.path, entry.kind) for entry in root.walk(".")] == [
        ("a.txt", "file"),
        ("binary.bin", "file"),
        ("dangling", "link"),
        ("empty.txt", "file"),
        ("file_link", "link"),
        ("folder_link", "link"),
        ("inner_link", "link"),
        ("notes", "folder"),
        ("notes/b.md", "file"),
        ("notes/deep", "folder"),
        ("notes/deep/c.md", "file"),
        ("notes/grüße 🎈.txt", "file"),
        ("pipe", "special"),
        ("socket", "special"),
    ]
    assert [entry.path for entry in root.walk("notes/b.md")] == ["notes/b.md"]


def test_a_very_deep_tree_is_walked_to_a_bound_and_leaks_no_descriptors(tmp_path):
    deep = tmp_path
    for _ in range(100):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with Root(tmp_path) as root:
        before = len(os.listdir("/proc/self/fd"))
        assert len(list(root.walk("."))) == 64
        for _ in range(50):
            with pytest.raises(Refused):
                root.read("d/d/x", LIMIT)
        assert len(os.listdir("/proc/self/fd")) == before
