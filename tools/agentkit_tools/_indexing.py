"""Bringing an index of texts up to date with a folder: only what has changed is read again."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from agentkit_tools._chunking import chunks_of, inner_words
from agentkit_tools._database import Database
from agentkit_tools._names import shown_name
from agentkit_tools._scan import Scan
from agentkit_tools._text import lines_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a snapshot differs from the one before, in files."""

    n_added: int
    n_changed: int
    n_removed: int


def take_in(database: Database, scan: Scan) -> Difference:
    """Put the texts of a folder into an index, in the place of those of before.

    Raises:
        Refused: the folder is too large for the limits of size and time.
    """
    before = {
        key: (number, state, digest)
        for number, key, state, digest in database.execute(
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
                number = _put(database, number, key, data)
            database.execute(
                "UPDATE files SET state = ?, digest = ? WHERE id = ?",
                (file.state, new_digest, number),
            )
        before.pop(key, None)
    for number, *_ in before.values():
        _remove_chunks(database, number)
        database.execute("DELETE FROM files WHERE id = ?", (number,))
    return Difference(n_added=n_added, n_changed=n_changed, n_removed=len(before))


def _put(database: Database, number: int | None, key: bytes, data: bytes) -> int:
    """Put the text of a file into the index, in the place of the one before. Returns its id."""
    if number is not None:
        _remove_chunks(database, number)
    else:
        path = shown_name(os.fsdecode(key))
        number = database.execute(
            "INSERT INTO files (key, path, state, digest) VALUES (?, ?, '', '')", (key, path)
        ).lastrowid
        assert number is not None
    # A NUL ends a text for SQLite.
    lines = lines_of(data.decode("utf-8-sig", "replace").replace("\0", "\ufffd"))
    for place, chunk in enumerate(chunks_of(lines)):
        row = database.execute(
            "INSERT INTO chunks (file_id, place, first_line, last_line) VALUES (?, ?, ?, ?)",
            (number, place, chunk.first_line, chunk.last_line),
        ).lastrowid
        database.execute(
            "INSERT INTO chunk_index (rowid, text, inside) VALUES (?, ?, ?)",
            (row, chunk.text, inner_words(chunk.text)),
        )
    return number


def _remove_chunks(database: Database, number: int) -> None:
    database.execute(
        "DELETE FROM chunk_index WHERE rowid IN (SELECT id FROM chunks WHERE file_id = ?)",
        (number,),
    )
    database.execute("DELETE FROM chunks WHERE file_id = ?", (number,))
