"""One version of all documents, immutable, in one SQLite file or in memory."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType

from agentkit.caching.tokens import data_tokens
from agentkit.context import Document
from agentkit.context.canonical import canonical_json
from agentkit.knowledge import index
from agentkit.knowledge.chunks import CHUNK_CHARS, Chunk, Source, chunks_of
from agentkit.knowledge.errors import KnowledgeError
from agentkit.whole_file import whole_file

_FORMAT = 1

_CANDIDATES = 200
"""How many of the best chunks a token budget is filled from."""


class Snapshot:
    """A version of the documents that never changes. Usable from any thread.

    Relevance decides *which* chunks are selected; URI and index decide their *order*. So two
    queries that find the same chunks give the same bytes, and the same query always does.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        meta: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta"))
        if meta.get("format") != str(_FORMAT):
            raise KnowledgeError(
                f"the snapshot has the format {meta.get('format')!r}, and this version of agentkit "
                f"reads {_FORMAT!r}; write it again"
            )
        self.version = int(meta["version"])
        """The version of the knowledge that it was taken of."""
        self.digest: str = meta["digest"]
        """Tagged SHA-256 over URIs, ETags and the size of chunks: equal digests, equal answers."""

    @classmethod
    def build(
        cls,
        sources: Iterable[Source],
        *,
        version: int = 0,
        path: str | Path | None = None,
        chunk_chars: int = CHUNK_CHARS,
    ) -> Snapshot:
        """Index documents.

        Args:
            sources: the documents; their order does not matter.
            version: what to call it.
            path: the file to write, complete or not at all; None: in memory.
            chunk_chars: how long a chunk may be.

        Raises:
            KnowledgeError: two documents have one URI, or the file exists.
        """
        ordered = sorted(sources, key=lambda source: source.uri)
        _check_unique(ordered)
        if path is None:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            _write(connection, ordered, version, chunk_chars)
            connection.execute("PRAGMA query_only = ON")
            return cls(connection)
        target = Path(path)
        if target.exists():
            raise _exists(target)
        try:
            with (
                whole_file(target, is_new=True) as unfinished,
                closing(sqlite3.connect(unfinished)) as writing,
            ):
                _write(writing, ordered, version, chunk_chars)
        except FileExistsError:  # somebody else was faster
            raise _exists(target) from None
        return cls.open(target)

    @classmethod
    def open(cls, path: str | Path) -> Snapshot:
        """Open a file that `build` wrote.

        Raises:
            KnowledgeError: there is no such file, or it is no snapshot.
        """
        target = Path(path)
        if not target.is_file():
            raise KnowledgeError(f"there is no snapshot at {str(target)!r}")
        uri = f"{target.resolve().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            return cls(connection)
        except (sqlite3.DatabaseError, KeyError) as error:
            connection.close()
            raise KnowledgeError(f"{str(target)!r} is no snapshot: {error}") from error
        except KnowledgeError:
            connection.close()
            raise

    @property
    def uris(self) -> tuple[str, ...]:
        """The URIs of all documents, sorted."""
        with self._lock:
            rows = self._connection.execute("SELECT DISTINCT uri FROM chunks ORDER BY uri")
            return tuple(uri for (uri,) in rows)

    @property
    def documents(self) -> tuple[Document, ...]:
        """All chunks, in the order in which a context takes them."""
        with self._lock:
            return _in_order(index.every(self._connection))

    def search(self, query: str, k: int = 5) -> tuple[Chunk, ...]:
        """Return at most `k` chunks that have any of the query's words, best first."""
        _check_positive("k", k)
        with self._lock:
            return index.search(self._connection, query, k)

    def select(
        self, query: str, *, k: int | None = None, max_tokens: int | None = None
    ) -> tuple[Document, ...]:
        """Return the best chunks for a context's KNOWLEDGE tier, in the order of their URIs.

        Args:
            query: what they should be about.
            k: how many at most; 5 where `max_tokens` is not given either.
            max_tokens: how long they may be together, by estimate. A chunk that does not fit any
                more is passed over for a shorter one.
        """
        for name, bound in (("k", k), ("max_tokens", max_tokens)):
            if bound is not None:
                _check_positive(name, bound)
        if max_tokens is None:
            return _in_order(self.search(query, 5 if k is None else k))
        chosen: list[Chunk] = []
        left = max_tokens
        for chunk in self.search(query, _CANDIDATES):
            n_tokens = data_tokens(chunk.document.text.encode())
            if n_tokens <= left and (k is None or len(chosen) < k):
                chosen.append(chunk)
                left -= n_tokens
        return _in_order(chosen)

    def close(self) -> None:
        """Close its file. Idempotent."""
        with self._lock:
            self._connection.close()

    def __del__(self) -> None:
        self._connection.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Snapshot(version={self.version}, digest={self.digest[:15]!r})"


def _write(
    connection: sqlite3.Connection, sources: list[Source], version: int, chunk_chars: int
) -> None:
    etags = [[source.uri, source.etag] for source in sources]
    digest = hashlib.sha256(canonical_json({"chunk_chars": chunk_chars, "documents": etags}))
    try:
        connection.executescript(index.SCHEMA)
    except sqlite3.OperationalError as error:
        raise KnowledgeError(
            f"the SQLite {sqlite3.sqlite_version} of this Python cannot search text ({error}); use "
            "a Python whose SQLite has FTS5, as nearly all have"
        ) from error
    with connection:
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        index.fill(
            connection, (chunk for each in sources for chunk in chunks_of(each, chunk_chars))
        )
        connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [
                ("format", str(_FORMAT)),
                ("version", str(version)),
                ("digest", f"sha256:{digest.hexdigest()}"),
            ],
        )


def _exists(target: Path) -> KnowledgeError:
    return KnowledgeError(f"{str(target)!r} exists, and snapshots never change; take another")


def _in_order(chunks: Iterable[Chunk]) -> tuple[Document, ...]:
    return tuple(sorted((each.document for each in chunks), key=lambda document: document.uri))


def _check_unique(ordered: list[Source]) -> None:
    for first, second in itertools.pairwise(ordered):
        if first.uri == second.uri:
            raise KnowledgeError(f"two documents have the URI {first.uri!r}; give one another")


def _check_positive(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise KnowledgeError(f"{name} must be an int of at least 1, got {value!r}")
