"""What the search server finds, and that a snapshot answers the same until the next one."""

from __future__ import annotations

import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_tools import _root, _scan, _snapshots
from agentkit_tools._chunking import chunks_of, inner_words
from agentkit_tools._errors import Refused
from agentkit_tools._query import match_expression
from agentkit_tools._root import Root
from agentkit_tools._scan import Scan
from agentkit_tools._snapshots import Index, is_within
from agentkit_tools.search import SearchTools, main

pytestmark = pytest.mark.timeout(60)

LIMITS = {"max_text_bytes": 4_000_000, "max_seconds": 20.0}


def made(root: Root, folder: Path, file: str = ":memory:") -> SearchTools:
    return SearchTools(Index(file, str(folder), **LIMITS), Scan(root, **LIMITS))


@pytest.fixture
def tools(root: Root, folder: Path):
    (folder / "code.py").write_text(
        "def parseJsonText(raw_bytes):\n    return HTTPServer(raw_bytes)\n"
    )
    (folder / "日本.md").write_text("東京都は日本の首都です。\n", encoding="utf-8")
    made_tools = made(root, folder)
    yield made_tools
    made_tools._index.close()


def places(answer: str) -> list[str]:
    return [block.splitlines()[0] for block in answer.split("\n\n")[:-1]]


def test_passages_come_with_file_lines_and_the_snapshot(tools):
    answer = tools.search("tea")
    assert answer.split("\n\n")[0] == "notes/deep/c.md:1-1\n  1| Deep tea."
    assert places(answer) == ["notes/deep/c.md:1-1", "notes/b.md:1-4"]
    digest = answer.rsplit(" ", 1)[1].rstrip("]")
    assert answer.endswith(f"[1-2; snapshot {digest}]")
    assert len(digest) == 12
    assert tools.read_text("notes/b.md", 3, 3) == (
        f"notes/b.md: lines 3-3 of 4, snapshot {digest}\n  3| A line about tea."
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("lines", ["notes/b.md:1-4"]),
        ("json", ["code.py:1-2"]),
        ("parseJsonText", ["code.py:1-2"]),
        ("server", ["code.py:1-2"]),
        ("raw_bytes", ["code.py:1-2"]),
        ("KÖLN", ["notes/grüße 🎈.txt:1-1"]),
        ("koln", ["notes/grüße 🎈.txt:1-1"]),
        ("東京", ["日本.md:1-1"]),
        ("首都", ["日本.md:1-1"]),
        ("日本の首都", ["日本.md:1-1"]),
        ('"京都は"', ["日本.md:1-1"]),
        ('"都京"', []),
        ('"about tea"', ["notes/b.md:1-4"]),
        ('"tea about"', []),
        ('"about tea" deep', ["notes/b.md:1-4"]),
        ("pars*", ["code.py:1-2"]),
        ("zzz tea", ["notes/deep/c.md:1-1", "notes/b.md:1-4"]),
        ('tea "', ["notes/deep/c.md:1-1", "notes/b.md:1-4"]),
        ("NOT tea", ["notes/deep/c.md:1-1", "notes/b.md:1-4"]),
        ("inside:tea", ["notes/deep/c.md:1-1", "notes/b.md:1-4"]),
        ("tea) OR (", ["notes/deep/c.md:1-1", "notes/b.md:1-4"]),
    ],
)
def test_words_phrases_starts_and_unspaced_scripts_are_found(tools, query, expected):
    assert places(tools.search(query)) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "there is no word in ''"),
        ('"" * () -', "there is no word"),
        ("🎈", "there is no word"),
        (" ".join(f"w{n}" for n in range(65)), "more than 64 words"),
    ],
)
def test_a_query_without_words_is_answered_with_what_to_give(tools, query, words):
    with pytest.raises(Refused, match=words):
        tools.search(query)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30) | st.lists(st.sampled_from(list('"*(){}:^-+ANDORT '))).map("".join))
def test_no_query_is_an_error_of_the_database(query):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, inside)")
    try:
        expression = match_expression(query)
    except Refused:
        return
    connection.execute("SELECT * FROM t WHERE t MATCH ?", (expression,)).fetchall()
    connection.close()


def test_half_of_a_surrogate_pair_is_refused_before_it_reaches_the_database(tools):
    for call in (
        lambda: tools.search("tea", within="\ud83d"),
        lambda: tools.list_texts("\ud83d"),
        lambda: tools.read_text("\ud83d"),
    ):
        with pytest.raises(Refused, match="half of a surrogate pair"):
            call()
    assert places(tools.search("tea \ud83d")) == places(tools.search("tea"))


def test_results_are_narrowed_to_a_folder_or_pattern_and_paged(tools):
    assert places(tools.search("tea", "notes/deep")) == ["notes/deep/c.md:1-1"]
    assert places(tools.search("tea", "**/b.md")) == ["notes/b.md:1-4"]
    assert "[nothing found; snapshot " in tools.search("tea", "elsewhere")
    first = tools.search("tea", max_results=1)
    assert "[1-1; there is more: skip=1; snapshot " in first
    assert places(tools.search("tea", max_results=1, skip=1)) == ["notes/b.md:1-4"]
    assert is_within("a/b", "a")
    assert not is_within("ab", "a")


def test_equal_ranks_are_in_the_order_of_paths_and_lines(root, folder):
    tools = made(root, folder)
    for name in ("z.txt", "Z.txt", "m.txt"):
        (folder / name).write_text("same words here\n")
        tools.refresh()
    assert places(tools.search('"same words"')) == ["Z.txt:1-1", "m.txt:1-1", "z.txt:1-1"]
    tools._index.close()


def test_a_snapshot_answers_the_same_until_it_is_refreshed(tools, folder):
    calls = [
        lambda: tools.search("tea"),
        lambda: tools.list_texts(),
        lambda: tools.read_text("notes/b.md"),
    ]
    before = [call() for call in calls]
    (folder / "notes/b.md").write_text("All about coffee and tea, tea, tea.\n")
    (folder / "notes/deep/c.md").unlink()
    (folder / "more.md").write_text("tea\n")
    assert [call() for call in calls] == before
    assert tools.refresh().endswith(" 7 files: 1 added, 1 changed, 1 removed")
    assert places(tools.search("tea")) == ["notes/b.md:1-1", "more.md:1-1"]
    assert tools.refresh().startswith("nothing has changed; snapshot ")


def test_what_is_left_out_is_a_part_of_the_snapshot(tools, folder):
    """It is shown, so a call on the same snapshot would have another answer."""
    before = tools.list_texts()
    (folder / "more.bin").write_bytes(b"\0")
    assert tools.refresh().endswith("0 added, 0 changed, 0 removed")
    after = tools.list_texts()
    assert after != before
    assert after.rsplit(" ", 1)[1] != before.rsplit(" ", 1)[1]


def test_what_is_left_out_is_counted(tools, folder):
    (folder / ".env").write_text("tea=1")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "x.js").write_text("tea")
    with (folder / "huge.txt").open("wb") as huge:
        huge.truncate(10**9)
    answer = tools.list_texts()
    assert answer.splitlines()[:-1] == [
        *("a.txt", "code.py", "empty.txt", "notes/b.md", "notes/deep/c.md"),
        *("notes/grüße 🎈.txt", "日本.md"),
    ]
    assert (
        "[7 files; left out: 1 binary, 2 hidden or ignored, 4 link, 2 special, 1 too large; "
    ) in answer
    assert places(tools.search("tea")) == ["notes/deep/c.md:1-1", "notes/b.md:1-4"]


def test_nothing_outside_is_indexed_or_read(tools):
    assert "[nothing found" in tools.search("SECRET")
    for path in ("../outside/secret.txt", "file_link", "folder_link/secret.txt", "/etc/passwd"):
        with pytest.raises(Refused, match="in the snapshot; take a path from list_texts"):
            tools.read_text(path)


def test_odd_names_and_contents_are_indexed(tools, folder):
    with open(os.fsencode(folder) + b"/caf\xe9\n.txt", "wb") as file:
        file.write(b"x" * 10_000 + b"\0 oddment \xff\n")
    answer = tools.search("oddment")
    assert places(answer) == ["caf\\udce9\\n.txt:1-1"]
    answer.encode()
    assert tools.read_text("caf\\udce9\\n.txt").startswith("caf\\udce9\\n.txt: lines 1-1 of 1")


names = st.sampled_from(["a.md", "b.md", "d/a.md", "d/b.md"])
texts = st.sampled_from(["tea", "tea tea\nmilk", "milk", "", "coffee with milk\n" * 80, "\0bin"])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(st.tuples(names, texts | st.none()), max_size=4), max_size=4))
def test_a_refreshed_index_is_as_good_as_a_new_one(tmp_path_factory, steps):
    """Ours: whatever happened in between, digest and answers are those of an index made now."""
    folder = tmp_path_factory.mktemp("root")
    with Root(folder) as root:
        kept = made(root, folder)
        for step in steps:
            for name, text in step:
                (folder / name).parent.mkdir(exist_ok=True)
                if text is None:
                    (folder / name).unlink(missing_ok=True)
                else:
                    (folder / name).write_text(text)
            kept.refresh()
        new = made(root, folder)
        for query in ("tea", "milk coffee", '"with milk"'):
            assert kept.search(query, max_results=50) == new.search(query, max_results=50)
        assert kept.list_texts() == new.list_texts()
        kept._index.close()
        new._index.close()


def test_a_file_that_did_not_change_is_not_read_again(root, folder, monkeypatch):
    tools = made(root, folder)
    monkeypatch.setattr(_scan, "_FRESH_NS", -(10**18))
    tools.refresh()
    read: list[str] = []
    monkeypatch.setattr(Root, "read", lambda _, path, __: read.append(path) or b"\0")
    tools.refresh()
    assert read == ["binary.bin"]
    tools._index.close()


def test_a_change_that_leaves_size_and_times_as_they_were_is_noticed_if_it_came_at_once(
    root, folder, monkeypatch
):
    """Regression elsewhere: a file system may count times in steps of seconds."""
    fine, second = _root.state_of, 10**9
    monkeypatch.setattr(
        _root,
        "state_of",
        lambda status: (*fine(status)[:3], *2 * [status.st_mtime_ns // second * second]),
    )
    monkeypatch.setattr(_scan.time, "time_ns", lambda: second * second)
    tools = made(root, folder)
    (folder / "x.txt").write_text("milk\n")
    os.utime(folder / "x.txt", ns=(10**18, 10**18))
    tools.refresh()
    (folder / "x.txt").write_text("rice\n")
    os.utime(folder / "x.txt", ns=(10**18, 10**18))
    tools.refresh()
    assert places(tools.search("rice milk")) == ["x.txt:1-1"]
    assert "rice" in tools.search("rice")
    assert "nothing found" in tools.search("milk")
    tools._index.close()


@given(st.lists(st.text(alphabet="ab \t", max_size=30) | st.just("x" * 4000), max_size=150))
def test_chunks_hold_every_line_once_and_in_order(lines):
    chunks = list(chunks_of(lines))
    assert _snapshots._joined(chunks) == lines
    assert all(len(chunk.text) <= 1700 for chunk in chunks)


def test_words_inside_words_are_found_in_order():
    assert inner_words("parseJSONText x_y plain 日本x東") == (
        "parse JSON Text \ue000 日 本 \ue000 東"
    )


def test_a_snapshot_in_a_cache_file_is_kept_over_a_restart(root, folder, tmp_path):
    first = made(root, folder, str(tmp_path / "cache.db"))
    before = first.search("tea")
    first._index.close()
    (folder / "notes/b.md").unlink()
    second = made(root, folder, str(tmp_path / "cache.db"))
    assert second.search("tea") == before
    second.refresh()
    assert places(second.search("tea")) == ["notes/deep/c.md:1-1"]
    second._index.close()


def test_a_cache_file_that_cannot_serve_is_said_at_the_start(folder, tmp_path, capsys):
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 20)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    for arguments, words in [
        ([str(folder), "--cache", str(folder / "x.db")], "is inside the folder"),
        ([str(folder), "--cache", str(tmp_path / "text.db")], "file is not a database"),
        ([str(folder), "--cache", str(tmp_path / "other.db")], "is not the index of"),
        ([str(folder), "--cache", str(tmp_path / "no" / "x.db")], "unable to open"),
        ([str(tmp_path / "absent")], "No such file"),
    ]:
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert words in captured.err


def test_a_folder_beyond_the_limits_leaves_the_snapshot_as_it_was(root, folder, monkeypatch):
    tools = made(root, folder)
    before = tools.search("tea")
    (folder / "notes/b.md").unlink()
    for name, value in [("MAX_INDEXED_FILES", 2), ("_MAX_SEEN", 2)]:
        with monkeypatch.context() as patch:
            patch.setattr(_scan, name, value)
            with pytest.raises(Refused, match="serve a smaller one"):
                tools.refresh()
    assert tools.search("tea") == before
    small = SearchTools(
        Index(":memory:", "x", max_text_bytes=10, max_seconds=5),
        Scan(root, max_text_bytes=10, max_seconds=5),
    )
    with pytest.raises(Refused, match="more than 20000 texts or 10 bytes of text"):
        small.refresh()
    tools._index.close()
    small._index.close()


def test_an_index_that_outgrows_its_file_is_refused(root, folder):
    (folder / "long.txt").write_text("\n".join(f"word{n} other{n}" for n in range(40_000)))
    tools = SearchTools(
        Index(":memory:", "x", max_text_bytes=50_000, max_seconds=20), Scan(root, **LIMITS)
    )
    with pytest.raises(Refused, match="the index would become too large"):
        tools.refresh()
    tools._index.close()


def test_a_query_that_takes_too_long_is_stopped(root, folder):
    (folder / "long.txt").write_text("\n".join(f"w{n} same" for n in range(60_000)))
    tools = SearchTools(
        Index(":memory:", "x", max_text_bytes=4_000_000, max_seconds=20), Scan(root, **LIMITS)
    )
    tools.refresh()
    tools._index._max_seconds = -1.0
    with pytest.raises(Refused, match="takes too long"):
        tools._index.search("w* same", "", 10, 0)
    tools._index.close()


class SlowScan(Scan):
    """A look at the folder that goes on for as long as a test wants."""

    begun: threading.Event
    may_end: threading.Event

    def files(self):
        yield from super().files()
        self.begun.set()
        assert self.may_end.wait(20)


@pytest.mark.parametrize("file", [":memory:", "cache.db"])
def test_what_is_asked_during_a_long_refresh_is_answered_from_the_snapshot_before(
    root, folder, tmp_path, file
):
    where = file if file == ":memory:" else str(tmp_path / file)
    scan = SlowScan(root, **LIMITS)
    scan.begun, scan.may_end = threading.Event(), threading.Event()
    scan.may_end.set()
    tools = SearchTools(Index(where, str(folder), **LIMITS), scan, wait_s=0.05)
    before = tools.search("tea"), tools.list_texts(), tools.read_text("notes/b.md", 3, 3)
    (folder / "notes" / "b.md").write_text("No drinks.\n")
    (folder / "new.md").write_text("Green tea.\n")
    scan.may_end.clear()
    scan.begun.clear()
    with ThreadPoolExecutor(1) as pool:
        try:
            refreshing = pool.submit(tools.refresh)
            assert scan.begun.wait(20)
            during = tools.search("tea"), tools.list_texts(), tools.read_text("notes/b.md", 3, 3)
            with pytest.raises(Refused, match="is being made already; call refresh again after it"):
                tools.refresh()
        finally:
            scan.may_end.set()
        assert "1 added, 1 changed, 0 removed" in refreshing.result()

    told = "a newer snapshot is being made"
    assert [each.replace(f"; {told}", "").replace(f", {told}", "") for each in during] == [*before]
    assert all(told in each for each in during)
    after = tools.search("tea")
    assert places(after) == ["new.md:1-1", "notes/deep/c.md:1-1"]
    assert told not in after
    assert tools.refresh().startswith("nothing has changed")
    tools._index.close()
    assert [path.name for path in tmp_path.glob("cache.db*")] == ([file] if where != file else [])


def test_a_refresh_that_is_refused_leaves_the_snapshot_before(root, folder):
    scan = Scan(root, **LIMITS)
    tools = SearchTools(Index(":memory:", str(folder), **LIMITS), scan)
    before = tools.search("tea")
    (folder / "long.txt").write_text("tea " * 5_000)
    scan._max_text_bytes = 10_000
    with pytest.raises(Refused, match="serve a smaller one"):
        tools.refresh()
    assert tools.search("tea") == before
    tools._index.close()


def test_two_processes_with_one_cache_file_read_while_the_other_writes(root, folder, tmp_path):
    file = str(tmp_path / "cache.db")
    one, other = made(root, folder, file), made(root, folder, file)
    before = one.search("tea")
    with closing(other._index._connected()) as writer, writer.turn("writes", 20.0):
        assert writer.one("PRAGMA journal_mode") == ("wal",)
        writer.execute("DELETE FROM files")
        assert one.search("tea") == before
    assert "nothing found" in one.search("tea")
    one._index.close()
    other._index.close()


def test_a_turn_that_another_thread_has_is_waited_for_a_bounded_time(tools):
    tools.search("tea")
    index = tools._index
    index._max_seconds = 0.05
    with index._database.turn("reads", 20.0):
        for call in (lambda: tools.search("tea"), tools.list_texts):
            with pytest.raises(Refused, match="still at work here; try again in a few seconds"):
                call()
    index._max_seconds = 20.0
    assert places(tools.search("tea")) == ["notes/deep/c.md:1-1", "notes/b.md:1-4"]


def test_first_calls_at_the_same_time_all_wait_for_one_snapshot(root, folder):
    tools = made(root, folder)
    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(lambda _: tools.search("tea"), range(4)))
    assert len(answers) == 1
    tools._index.close()


def test_answers_are_bounded(root, folder):
    for number in range(60):
        (folder / f"{number}.txt").write_text("tea " * 390)
    tools = made(root, folder)
    answer = tools.search("tea", max_results=50)
    assert 30_000 < len(answer) < 40_000
    assert "there is more: skip=" in answer
    tools._index.close()
