"""Where documents live: an append-only log of versions in SQLite, in memory or in a file.

Many processes may use one file. What another has written is seen at the next question.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentkit.knowledge.chunks import Source
from agentkit.knowledge.errors import KnowledgeError
from agentkit.wal import use_wal

_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (etag TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS log (
    version INTEGER PRIMARY KEY,
    uri TEXT NOT NULL,
    etag TEXT REFERENCES texts (etag)  -- NULL: withdrawn
);
CREATE INDEX IF NOT EXISTS log_by_uri ON log (uri, version);
"""

_STATE = """
SELECT log.uri, log.etag FROM log
JOIN (SELECT uri, max(version) AS version FROM log WHERE version <= ? GROUP BY uri) AS latest
ON latest.uri = log.uri AND latest.version = log.version
WHERE log.etag IS NOT NULL ORDER BY log.uri
"""

_BUSY_S = 10.0


class Store:
    """The log. A version is one change; version 0 has no documents. Usable from any thread."""

    def __init__(self, path: str | Path | None) -> None:
        self._lock = threading.RLock()
        self._connection = _opened(path)
        self._seen: int | None = None
        self._version = 0

    @property
    def version(self) -> int:
        """The latest version, by whichever process."""
        with self._lock:
            # It moves when another connection has committed, and costs microseconds to ask.
            (seen,) = self._connection.execute("PRAGMA data_version").fetchone()
            if seen != self._seen:
                self._version = self._latest()
                self._seen = seen
            return self._version

    def write(self, changes: Mapping[str, Source | None]) -> int:
        """Apply changes in one step, and return the latest version.

        None withdraws. What changes nothing is no version.
        """
        with self._lock:
            with self._transaction():
                state = self._state(self._latest())
                for uri, source in sorted(changes.items()):
                    if state.get(uri) != (None if source is None else source.etag):
                        self._append(uri, source)
                version = self._latest()
            self._version = version
            return version

    def etags(self, version: int) -> Mapping[str, str]:
        """Return the ETag of each document at a version, by URI, sorted.

        Raises:
            KnowledgeError: there is no such version.
        """
        with self._lock:
            if not 0 <= version <= self.version:
                raise KnowledgeError(
                    f"there is no version {version!r}; the latest is {self.version}"
                )
            return self._state(version)

    def has_known(self, uri: str) -> bool:
        """Return whether a document was ever there."""
        with self._lock:
            row = self._connection.execute("SELECT 1 FROM log WHERE uri = ? LIMIT 1", (uri,))
            return row.fetchone() is not None

    def source(self, uri: str, etag: str) -> Source:
        """Return a document by its URI and ETag, at whichever version it was."""
        with self._lock:
            row = self._connection.execute("SELECT text FROM texts WHERE etag = ?", (etag,))
            (text,) = row.fetchone()
        return Source(uri, text)

    def close(self) -> None:
        """Close it. Idempotent."""
        with self._lock:
            self._connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):  # not if it could not be opened
            self._connection.close()

    def _append(self, uri: str, source: Source | None) -> None:
        etag = None
        if source is not None:
            etag = source.etag
            self._connection.execute(
                "INSERT OR IGNORE INTO texts VALUES (?, ?)", (etag, source.text)
            )
        self._connection.execute("INSERT INTO log (uri, etag) VALUES (?, ?)", (uri, etag))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def _latest(self) -> int:
        (version,) = self._connection.execute(
            "SELECT coalesce(max(version), 0) FROM log"
        ).fetchone()
        return int(version)

    def _state(self, version: int) -> Mapping[str, str]:
        return dict(self._connection.execute(_STATE, (version,)).fetchall())


def _opened(path: str | Path | None) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            ":memory:" if path is None else Path(path),
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise KnowledgeError(
            f"cannot open {str(path)!r}: {error}; does its folder exist?"
        ) from None
    try:
        use_wal(connection, _BUSY_S)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise KnowledgeError(f"{str(path)!r} is no store of knowledge: {error}") from error
    return connection
