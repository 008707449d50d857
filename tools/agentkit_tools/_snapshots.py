"""A full-text index over the texts of a folder, as they were at one moment (SQLite FTS5).

What is in the index is a snapshot; its digest names it. Equal texts under equal names, and equal
counts of what was left out, give an equal digest and equal answers, however often and in whatever
steps the index was brought up to date.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass

from agentkit_tools._chunking import Chunk
from agentkit_tools._database import Database
from agentkit_tools._indexing import Difference, take_in
from agentkit_tools._listing import fits
from agentkit_tools._scan import Scan

_SCHEMA_VERSION = 1
_BYTES_PER_TEXT_BYTE = 8
"""How large the index may get, for each byte of text that it may hold."""

_SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # key: the path as the system has it, whose text may be no UTF-8. state: empty if the file was
    # written to so lately that it is looked at again.
    "CREATE TABLE files (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, path TEXT NOT NULL, "
    "state TEXT NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE chunks (id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, "
    "place INTEGER NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL)",
    "CREATE INDEX chunks_by_file ON chunks (file_id, place)",
    "CREATE VIRTUAL TABLE chunk_index USING fts5("
    "text, inside, tokenize='porter unicode61 remove_diacritics 2')",
)

_SEARCH = """
SELECT files.path, chunks.first_line, chunks.last_line, chunk_index.text
FROM chunk_index
JOIN chunks ON chunks.id = chunk_index.rowid
JOIN files ON files.id = chunks.file_id
WHERE chunk_index MATCH ? AND files.id IN (SELECT id FROM files WHERE is_within(path, ?))
ORDER BY bm25(chunk_index, 1.0, 0.5), files.path, files.key, chunks.place
LIMIT ? OFFSET ?
"""

_READ = """
SELECT chunks.first_line, chunks.last_line, chunk_index.text
FROM chunks JOIN chunk_index ON chunk_index.rowid = chunks.id
WHERE chunks.file_id = ? ORDER BY chunks.place
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that fits a query."""

    path: str
    chunk: Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the index holds. `skipped` says in words what was left out."""

    digest: str
    n_files: int
    skipped: str


class Index:
    """One index in memory (":memory:") or in a file. Threads and processes take turns.

    Raises:
        sqlite3.Error: the file is no database, or cannot be opened.
        ValueError: the file is the index of something else.
    """

    def __init__(self, file: str, about: str, *, max_text_bytes: int, max_seconds: float) -> None:
        self._file = file
        self._max_bytes = max_text_bytes * _BYTES_PER_TEXT_BYTE
        self._max_seconds = max_seconds
        self._database = self._connected()
        self._database.add_function("is_within", 2, is_within)
        if not self._is_in_memory:
            self._database.let_read_while_written()
        self._prepare(about)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def snapshot(self) -> Snapshot | None:
        """What the index holds; None before the first `refresh`."""
        with self._database.turn("reads", self._max_seconds):
            return _snapshot(self._database)

    def refresh(self, scan: Scan, max_seconds: float) -> tuple[Snapshot, Difference]:
        """Bring the index up to date with a folder: all of it, or, when that fails, nothing.

        Until that is done, others read what was there before. One call at a time.

        Raises:
            Refused: the folder is too large for the limits of size and time.
        """
        with contextlib.closing(self._connected()) as new:
            if self._is_in_memory:
                new.copy_from(self._database, max_seconds)
            with new.turn("writes", max_seconds):
                difference = take_in(new, scan)
                _set_about(new, "skipped", scan.skipped())
                _set_about(new, "digest", _digest(new, scan.skipped()))
                snapshot = _taken(new)
            if self._is_in_memory:
                self._database.copy_from(new, max_seconds)
            return snapshot, difference

    def search(
        self, expression: str, within: str, limit: int, skip: int
    ) -> tuple[Snapshot, list[Found]]:
        """The best chunks for an expression of `match_expression`, best first.

        Raises:
            Refused: it takes too long.
        """
        with self._database.turn("reads", self._max_seconds):
            rows = self._database.execute(_SEARCH, (expression, within, limit, skip)).fetchall()
            return _taken(self._database), [Found(row[0], Chunk(*row[1:])) for row in rows]

    def lines(self, path: str) -> tuple[Snapshot, list[str] | None]:
        """The lines of a file as the snapshot has them. None: there is no such file."""
        with self._database.turn("reads", self._max_seconds):
            row = self._database.one("SELECT id FROM files WHERE path = ? ORDER BY key", (path,))
            chunks = [Chunk(*each) for each in self._database.execute(_READ, row)] if row else []
            return _taken(self._database), _joined(chunks) if row else None

    def paths(self, within: str) -> tuple[Snapshot, list[str]]:
        """The files of the snapshot, in order."""
        with self._database.turn("reads", self._max_seconds):
            rows = self._database.execute(
                "SELECT path FROM files WHERE is_within(path, ?) ORDER BY path, key", (within,)
            )
            return _taken(self._database), [path for (path,) in rows]

    @property
    def _is_in_memory(self) -> bool:
        return self._file == ":memory:"

    def _connected(self) -> Database:
        return Database(
            self._file,
            max_bytes=self._max_bytes,
            full="the index would become too large; serve a smaller folder, or raise --max-mb",
        )

    def _prepare(self, folder: str) -> None:
        database = self._database
        with database.turn("writes", self._max_seconds):
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_schema")}
            if not names:
                for statement in _SCHEMA:
                    database.execute(statement)
                _set_about(database, "schema", f"{_SCHEMA_VERSION}")
                _set_about(database, "folder", folder)
            known = _about(database) if not names or "about" in names else {}
            if (known.get("schema"), known.get("folder")) != (f"{_SCHEMA_VERSION}", folder):
                raise ValueError(
                    f"{self._file!r} is not the index of {folder!r}; name another file"
                )


def _about(database: Database) -> dict[str, str]:
    return dict(database.execute("SELECT name, value FROM about"))


def _set_about(database: Database, name: str, value: str) -> None:
    database.execute(
        "INSERT INTO about VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
        (name, value),
    )


def _digest(database: Database, skipped: str) -> str:
    total = hashlib.sha256(f"{len(skipped)} {skipped} ".encode())
    for key, digest in database.execute("SELECT key, digest FROM files ORDER BY key"):
        total.update(f"{len(key)} {digest} ".encode() + key)
    return total.hexdigest()[:12]


def _snapshot(database: Database) -> Snapshot | None:
    about = _about(database)
    if "digest" not in about:
        return None
    row = database.one("SELECT count(*) FROM files")
    assert row is not None
    return Snapshot(digest=about["digest"], n_files=row[0], skipped=about["skipped"])


def _taken(database: Database) -> Snapshot:
    snapshot = _snapshot(database)
    assert snapshot is not None, "refresh comes first"
    return snapshot


def is_within(path: str, within: str) -> bool:
    """Whether a path is or is below another one, or fits it as a pattern. Empty: every path is."""
    return (
        within in ("", ".", path) or path.startswith(within.rstrip("/") + "/") or fits(path, within)
    )


def _joined(chunks: list[Chunk]) -> list[str]:
    """The lines that chunks were made from."""
    lines: list[str] = []
    for chunk in chunks:
        new = chunk.text.split("\n")
        if chunk.first_line == len(lines):
            lines[-1] += new.pop(0)
        lines += new
    return lines
