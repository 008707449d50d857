"""Documents and their chunks: values whose bytes depend on nothing but the text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentkit.blocks import printable
from agentkit.context import Document
from agentkit.knowledge.errors import KnowledgeError

CHUNK_CHARS = 1_600
"""About 400 tokens: long enough to be understood alone."""


@dataclass(frozen=True, slots=True)
class Source:
    """A whole document, as it was put in."""

    uri: str
    text: str
    etag: str = field(init=False)
    """Tagged SHA-256 of the text: equal texts, equal tags, at any time and on any machine."""

    def __post_init__(self) -> None:
        for name, value in (("uri", self.uri), ("text", self.text)):
            if not isinstance(value, str):
                raise KnowledgeError(f"the {name} of a document must be a str, got {value!r:.200}")
            if printable(value) != value or "\0" in value:
                raise KnowledgeError(
                    f"the {name} of a document has a lone surrogate or a NUL: {value!r:.200}; "
                    "pass it through agentkit.blocks.printable, or leave it out"
                )
        if not self.uri:
            raise KnowledgeError("a document needs a URI that is not empty; it decides its place")
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        object.__setattr__(self, "etag", f"sha256:{digest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a document."""

    uri: str
    index: int
    """Place within its document, from 0."""
    text: str
    etag: str
    """Of the whole document."""

    @property
    def document(self) -> Document:
        """The chunk for a context's KNOWLEDGE tier, e.g. `guide.md#0003`.

        It says nothing of when it was read or how well it fits: that would change its bytes.
        """
        return Document(uri=f"{self.uri}#{self.index:04d}", text=self.text)


def chunks_of(source: Source, chunk_chars: int = CHUNK_CHARS) -> tuple[Chunk, ...]:
    """Cut a document at paragraphs, then lines, then anywhere; the pieces together are the text.

    An empty document has one empty chunk, so that it can be found by its URI.
    """
    if chunk_chars < 1:
        raise KnowledgeError(f"chunk_chars must be at least 1, got {chunk_chars!r}")
    return tuple(
        Chunk(uri=source.uri, index=index, text=text, etag=source.etag)
        for index, text in enumerate(_packed(source.text, chunk_chars) or [""])
    )


def _packed(text: str, limit: int) -> list[str]:
    """Fill chunks with whole paragraphs up to the limit."""
    packed: list[str] = []
    for piece in _pieces(text, limit):
        if packed and len(packed[-1]) + len(piece) <= limit:
            packed[-1] += piece
        else:
            packed.append(piece)
    return packed


def _pieces(text: str, limit: int) -> Iterator[str]:
    for paragraph in _PARAGRAPH.findall(text):
        if len(paragraph) <= limit:
            yield paragraph
            continue
        for line in paragraph.splitlines(keepends=True):
            for start in range(0, len(line), limit):
                yield line[start : start + limit]


_PARAGRAPH = re.compile(r"(?:[^\n]+\n?)+\n*|\n+")
