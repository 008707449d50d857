"""Notes in one SQLite file, to which is only added: for many processes, and through crashes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentkit_tools._chunking import inner_words
from agentkit_tools._database import Database
from agentkit_tools._errors import Refused

MAX_NOTES = 10_000
_MAX_FILE_BYTES = 256 * 1024 * 1024
_MAX_SECONDS = 5.0
_SCHEMA_VERSION = "1"

_SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"INSERT INTO about VALUES ('notes', '{_SCHEMA_VERSION}')",
    "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, tags TEXT NOT NULL, "
    "replaces INTEGER UNIQUE REFERENCES notes (id), made_at TEXT)",
    "CREATE VIRTUAL TABLE note_index USING fts5("
    "text, inside, tags, content='', tokenize='porter unicode61 remove_diacritics 2')",
    "CREATE TRIGGER notes_stay BEFORE UPDATE ON notes "
    "BEGIN SELECT RAISE(ABORT, 'notes are never changed'); END",
    "CREATE TRIGGER notes_remain BEFORE DELETE ON notes "
    "BEGIN SELECT RAISE(ABORT, 'notes are never deleted'); END",
)

_COLUMNS = "notes.id, notes.text, notes.tags, notes.replaces, notes.made_at"
_CURRENT = "NOT EXISTS (SELECT 1 FROM notes AS later WHERE later.replaces = notes.id)"

_SEARCH = f"""
SELECT {_COLUMNS} FROM note_index JOIN notes ON notes.id = note_index.rowid
WHERE note_index MATCH ? AND has_tag(notes.tags, ?) AND (? OR {_CURRENT})
ORDER BY bm25(note_index, 1.0, 0.5, 2.0), notes.id LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Note:
    """A note. `replaces` is the id of an older one, `made_at` a time in UTC if those are kept."""

    id: int
    text: str
    tags: tuple[str, ...]
    replaces: int | None
    made_at: str | None


class NoteStore:
    """The notes of one file, which is made if it is not there. Ids count from 1, without gaps.

    `now` gives the time that is kept with a note; without it none is.

    Raises:
        sqlite3.Error, OSError: the file cannot be opened, or is no database.
        ValueError: the file holds something else.
    """

    def __init__(self, file: str, now: Callable[[], str] | None = None) -> None:
        self._now = now
        if file != ":memory:":
            # Notes are nobody else's business.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._database = Database(
            file,
            max_bytes=_MAX_FILE_BYTES,
            full="there is no room for more notes; export them and begin a new file",
        )
        self._database.add_function("has_tag", 2, _has_tag)
        # An answer means that the note is on the disk, also after a loss of power.
        self._database.execute("PRAGMA synchronous = FULL")
        self._prepare(file)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def add(
        self, text: str, tags: tuple[str, ...], replaces: int | None = None
    ) -> tuple[int, bool]:
        """Add a note. Returns its id, and whether it is new: a current one like it stays alone.

        Raises:
            Refused: no note to replace, or it is replaced already; no room.
        """
        with self._database.turn("writes", _MAX_SECONDS):
            same = self._database.one(
                f"SELECT id, replaces FROM notes WHERE text = ? AND tags = ? AND {_CURRENT} "
                "ORDER BY replaces IS NOT ?, id",
                (text, _joined(tags), replaces),
            )
            if replaces is not None and not (same and same[1] == replaces):
                self._check_current(replaces)
            if same:
                return same[0], False
            return self._insert(text, tags, replaces), True

    def after(self, number: int, tag: str, limit: int) -> list[Note]:
        """Notes in the order they were added, replaced ones too, from behind an id on."""
        return self._notes(
            f"SELECT {_COLUMNS} FROM notes WHERE id > ? AND has_tag(tags, ?) ORDER BY id LIMIT ?",
            (number, tag, limit),
        )

    def get(self, number: int) -> tuple[Note, int | None]:
        """A note, and the id of the one that replaces it.

        Raises:
            Refused: there is no such note.
        """
        with self._database.turn("reads", _MAX_SECONDS):
            row = self._database.one(f"SELECT {_COLUMNS} FROM notes WHERE id = ?", (number,))
            if row is None:
                raise Refused(self._unknown(number))
            later = self._database.one("SELECT id FROM notes WHERE replaces = ?", (number,))
            return _note(row), later[0] if later else None

    def search(self, expression: str, tag: str, limit: int, *, with_replaced: bool) -> list[Note]:
        """The best notes for an expression of `match_expression`, best first, then oldest first."""
        return self._notes(_SEARCH, (expression, tag, with_replaced, limit))

    def _prepare(self, file: str) -> None:
        with self._database.turn("writes", _MAX_SECONDS):
            names = {name for (name,) in self._database.execute("SELECT name FROM sqlite_schema")}
            if not names:
                for statement in _SCHEMA:
                    self._database.execute(statement)
            elif not {"about", "notes", "note_index"} <= names or self._database.one(
                "SELECT value FROM about WHERE name = 'notes'"
            ) != (_SCHEMA_VERSION,):
                raise ValueError(f"{file!r} holds something else than notes; name another file")

    def _insert(self, text: str, tags: tuple[str, ...], replaces: int | None) -> int:
        (last,) = self._database.one("SELECT coalesce(max(id), 0) FROM notes") or (0,)
        if last >= MAX_NOTES:
            raise Refused(
                f"there are {MAX_NOTES} notes, which is the limit; export them and begin a new file"
            )
        number: int = last + 1
        made_at = self._now() if self._now else None
        self._database.execute(
            "INSERT INTO notes (id, text, tags, replaces, made_at) VALUES (?, ?, ?, ?, ?)",
            (number, text, _joined(tags), replaces, made_at),
        )
        self._database.execute(
            "INSERT INTO note_index (rowid, text, inside, tags) VALUES (?, ?, ?, ?)",
            (number, text, inner_words(text), " ".join(tags)),
        )
        return number

    def _check_current(self, number: int) -> None:
        if not self._database.one("SELECT 1 FROM notes WHERE id = ?", (number,)):
            raise Refused(self._unknown(number))
        later = self._database.one("SELECT id FROM notes WHERE replaces = ?", (number,))
        if later:
            raise Refused(f"note {number} was replaced by note {later[0]}; replace that one")

    def _unknown(self, number: int) -> str:
        (last,) = self._database.one("SELECT coalesce(max(id), 0) FROM notes") or (0,)
        known = f"the ids are 1 to {last}" if last else "there are none yet"
        return f"there is no note {number}; {known}"

    def _notes(self, statement: str, values: tuple[Any, ...]) -> list[Note]:
        with self._database.turn("reads", _MAX_SECONDS):
            return [_note(row) for row in self._database.execute(statement, values)]


def _note(row: tuple[Any, ...]) -> Note:
    number, text, tags, replaces, made_at = row
    return Note(number, text, tuple(json.loads(tags)), replaces, made_at)


def _joined(tags: tuple[str, ...]) -> str:
    return json.dumps(tags, ensure_ascii=False)


def _has_tag(tags: str, wanted: str) -> bool:
    return not wanted or wanted in json.loads(tags)
