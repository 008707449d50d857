"""The full-text index of a snapshot: SQLite FTS5 with English stems, ranked by BM25.

Words are what spaces and punctuation part. Text in scripts that write no spaces is found by whole
runs only.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

from agentkit.knowledge.chunks import Chunk

SCHEMA = """
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,  -- in the order of URI and index: it decides between equal ranks
    uri TEXT NOT NULL,
    place INTEGER NOT NULL,
    etag TEXT NOT NULL,
    text TEXT NOT NULL,
    parts TEXT NOT NULL,     -- the words inside identifiers, which the tokenizer does not part
    UNIQUE (uri, place)
);
CREATE VIRTUAL TABLE chunk_index USING fts5(
    text, parts, content='chunks', content_rowid='id', tokenize='porter unicode61'
);
"""

_SEARCH = """
SELECT chunks.uri, chunks.place, chunks.text, chunks.etag
FROM chunk_index JOIN chunks ON chunks.id = chunk_index.rowid
WHERE chunk_index MATCH ? ORDER BY bm25(chunk_index), chunk_index.rowid LIMIT ?
"""


def fill(connection: sqlite3.Connection, chunks: Iterable[Chunk]) -> None:
    """Put chunks into an empty index, in the order of URI and index."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.uri, chunk.index))
    connection.executemany(
        "INSERT INTO chunks (id, uri, place, etag, text, parts) VALUES (?, ?, ?, ?, ?, ?)",
        (
            (number, chunk.uri, chunk.index, chunk.etag, chunk.text, _parts(chunk.text))
            for number, chunk in enumerate(ordered, start=1)
        ),
    )
    connection.execute("INSERT INTO chunk_index (chunk_index) VALUES ('rebuild')")


def search(connection: sqlite3.Connection, query: str, limit: int) -> tuple[Chunk, ...]:
    """Return the best chunks that have any of the query's words, best first."""
    expression = match_expression(query)
    if expression is None:
        return ()
    return _chunks(connection.execute(_SEARCH, (expression, limit)))


def every(connection: sqlite3.Connection) -> tuple[Chunk, ...]:
    """Return all chunks, in the order of URI and index."""
    return _chunks(connection.execute("SELECT uri, place, text, etag FROM chunks ORDER BY id"))


def match_expression(query: str) -> str | None:
    """Return the FTS5 expression: each word quoted, joined by OR. None: there is no word.

    Quoted, no word is an operator and no punctuation is a syntax error.
    """
    text = query.replace("\0", " ")
    words = dict.fromkeys(word.lower() for word in _WORD.findall(f"{text} {_parts(text)}"))
    return " OR ".join(f'"{word}"' for word in words) or None


def _chunks(rows: Iterable[tuple[str, int, str, str]]) -> tuple[Chunk, ...]:
    return tuple(
        Chunk(uri=uri, index=place, text=text, etag=etag) for uri, place, text, etag in rows
    )


def _parts(text: str) -> str:
    """Return the words inside camel-case identifiers, each once, in order."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(_WORD.findall(text)):
        pieces = _HUMP.sub(" ", word).split()
        if len(pieces) > 1:
            found.update(dict.fromkeys(pieces))
    return " ".join(found)


_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
