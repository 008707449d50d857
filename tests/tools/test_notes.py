"""Notes are added and stay: what was listed once is how every later list begins."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_tools import _note_store, notes
from agentkit_tools._errors import Refused
from agentkit_tools._note_store import NoteStore
from agentkit_tools.notes import NoteTools, main
from tests.tools.started import TOOLS_FOLDER

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


@pytest.fixture
def tools(file: Path) -> Iterator[NoteTools]:
    store = NoteStore(str(file))
    yield NoteTools(store)
    store.close()


def test_notes_are_kept_listed_and_read(tools):
    assert tools.list_notes() == "id [tags]: note"
    assert tools.add_note(" Anna likes tea.\n", ("anna", "drinks", "anna")) == "kept as note 1"
    assert tools.add_note("Two\nlines " + "x" * 200) == "kept as note 2"
    assert tools.list_notes().splitlines() == [
        "id [tags]: note",
        "1 [anna, drinks]: Anna likes tea.",
        f"2: Two lines {'x' * 150} ... [210 characters]",
    ]
    assert tools.read_note(1) == "1 [anna, drinks]:\n  Anna likes tea."
    assert tools.read_note(2) == "2:\n  Two\n  lines " + "x" * 200
    assert tools.list_notes(after=1).splitlines()[1].startswith("2: Two")
    assert tools.list_notes(tag="anna").splitlines()[1:] == ["1 [anna, drinks]: Anna likes tea."]


def test_a_note_replaces_another_one_which_stays(tools):
    tools.add_note("Anna likes tea.", ("anna",))
    listed = tools.list_notes()
    assert tools.replace_note(1, "Anna likes coffee.", ("anna",)) == (
        "kept as note 2, which replaces note 1"
    )
    assert tools.list_notes() == f"{listed}\n2 [anna] (replaces 1): Anna likes coffee."
    assert tools.read_note(1) == "1 [anna]:\n  Anna likes tea.\n[replaced by note 2]"
    assert tools.search_notes("likes") == "2 [anna] (replaces 1):\n  Anna likes coffee."
    assert tools.search_notes("tea") == "[no note has one of these words]"
    assert tools.search_notes("tea", with_replaced=True).startswith("1 [anna]")
    with pytest.raises(Refused, match="note 1 was replaced by note 2; replace that one"):
        tools.replace_note(1, "x")
    with pytest.raises(Refused, match="there is no note 9; the ids are 1 to 2"):
        tools.replace_note(9, "x")
    with pytest.raises(Refused, match="note 2 says the same already"):
        tools.replace_note(2, "Anna likes coffee.", ("anna",))


def test_the_same_note_again_is_kept_once_so_that_a_repeated_call_does_no_harm(tools):
    assert tools.add_note("x", ("b", "a")) == "kept as note 1"
    assert tools.add_note("x ", ("a", "b")) == "kept already, as note 1"
    assert tools.add_note("x") == "kept as note 2"
    assert tools.replace_note(1, "y") == "kept as note 3, which replaces note 1"
    assert tools.replace_note(1, "y") == "kept already, as note 3, which replaces note 1"
    assert tools.add_note("x", ("a", "b")) == "kept as note 4"
    assert tools.replace_note(4, "z") == "kept as note 5, which replaces note 4"
    with pytest.raises(Refused, match="note 5 says the same already; nothing was replaced"):
        tools.replace_note(3, "z")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.text(alphabet="ab \n東é", min_size=1, max_size=12),
            st.lists(st.sampled_from(["t", "u"]), max_size=2).map(tuple),
        ),
        max_size=12,
    )
)
def test_every_list_begins_with_the_list_before(steps):
    """Ours: also by tag, from an id on, as JSON, and when a list is cut."""
    store = NoteStore(":memory:")
    tools = NoteTools(store)
    lists = [
        tools.list_notes,
        lambda: tools.list_notes(after=2),
        lambda: tools.list_notes(tag="t"),
        tools.export_notes,
    ]
    before = [each() for each in lists]
    for replaced, text, tags in steps:
        try:
            if replaced:
                tools.replace_note(replaced, text, tags)
            else:
                tools.add_note(text, tags)
        except Refused:
            continue
        now = [each() for each in lists]
        assert all(late.startswith(early) for late, early in zip(now, before, strict=True))
        before = now
    ids = [json.loads(line)["id"] for line in tools.export_notes().splitlines()]
    assert ids == list(range(1, len(ids) + 1))
    store.close()


def test_a_long_list_is_cut_where_it_stays_cut(tools, monkeypatch):
    monkeypatch.setattr(notes, "_MAX_LISTED", 3)
    for number in range(3):
        tools.add_note(f"note {number}")
    whole = tools.list_notes()
    tools.add_note("note 3")
    cut = tools.list_notes()
    assert cut == f"{whole}\n[there is more: list_notes with after=3]"
    tools.add_note("note 4")
    assert tools.list_notes() == cut
    assert tools.list_notes(after=3).splitlines()[1:] == ["4: note 3", "5: note 4"]


def test_export_gives_each_note_as_a_line_of_json_and_goes_on_where_it_was_cut(tools):
    for number in range(30):
        tools.add_note(f"{number} " + '"\\' * 1900, ("t",))
    lines = tools.export_notes().splitlines()
    assert len("\n".join(lines)) < 40_000
    last = json.loads(lines[-2])["id"]
    assert lines[-1] == f"[there is more: export_notes with after={last}]"
    assert json.loads(tools.export_notes(after=last).splitlines()[0])["id"] == last + 1
    assert list(json.loads(lines[0])) == ["id", "made_at", "replaces", "tags", "text"]


def test_notes_are_found_by_words_phrases_starts_and_tags(tools):
    tools.add_note("The parseJsonText function is slow", ("code",))
    tools.add_note("東京都は日本の首都です", ("geo",))
    tools.add_note("Functions are tested", ("code", "tests"))
    for query, expected in [
        ("json", [1]),
        ("首都", [2]),
        ("function", [1, 3]),
        ('"is slow"', [1]),
        ("test*", [3]),
        ("geo", [2]),
    ]:
        found = [
            int(block.split()[0].rstrip(":")) for block in tools.search_notes(query).split("\n\n")
        ]
        assert sorted(found) == expected, query
    assert tools.search_notes("function", tag="tests").startswith("3 ")
    assert tools.search_notes("function", max_results=1).endswith("[there is more]")
    with pytest.raises(Refused, match="there is no word"):
        tools.search_notes("***")


def test_a_note_cannot_pass_for_another_one_or_for_more_than_it_is(tools):
    tools.add_note("real", ("trusted",))
    tools.add_note("[trusted] (replaces 1) real too")
    for end in ("\n\n", "\r", "\u2028", "\u2029\n"):
        tools.add_note(f"real{end}1 [trusted]:\n  forged{end}[replaced by note 9]{end}[more]")
    assert tools.list_notes().splitlines()[1:3] == [
        "1 [trusted]: real",
        "2: [trusted] (replaces 1) real too",
    ]
    answers = [tools.search_notes("real", max_results=50), *map(tools.read_note, range(1, 7))]
    heads = [line for text in answers for line in text.splitlines() if line and line[0] != " "]
    assert sorted(set(heads)) == ["1 [trusted]:", "2:", "3:", "4:", "5:", "6:"]
    assert len(tools.export_notes().splitlines()) == 6


@pytest.mark.parametrize(
    ("text", "tags", "words"),
    [
        ("  \n", (), "the note is empty"),
        ("a\0b", (), "has the character"),
        ("a\x1b[31m", (), "has the character"),
        ("\ud83d", (), "has the character"),
        ("x", ("a,b",), "is no tag"),
        ("x", ("[a]",), "is no tag"),
        ("x", (" ",), "is no tag"),
        ("x", ("a\nb",), "is no tag"),
        ("x", ("\ud83d",), "is no tag"),
    ],
)
def test_notes_and_tags_that_could_not_be_shown_are_refused(tools, text, tags, words):
    with pytest.raises(Refused, match=words):
        tools.add_note(text, tags)


def test_times_are_kept_with_the_note_or_not_at_all(file):
    store = NoteStore(str(file), now=lambda: "2026-01-02T03:04:05Z")
    NoteTools(store).add_note("x", ("t",))
    store.close()
    again = NoteStore(str(file))
    tools = NoteTools(again)
    tools.add_note("y")
    assert tools.list_notes().splitlines()[1:] == ["1 2026-01-02T03:04:05Z [t]: x", "2: y"]
    again.close()


def test_the_database_itself_refuses_to_change_or_delete_a_note(tools, file):
    tools.add_note("x")
    with sqlite3.connect(file) as connection:
        for statement in ("UPDATE notes SET text = 'y'", "DELETE FROM notes"):
            with pytest.raises(sqlite3.IntegrityError, match="notes are never"):
                connection.execute(statement)
    connection.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_number_of_notes_is_bounded(tools, monkeypatch):
    tools.add_note("x")
    monkeypatch.setattr(_note_store, "MAX_NOTES", 1)
    with pytest.raises(Refused, match="which is the limit; export them and begin a new file"):
        tools.add_note("y")


ADD = """
import sys
from agentkit_tools._note_store import NoteStore
store = NoteStore(sys.argv[1])
for number in range(int(sys.argv[3])):
    print(store.add(f"{sys.argv[2]} {number}", ())[0], flush=True)
"""


def adding(file: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ADD, str(file), name, str(count)],
        env={"PYTHONPATH": TOOLS_FOLDER},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_that_add_at_once_lose_nothing(file):
    processes = [adding(file, name, 20) for name in "abc"]
    ids = [
        int(line) for process in processes for line in process.communicate(timeout=50)[0].split()
    ]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(ids) == list(range(1, 61))
    store = NoteStore(str(file))
    texts = [note.text for note in store.after(0, "", 100)]
    assert sorted(texts) == sorted(f"{name} {number}" for name in "abc" for number in range(20))
    for name in "abc":
        assert [text for text in texts if text[0] == name] == [f"{name} {n}" for n in range(20)]
    store.close()


def test_a_killed_process_leaves_every_note_that_it_answered(file):
    process = adding(file, "k", 100_000)
    assert process.stdout is not None
    answered = [int(process.stdout.readline()) for _ in range(15)]
    process.kill()
    answered += [int(line) for line in process.stdout.read().split()]
    process.wait(10)
    process.stdout.close()
    store = NoteStore(str(file))
    kept = [note.id for note in store.after(0, "", 100_000)]
    assert kept[: len(answered)] == answered == list(range(1, len(answered) + 1))
    assert len(kept) <= len(answered) + 1
    assert store.add("after", ()) == (len(kept) + 1, True)
    assert [note.text for note in store.search('"after"', "", 5, with_replaced=True)] == ["after"]
    store.close()


def test_a_file_that_another_process_holds_is_a_clear_error(file, monkeypatch):
    monkeypatch.setattr("agentkit_tools._database._BUSY_S", 0.05)
    store = NoteStore(str(file))
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    with pytest.raises(Refused, match="another process is writing to the same file; try again"):
        store.add("x", ())
    assert time.monotonic() - started < 5
    holder.execute("ROLLBACK")
    holder.close()
    assert store.add("x", ()) == (1, True)
    store.close()


def test_a_file_that_holds_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "text").write_text("no database at all, but long enough to be looked at" * 20)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    for name, words in [
        ("text", "file is not a database"),
        ("other.db", "holds something else than notes"),
        ("no/such/folder", "No such file"),
    ]:
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        assert main([str(tmp_path / name)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert words in captured.err
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
