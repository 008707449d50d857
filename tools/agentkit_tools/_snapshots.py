"""A full-text index over the texts of a folder, as they were at one moment (SQLite FTS5).

What is in the index is a snapshot; its digest names it. Equal texts under equal names, and equal
counts of what was left out, give an equal digest and equal answers, however often and in whatever
steps the index was brought up to date.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from agentkit_tools._chunking import Chunk, chunks_of, inner_words
from agentkit_tools._database import Database
from agentkit_tools._listing import fits
from agentkit_tools._names import shown_name
from agentkit_tools._scan import Scan
from agentkit_tools._text import lines_of

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a snapshot differs from the one before, in files."""

    n_added: int
    n_changed: int
    n_removed: int


class Index:
    """One index in memory (":memory:") or in a file. Threads and processes take turns.

    Raises:
        sqlite3.Error: the file is no database, or cannot be opened.
        ValueError: the file is the index of something else.
    """

    def __init__(self, file: str, about: str, *, max_text_bytes: int, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        self._database = Database(
            file,
            max_bytes=max_text_bytes * _BYTES_PER_TEXT_BYTE,
            full="the index would become too large; serve a smaller folder, or raise --max-mb",
        )
        self._database.add_function("is_within", 2, is_within)
        self._prepare(file, about)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def snapshot(self) -> Snapshot | None:
        """What the index holds; None before the first `refresh`."""
        with self._database.turn("reads", self._max_seconds):
            return self._snapshot()

    def refresh(self, scan: Scan, max_seconds: float) -> tuple[Snapshot, Difference]:
        """Bring the index up to date with a folder: all of it, or, when that fails, nothing.

        Raises:
            Refused: the folder is too large for the limits of size and time.
        """
        with self._database.turn("writes", max_seconds):
            difference = self._take_in(scan)
            self._set_about("skipped", scan.skipped())
            self._set_about("digest", self._digest(scan.skipped()))
            return self._taken(), difference

    def search(
        self, expression: str, within: str, limit: int, skip: int
    ) -> tuple[Snapshot, list[Found]]:
        """The best chunks for an expression of `match_expression`, best first.

        Raises:
            Refused: it takes too long.
        """
        with self._database.turn("reads", self._max_seconds):
            rows = self._database.execute(_SEARCH, (expression, within, limit, skip)).fetchall()
            return self._taken(), [Found(row[0], Chunk(*row[1:])) for row in rows]

    def lines(self, path: str) -> tuple[Snapshot, list[str] | None]:
        """The lines of a file as the snapshot has them. None: there is no such file."""
        with self._database.turn("reads", self._max_seconds):
            row = self._database.one("SELECT id FROM files WHERE path = ? ORDER BY key", (path,))
            chunks = [Chunk(*each) for each in self._database.execute(_READ, row)] if row else []
            return self._taken(), _joined(chunks) if row else None

    def paths(self, within: str) -> tuple[Snapshot, list[str]]:
        """The files of the snapshot, in order."""
        with self._database.turn("reads", self._max_seconds):
            rows = self._database.execute(
                "SELECT path FROM files WHERE is_within(path, ?) ORDER BY path, key", (within,)
            )
            return self._taken(), [path for (path,) in rows]

    def _prepare(self, file: str, about: str) -> None:
        with self._database.turn("writes", self._max_seconds):
            names = {name for (name,) in self._database.execute("SELECT name FROM sqlite_schema")}
            if not names:
                for statement in _SCHEMA:
                    self._database.execute(statement)
                self._set_about("schema", f"{_SCHEMA_VERSION}")
                self._set_about("folder", about)
            known = self._about() if not names or "about" in names else {}
            if (known.get("schema"), known.get("folder")) != (f"{_SCHEMA_VERSION}", about):
                raise ValueError(f"{file!r} is not the index of {about!r}; name another file")

    def _take_in(self, scan: Scan) -> Difference:
        before = {
            key: (number, state, digest)
            for number, key, state, digest in self._database.execute(
                "SELECT id, key, state, digest FROM files"
            )
        }
        n_added = n_changed = 0
        for file in scan.files():
            key = os.fsencode(file.path)
            number, state, digest = before.get(key, (None, "", ""))
            if state and state == file.state:
                scan.count(file.size_bytes)
            else:
                data = scan.read(file)
                if data is None:
                    continue
                new_digest = hashlib.sha256(data).hexdigest()
                if new_digest != digest:
                    n_added, n_changed = (
                        n_added + (number is None),
                        n_changed + (number is not None),
                    )
                    number = self._put(number, key, data)
                self._database.execute(
                    "UPDATE files SET state = ?, digest = ? WHERE id = ?",
                    (file.state, new_digest, number),
                )
            before.pop(key, None)
        for number, *_ in before.values():
            self._remove_chunks(number)
            self._database.execute("DELETE FROM files WHERE id = ?", (number,))
        return Difference(n_added=n_added, n_changed=n_changed, n_removed=len(before))

    def _put(self, number: int | None, key: bytes, data: bytes) -> int:
        """Put the text of a file into the index, in the place of the one before. Returns its id."""
        if number is not None:
            self._remove_chunks(number)
        else:
            path = shown_name(os.fsdecode(key))
            number = self._database.execute(
                "INSERT INTO files (key, path, state, digest) VALUES (?, ?, '', '')", (key, path)
            ).lastrowid
            assert number is not None
        # A NUL ends a text for SQLite.
        lines = lines_of(data.decode("utf-8-sig", "replace").replace("\0", "\ufffd"))
        for place, chunk in enumerate(chunks_of(lines)):
            row = self._database.execute(
                "INSERT INTO chunks (file_id, place, first_line, last_line) VALUES (?, ?, ?, ?)",
                (number, place, chunk.first_line, chunk.last_line),
            ).lastrowid
            self._database.execute(
                "INSERT INTO chunk_index (rowid, text, inside) VALUES (?, ?, ?)",
                (row, chunk.text, inner_words(chunk.text)),
            )
        return number

    def _remove_chunks(self, number: int) -> None:
        self._database.execute(
            "DELETE FROM chunk_index WHERE rowid IN (SELECT id FROM chunks WHERE file_id = ?)",
            (number,),
        )
        self._database.execute("DELETE FROM chunks WHERE file_id = ?", (number,))

    def _digest(self, skipped: str) -> str:
        total = hashlib.sha256(f"{len(skipped)} {skipped} ".encode())
        for key, digest in self._database.execute("SELECT key, digest FROM files ORDER BY key"):
            total.update(f"{len(key)} {digest} ".encode() + key)
        return total.hexdigest()[:12]

    def _about(self) -> dict[str, str]:
        return dict(self._database.execute("SELECT name, value FROM about"))

    def _set_about(self, name: str, value: str) -> None:
        self._database.execute(
            "INSERT INTO about VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def _snapshot(self) -> Snapshot | None:
        about = self._about()
        if "digest" not in about:
            return None
        row = self._database.one("SELECT count(*) FROM files")
        assert row is not None
        return Snapshot(digest=about["digest"], n_files=row[0], skipped=about["skipped"])

    def _taken(self) -> Snapshot:
        snapshot = self._snapshot()
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
