"""A snapshot never changes, finds by relevance, and shows in the order of URIs."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit.context import Context, SystemPart, SystemText
from agentkit.knowledge import KnowledgeError, Snapshot, index
from agentkit.knowledge.chunks import Chunk, Source, chunks_of
from agentkit.testing import assert_extends

DOCUMENTS = [
    Source("b/rates.md", "Rates of the euro.\n\nThe euro is a currency. Euro, euro, euro."),
    Source("a/guide.md", "A guide to travel.\n\nTrains are slow; the euro is accepted."),
    Source("c/parse.py", "def parseHtmlTree(text): ...\n\nsnake_case_name = 1"),
]


def test_relevance_decides_which_and_the_uri_decides_the_order() -> None:
    snapshot = Snapshot.build(DOCUMENTS)

    assert [chunk.uri for chunk in snapshot.search("euro")] == ["b/rates.md", "a/guide.md"]
    selected = snapshot.select("euro", k=2)
    assert [document.uri for document in selected] == ["a/guide.md#0000", "b/rates.md#0000"]
    assert [document.uri for document in snapshot.select("euro", k=1)] == ["b/rates.md#0000"]


def test_a_selection_lies_in_a_context_as_it_comes() -> None:
    text = "\n\n".join(f"euro {number}" for number in range(40))
    sources = [Source("a", text), Source("a#b", "euro"), Source("a!", "euro"), Source("é", "euro")]
    selected = Snapshot.build(sources, chunk_chars=10).select("euro", k=100)

    assert len(selected) == 43
    assert len(Context(*selected)) == 43


def test_words_are_found_by_their_stem_and_inside_identifiers() -> None:
    snapshot = Snapshot.build(DOCUMENTS)

    assert [chunk.uri for chunk in snapshot.search("currencies")] == ["b/rates.md"]
    for query in ("tree", "html", "parseHtmlTree", "parse_html", "case", "snake_case"):
        assert [chunk.uri for chunk in snapshot.search(query)] == ["c/parse.py"], query


def test_equal_ranks_are_ordered_by_uri_and_index() -> None:
    sources = [Source(uri, "same words\n\nsame words") for uri in ("b", "a", "c")]
    found = Snapshot.build(sources, chunk_chars=12).search("words", k=10)

    assert [(chunk.uri, chunk.index) for chunk in found] == [
        (uri, index) for uri in "abc" for index in (0, 1)
    ]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(st.text(max_size=30))
def test_any_query_is_words_and_never_an_error(query: str) -> None:
    found = SNAPSHOT.select(query, k=3)

    assert list(found) == sorted(found, key=lambda document: document.uri)


SNAPSHOT = Snapshot.build(DOCUMENTS)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ('"euro', "euro"),
        ("NEAR(euro slow)", "near euro slow"),
        ("euro AND nothing", "euro and nothing"),
        ("parts:euro*", "parts euro"),
        ("euro -currency", "euro currency"),
        ("\0 ^ * :", ""),
    ],
)
def test_the_syntax_of_the_index_is_no_part_of_a_query(query: str, words: str) -> None:
    assert SNAPSHOT.search(query, k=5) == SNAPSHOT.search(words, k=5)


def test_a_token_budget_is_filled_best_first_and_passes_over_what_does_not_fit() -> None:
    sources = [
        Source("long", "euro euro euro " + "x " * 400),
        Source("short", "euro"),
        Source("none", "nothing"),
    ]
    snapshot = Snapshot.build(sources)

    assert [each.uri for each in snapshot.select("euro", max_tokens=50)] == ["short#0000"]
    assert len(snapshot.select("euro", max_tokens=500)) == 2
    assert len(snapshot.select("euro", max_tokens=500, k=1)) == 1


def test_the_same_knowledge_has_the_same_bytes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """C17: "age" labels, computed from the clock, broke the prefix each minute without an edit."""
    first = Snapshot.build(DOCUMENTS, version=3)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 120)
    later = Snapshot.build(reversed(DOCUMENTS), version=4)
    rules = SystemText(SystemPart.RULES, "Be brief.")

    assert later.digest == first.digest
    before, after = (Context(rules, *each.select("euro")) for each in (first, later))
    assert before.dump() == after.dump()
    assert_extends(before.dump(), after.dump())
    assert Context(*first.documents) == Context(*later.documents)


PROGRAM = """
import sys
from agentkit.context import Context
from agentkit.knowledge import Snapshot
from agentkit.knowledge.chunks import Source
uris = {"a", "b", "c", "d", "e"}
snapshot = Snapshot.build(Source(uri, f"euro in {uri}") for uri in uris)
print(snapshot.digest, Context(*snapshot.select("euro in a", k=3)).dump().decode())
"""


def test_another_process_and_hash_seed_select_the_same_bytes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("0", "7")
    }
    assert len(outputs) == 1


def test_a_file_holds_a_snapshot_whole_and_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "v1.sqlite"
    with Snapshot.build(DOCUMENTS, version=7, path=path) as written:
        assert written.version == 7
    with Snapshot.open(path) as read:
        assert read.version == 7
        assert read.digest == SNAPSHOT.digest
        assert read.select("euro") == SNAPSHOT.select("euro")
        assert read.uris == ("a/guide.md", "b/rates.md", "c/parse.py")
    assert [each.name for each in tmp_path.iterdir()] == ["v1.sqlite"]
    with pytest.raises(KnowledgeError, match="snapshots never change"):
        Snapshot.build(DOCUMENTS, path=path)


def test_what_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    other.write_bytes(b"no database" * 200)

    with pytest.raises(KnowledgeError, match="is no snapshot"):
        Snapshot.open(other)
    with pytest.raises(KnowledgeError, match="there is no snapshot at"):
        Snapshot.open(tmp_path / "missing")
    with pytest.raises(KnowledgeError, match="two documents have the URI 'a'"):
        Snapshot.build([Source("a", "1"), Source("a", "2")])
    with pytest.raises(KnowledgeError, match="k must be an int of at least 1, got 0"):
        SNAPSHOT.select("euro", k=0)


def test_an_sqlite_without_full_text_search_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentkit.knowledge.index.SCHEMA", "CREATE VIRTUAL TABLE t USING fts99(a)")

    with pytest.raises(KnowledgeError, match=r"no such module: fts99\); use a Python whose SQLite"):
        Snapshot.build(DOCUMENTS)


def test_a_build_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentkit.whole_file.os.link", _fail)
    monkeypatch.setattr("agentkit.whole_file.os.replace", _fail)

    with pytest.raises(OSError, match="full"):
        Snapshot.build(DOCUMENTS, path=tmp_path / "v1.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_of_two_builds_at_once_the_first_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot never changes, and somebody has opened that file."""
    path = tmp_path / "v1.sqlite"
    fill = index.fill

    def meanwhile_another(connection: sqlite3.Connection, chunks: Iterable[Chunk]) -> None:
        monkeypatch.undo()
        Snapshot.build([Source("a", "the other one")], path=path).close()
        fill(connection, chunks)

    monkeypatch.setattr(index, "fill", meanwhile_another)
    with pytest.raises(KnowledgeError, match="exists, and snapshots never change"):
        Snapshot.build(DOCUMENTS, path=path)
    with closing(Snapshot.open(path)) as kept:
        assert kept.uris == ("a",)
    assert list(tmp_path.iterdir()) == [path]


def _fail(*_: object) -> None:
    raise OSError("disk full")


def test_many_threads_may_search_at_once() -> None:
    barrier = threading.Barrier(4)

    def search(_: int) -> object:
        barrier.wait(timeout=10)
        return [SNAPSHOT.select("euro", k=2) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(search, range(4)))
    assert all(result == results[0] for result in results)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab \n\r\u2028é", max_size=80), st.integers(1, 20))
def test_chunks_together_are_the_text(text: str, limit: int) -> None:
    chunks = chunks_of(Source("u", text), limit)

    assert "".join(chunk.text for chunk in chunks) == text
    assert all(len(chunk.text) <= limit for chunk in chunks)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))


def test_an_etag_is_of_the_text_alone() -> None:
    assert Source("a", "x").etag == Source("b", "x").etag != Source("a", "y").etag
    assert Source("a", "").etag == (
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )


@pytest.mark.parametrize(
    ("uri", "text", "words"),
    [("", "x", "URI that is not empty"), ("a", "\ud800", "surrogate"), ("a\0", "x", "NUL")],
)
def test_what_has_no_place_or_no_utf8_form_is_refused(uri: str, text: str, words: str) -> None:
    with pytest.raises(KnowledgeError, match=words):
        Source(uri, text)
