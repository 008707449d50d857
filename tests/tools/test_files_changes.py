"""What the writing tools of the files server do, and what they refuse."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_tools import _changes, _replace
from agentkit_tools._editing import FileChanges
from agentkit_tools._errors import Refused
from agentkit_tools._replace import replaced
from agentkit_tools._root import Root
from agentkit_tools._text import decode_exactly, encode_exactly, version_of
from tests.tools.started import TOOLS_FOLDER

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def changes(root: Root) -> FileChanges:
    return FileChanges(root)


def left_over(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.endswith(".agentkit-part")]


def test_a_new_file_is_written_whole(changes, folder):
    answer = changes.write_file("notes/new.md", "Grüße\r\nEnde")
    assert (folder / "notes/new.md").read_bytes() == "Grüße\r\nEnde".encode()
    assert answer == "wrote notes/new.md: 2 lines, 13 bytes, version " + version_of(
        "Grüße\r\nEnde".encode()
    )
    assert left_over(folder) == []


def test_a_file_that_is_there_is_only_overwritten_when_told(changes, folder):
    with pytest.raises(Refused, match="is there already; set overwrite to replace it"):
        changes.write_file("a.txt", "new")
    assert (folder / "a.txt").read_bytes() == b"one\ntwo\r\nthree\n"
    changes.write_file("a.txt", "new", overwrite=True)
    assert (folder / "a.txt").read_text() == "new"
    changes.write_file("fresh.txt", "x", overwrite=True)
    assert (folder / "fresh.txt").read_text() == "x"


def test_permissions_are_kept_but_never_the_right_to_run_as_its_owner(changes, folder):
    (folder / "a.txt").chmod(0o4751)
    changes.write_file("a.txt", "new", overwrite=True)
    assert stat.S_IMODE((folder / "a.txt").stat().st_mode) == 0o751
    umask = os.umask(0o027)
    try:
        changes.write_file("b.txt", "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((folder / "b.txt").stat().st_mode) == 0o640


def test_a_version_that_is_no_longer_true_stops_a_write(changes, folder):
    version = version_of((folder / "a.txt").read_bytes())
    changes.edit_file("a.txt", "one", "1", version=version)
    for late in (
        lambda: changes.edit_file("a.txt", "two", "2", version=version),
        lambda: changes.write_file("a.txt", "x", overwrite=True, version=version),
    ):
        with pytest.raises(Refused, match=r"has changed: it has version .* read it again"):
            late()
    assert (folder / "a.txt").read_bytes() == b"1\ntwo\r\nthree\n"


def test_a_file_that_changes_between_the_look_and_the_write_is_left_alone(
    changes, folder, monkeypatch
):
    made = _changes.secrets.token_hex

    def meanwhile(n_bytes: int) -> str:
        (folder / "a.txt").write_text("one, by somebody else\n")
        return made(n_bytes)

    monkeypatch.setattr(_changes.secrets, "token_hex", meanwhile)
    with pytest.raises(Refused, match="changed by somebody else meanwhile"):
        changes.edit_file("a.txt", "one", "1")
    assert (folder / "a.txt").read_text() == "one, by somebody else\n"
    assert left_over(folder) == []


@pytest.mark.parametrize("what", ["write", "move"])
def test_a_file_that_appears_between_the_look_and_the_write_is_not_overwritten(
    changes, folder, monkeypatch, what
):
    link = os.link

    def meanwhile(*arguments, **options):
        (folder / "new.txt").write_text("by somebody else\n")
        link(*arguments, **options)

    monkeypatch.setattr(os, "link", meanwhile)
    change, *arguments = {
        "write": (changes.write_file, "new.txt", "mine"),
        "move": (changes.move_file, "a.txt", "new.txt"),
    }[what]
    with pytest.raises(Refused, match="somebody else has just made what is there"):
        change(*arguments)
    assert (folder / "new.txt").read_text() == "by somebody else\n"
    assert (folder / "a.txt").exists()
    assert left_over(folder) == []


def test_edits_through_one_server_are_never_lost(changes, folder):
    (folder / "count.txt").write_text("\n".join(f"line {n}." for n in range(40)))
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: changes.edit_file("count.txt", f"line {n}.", f"done {n}."), range(40)
            )
        )
    assert (folder / "count.txt").read_text() == "\n".join(f"done {n}." for n in range(40))


def test_an_edit_shows_the_lines_that_changed(changes, folder):
    answer = changes.edit_file("notes/b.md", "about tea", "about\ncoffee")
    assert answer.splitlines()[0].startswith("changed 1 place: notes/b.md: 5 lines, 44 bytes, ")
    assert answer.splitlines()[1:] == [
        "@@ line 3 @@",
        "-A line about tea.",
        "+A line about",
        "+coffee.",
    ]
    assert (folder / "notes/b.md").read_text() == (
        "# Title\n\nA line about\ncoffee.\nNo end of line"
    )


def test_an_edit_needs_one_place_or_leave_to_replace_all(changes, folder):
    (folder / "x.py").write_text("a = 1\nb = 1\nc = 1\n")
    with pytest.raises(Refused, match=r"more than once \(at line 1, 2, 3\); add lines around it"):
        changes.edit_file("x.py", "= 1", "= 2")
    answer = changes.edit_file("x.py", "= 1", "= 2", replace_all=True)
    assert answer.startswith("changed 3 places: ")
    assert (folder / "x.py").read_text() == "a = 2\nb = 2\nc = 2\n"
    (folder / "aaa").write_text("aaa")
    with pytest.raises(Refused, match="more than once"):
        changes.edit_file("aaa", "aa", "b")


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("  1| one", "is without line numbers"),
        ("two \nthree", "line 2 looks like its first line, so spaces or a later line differ"),
        ("four", "read the file again and copy the text exactly"),
        ("", "old must not be empty"),
        ("\ud83d", "half of a surrogate pair"),
    ],
)
def test_an_edit_that_finds_nothing_says_why(changes, old, words):
    with pytest.raises(Refused, match=words):
        changes.edit_file("a.txt", old, "new")


def test_line_ends_marks_and_odd_bytes_are_kept(changes, folder):
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    changes.edit_file("crlf.txt", "one\ntwo", "1\n2\n3")
    assert (folder / "crlf.txt").read_bytes() == b"1\r\n2\r\n3\r\n"
    (folder / "lf.txt").write_bytes(b"one\ntwo\n")
    changes.edit_file("lf.txt", "one\r\ntwo", "1\r\n2")
    assert (folder / "lf.txt").read_bytes() == b"1\n2\n"
    (folder / "mixed.txt").write_bytes(b"one\ntwo\r\n")
    changes.edit_file("mixed.txt", "one\ntwo\r\n", "1\r\n2\n")
    assert (folder / "mixed.txt").read_bytes() == b"1\r\n2\n"
    (folder / "bom.txt").write_bytes(b"\xef\xbb\xbfone\ncaf\xe9\n")
    answer = changes.edit_file("bom.txt", "one\n", "1\n")
    assert (folder / "bom.txt").read_bytes() == b"\xef\xbb\xbf1\ncaf\xe9\n"
    answer.encode()
    (folder / "latin.txt").write_bytes(b"caf\xe9 one\n")
    answer = changes.edit_file("latin.txt", "one", "two")
    assert (folder / "latin.txt").read_bytes() == b"caf\xe9 two\n"
    assert "-caf? one" in answer
    with pytest.raises(Refused, match="is a binary file"):
        changes.edit_file("binary.bin", "G", "g")


@given(st.binary(max_size=40).filter(lambda data: b"\0" not in data))
def test_what_is_not_edited_keeps_its_bytes(data):
    assert encode_exactly(decode_exactly(data, "x")) == data


@given(
    st.lists(st.sampled_from(["a", "b", "\n", "ab", "\r\n"]), max_size=12).map("".join),
    st.sampled_from(["a", "b", "ab", "\n", "a\n", "\na", "ba\n"]),
    st.sampled_from(["", "x", "\n", "x\ny", "aa"]),
)
def test_the_shown_lines_turn_the_old_text_into_the_new_one(text, old, new):
    """Ours: applying what is shown, line by line, gives what was written."""
    if text.count("\r\n") == text.count("\n") > 0:
        text = text.replace("\r\n", "\n")
    text = text.replace("\r", "")
    try:
        edited = replaced(text, old, new, replace_all=True, max_chars=1000, path="x")
    except Refused:
        assert old not in text or old == new
        return
    assert edited.text == text.replace(old, new)
    rest, seen = text.split("\n"), 0
    built: list[str] = []
    for line in edited.diff:
        if line.startswith("@@"):
            number = int(line.split()[2]) - 1
            built += rest[seen:number]
            seen = number
        elif line.startswith("-"):
            assert rest[seen] == line[1:]
            seen += 1
        else:
            built.append(line[1:])
    built += rest[seen:]
    assert "\n".join(built).rstrip("\n") == edited.text.rstrip("\n")


def test_an_edit_that_would_fill_the_memory_is_refused_before_it_is_made(changes, folder):
    (folder / "big.txt").write_text("a" * 1_000_000)
    with pytest.raises(Refused, match="would become longer than 10485760 characters"):
        changes.edit_file("big.txt", "a", "b" * 1_000_000, replace_all=True)
    answer = changes.edit_file("big.txt", "a", "b", replace_all=True)
    assert len(answer) < 40_000


def test_many_places_are_shown_up_to_a_bound(changes, folder, monkeypatch):
    (folder / "many.txt").write_text("x\n" * 100)
    lines = changes.edit_file("many.txt", "x", "y", replace_all=True).splitlines()
    assert (len(lines), lines[-1]) == (1 + 3 * 20 + 1, "[80 more places]")
    monkeypatch.setattr(_replace, "_MAX_SHOWN_LINES", 2)
    lines = changes.edit_file("many.txt", "y\n" * 100, "z\n").splitlines()
    assert lines[1:] == ["@@ line 1 @@", "-y", "-y", "-[98 more lines]", "+z"]


def test_folders_are_made_with_those_above_them(changes, folder):
    assert changes.make_folder("x/y/z") == "made the folder x/y/z"
    assert (folder / "x/y/z").is_dir()
    assert changes.make_folder("./x//y") == "x/y was there already"
    for path, words in [
        ("a.txt", "is not a folder"),
        ("a.txt/x", "is not a folder"),
        ("inner_link/x", "is a link"),
        ("/".join("d" * 61), "deeper than 60 folders"),
    ]:
        with pytest.raises(Refused, match=words):
            changes.make_folder(path)
    assert not (folder / "d").exists()


def test_files_and_folders_are_moved_but_nothing_is_overwritten_unasked(changes, folder):
    assert changes.move_file("a.txt", "notes/z.txt") == "moved a.txt to notes/z.txt"
    assert not (folder / "a.txt").exists()
    with pytest.raises(Refused, match="is there already; set overwrite"):
        changes.move_file("notes/z.txt", "empty.txt")
    changes.move_file("notes/z.txt", "empty.txt", overwrite=True)
    assert (folder / "empty.txt").read_text().startswith("one")
    changes.make_folder("kept")
    changes.move_file("notes", "kept/notes")
    assert (folder / "kept/notes/deep/c.md").exists()
    for path, to, words in [
        ("kept", "kept/notes/kept", "into itself"),
        ("kept", "kept", "to itself"),
        ("empty.txt", "kept", "is a folder that is there already"),
        ("kept", "empty.txt", "is there already"),
        ("file_link", "x", "is a link; only files and folders are moved"),
        ("pipe", "x", "is a special"),
        ("empty.txt", "file_link", "is a link that is there already"),
        (".", "x", "is the root folder"),
        ("nothing", "x", "there is no 'nothing'"),
    ]:
        with pytest.raises(Refused, match=words):
            changes.move_file(path, to, overwrite=True)


def test_a_file_is_not_moved_over_itself_by_another_of_its_names(changes, folder):
    os.link(folder / "a.txt", folder / "again.txt")
    with pytest.raises(Refused, match="are the same file already; nothing was moved"):
        changes.move_file("a.txt", "again.txt", overwrite=True)
    assert (folder / "a.txt").read_text() == (folder / "again.txt").read_text() != ""


def test_a_file_that_may_not_leave_its_folder_is_not_in_two_places_then(changes, folder):
    (folder / "from").mkdir()
    (folder / "to").mkdir()
    (folder / "from" / "x").write_text("x")
    for path in ("to", "from/x"):  # who does not own a file may not link it
        if os.geteuid() == 0:
            os.chown(folder / path, 65534, 65534)
    with without_rights(folder / "from"), pytest.raises(Refused, match="cannot be changed"):
        changes.move_file("from/x", "to/x")
    assert os.listdir(folder / "from") == ["x"]
    assert os.listdir(folder / "to") == []


def test_deleting_takes_files_links_and_folders_but_full_folders_only_when_told(
    changes, folder, secret
):
    assert changes.delete_file("a.txt") == "deleted the file a.txt"
    assert changes.delete_file("folder_link") == "deleted the link folder_link"
    assert secret.exists()
    with pytest.raises(Refused, match="'notes' is not empty; set recursive"):
        changes.delete_file("notes")
    assert changes.delete_file("notes", recursive=True) == "deleted the folder notes"
    assert not (folder / "notes").exists()
    for path, words in [
        (".", "is the root folder"),
        ("pipe", "is a pipe, socket or device"),
        ("gone", "there is no 'gone'"),
    ]:
        with pytest.raises(Refused, match=words):
            changes.delete_file(path, recursive=True)


def test_large_folders_and_repositories_are_not_deleted_at_once(changes, folder, monkeypatch):
    monkeypatch.setattr(_changes, "MAX_DELETED_ENTRIES", 3)
    with pytest.raises(Refused, match="holds more than 3 files and folders"):
        changes.delete_file("notes", recursive=True)
    (folder / "project" / ".git").mkdir(parents=True)
    with pytest.raises(Refused, match=r"inside '\.git'"):
        changes.delete_file("project", recursive=True)
    assert (folder / "project" / ".git").is_dir()
    (folder / "/".join("d" * 80)).mkdir(parents=True)
    monkeypatch.setattr(_changes, "MAX_DELETED_ENTRIES", 1000)
    with pytest.raises(Refused, match="is too deep"):
        changes.delete_file("d", recursive=True)


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """A folder that this process may not write to; root may, so it becomes nobody."""
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_folder_without_write_permission_is_a_clear_error(changes, folder):
    with without_rights(folder):
        for change in (
            lambda: changes.write_file("x.txt", "x"),
            lambda: changes.write_file("a.txt", "x", overwrite=True),
            lambda: changes.edit_file("a.txt", "one", "1"),
            lambda: changes.make_folder("x"),
            lambda: changes.move_file("a.txt", "x"),
            lambda: changes.delete_file("a.txt"),
        ):
            with pytest.raises(Refused, match="cannot be changed: Permission denied"):
                change()
    assert (folder / "a.txt").read_bytes() == b"one\ntwo\r\nthree\n"


def test_a_read_only_file_system_is_a_clear_error(changes, folder, monkeypatch):
    opened = os.open

    def refuse(path, flags, *args, **options):
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system")
        return opened(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Refused, match="cannot be changed: Read-only file system"):
        changes.write_file("x.txt", "x")


def test_a_full_disk_leaves_the_file_as_it_was(changes, folder):
    """RLIMIT_FSIZE: the system refuses to let a file grow, as a full disk does."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(Refused, match="cannot be changed: File too large"):
            changes.write_file("a.txt", "x" * 5000, overwrite=True)
        with pytest.raises(Refused, match="cannot be changed: File too large"):
            changes.write_file("new.txt", "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert (folder / "a.txt").read_bytes() == b"one\ntwo\r\nthree\n"
    assert not (folder / "new.txt").exists()
    assert left_over(folder) == []


def test_a_file_system_without_hard_links_works_too(changes, folder, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    changes.write_file("x.txt", "x")
    changes.move_file("x.txt", "y.txt")
    assert (folder / "y.txt").read_text() == "x"
    assert left_over(folder) == []


def test_texts_that_are_too_large_are_refused(changes, monkeypatch):
    monkeypatch.setattr("agentkit_tools._editing.MAX_FILE_BYTES", 100)
    with pytest.raises(Refused, match="more than 100 bytes"):
        changes.write_file("x.txt", "ü" * 51)
    with pytest.raises(Refused, match="would become longer than 100"):
        changes.edit_file("a.txt", "one", "x" * 100)


WRITE = """
import signal, sys
from agentkit_tools import _changes
from agentkit_tools._root import Root
root = Root(sys.argv[1])
texts = [b"a" * 8_000_000, b"b" * 8_000_000]
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))  # the alarm ends the process
while True:
    for text in texts:
        _changes.replace(root, "a.txt", text)
"""


def test_a_server_that_dies_while_it_writes_leaves_the_old_or_the_new_file(folder):
    (folder / "a.txt").write_bytes(b"a" * 8_000_000)
    for number in range(1, 9):
        done = subprocess.run(
            [sys.executable, "-c", WRITE, str(folder), str(number * 0.0031)],
            env={"PYTHONPATH": TOOLS_FOLDER},
            timeout=30,
        )
        assert done.returncode == -signal.SIGALRM
        found = (folder / "a.txt").read_bytes()
        assert len(found) == 8_000_000
        assert found in (b"a" * 8_000_000, b"b" * 8_000_000)
