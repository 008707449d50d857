"""Knowledge: documents that change, in versions that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from agentkit.context import Document
from agentkit.knowledge.changes import SEARCH_TOOL, Added, Change, Changed, Withdrawn
from agentkit.knowledge.chunks import CHUNK_CHARS, Source
from agentkit.knowledge.errors import KnowledgeError
from agentkit.knowledge.snapshot import Snapshot
from agentkit.knowledge.store import Store
from agentkit.toolset import Tool

Loader: TypeAlias = Callable[[str], str | None]
"""Reads a document by its URI; None: it does not exist any more."""


class Knowledge:
    """Documents by URI. Every change is a new version; a `Snapshot` of a version never changes.

    An agent's context is built on one version. When documents change, tell running conversations
    with `as_message(knowledge.changes(version))`, or begin a new epoch; see
    `agentkit.context.version.choose`.

    Usable from any thread. With a path, many processes share it: what one writes, the others see at
    their next call.

    Args:
        path: the SQLite file, made where it does not exist; None: in memory.
        loader: reads a document again, for `invalidate`.
        chunk_chars: how long a chunk may be.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        loader: Loader | None = None,
        chunk_chars: int = CHUNK_CHARS,
    ) -> None:
        self._store = Store(path)
        self._loader = loader
        self._chunk_chars = chunk_chars
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        """Held from reading to writing, so that an older reading is never written last."""
        self._latest: Snapshot | None = None

    @property
    def version(self) -> int:
        """The latest version; 0 is empty."""
        return self._store.version

    def put(self, uri: str, text: str) -> int:
        """Add or change a document, and return the latest version. An equal text changes nothing.

        Raises:
            KnowledgeError: the URI is empty, or the text has no UTF-8 form.
        """
        return self._store.write({uri: Source(uri, text)})

    def put_all(self, documents: Mapping[str, str]) -> int:
        """Add or change many documents by URI in one step."""
        return self._store.write({uri: Source(uri, text) for uri, text in documents.items()})

    def update(self, changes: Mapping[str, str | None]) -> int:
        """Add, change and withdraw (None) documents by URI in one step, and return the version."""
        return self._store.write(
            {uri: None if text is None else Source(uri, text) for uri, text in changes.items()}
        )

    def remove(self, uri: str) -> int:
        """Withdraw a document, and return the latest version. One that is not there is no change.

        Its text stays in older versions.
        """
        return self._store.write({uri: None})

    def invalidate(self, uri: str) -> int:
        """Read a document again through the loader; it may have changed or be gone.

        Raises:
            KnowledgeError: there is no loader.
        """
        with self._loading:
            return self._store.write({uri: self._loaded(uri)})

    def handle_webhook(self, payload: Mapping[str, object]) -> int:
        """Take the body of a webhook: all its events in one step, or none. Returns the version.

        `{"events": [{"uri": "guide.md", "kind": "updated", "text": "..."}, ...]}`, or one event by
        itself. Without a text the document is read through the loader. The same body twice changes
        nothing the second time. Who may call is for the web server to check.

        Raises:
            KnowledgeError: the body does not fit, or the loader is missing.
        """
        from agentkit.knowledge.webhook import events_of

        events = events_of(payload)
        changes: dict[str, Source | None] = {}
        with self._loading:
            for event in events:
                if event.kind == "deleted":
                    changes[event.uri] = None
                elif event.text is not None:
                    changes[event.uri] = Source(event.uri, event.text)
                else:
                    changes[event.uri] = self._loaded(event.uri)
            return self._store.write(changes)

    def get(self, uri: str) -> str | None:
        """Return a document's latest text; None if there is none."""
        etag = self._store.etags(self.version).get(uri)
        return None if etag is None else self._store.source(uri, etag).text

    def has_known(self, uri: str) -> bool:
        """Return whether any version has a document with this URI."""
        return self._store.has_known(uri)

    def etags(self, version: int | None = None) -> Mapping[str, str]:
        """Return the ETag of each document by URI, sorted; of the latest version by default."""
        return self._store.etags(self.version if version is None else version)

    def snapshot(self, version: int | None = None, *, path: str | Path | None = None) -> Snapshot:
        """Return a version, the latest by default, that can be searched and never changes.

        Args:
            version: which one.
            path: a file to keep it in, for `Snapshot.open` by others; None: in memory, and the
                latest one is kept and given to all who ask.

        Raises:
            KnowledgeError: there is no such version, or the file exists.
        """
        wanted = self.version if version is None else version
        with self._lock:
            if path is None and self._latest is not None and self._latest.version == wanted:
                return self._latest
            etags = self._store.etags(wanted)
            made = Snapshot.build(
                (self._store.source(uri, etag) for uri, etag in etags.items()),
                version=wanted,
                path=path,
                chunk_chars=self._chunk_chars,
            )
            if path is None and wanted == self.version:
                self._latest = made
            return made

    def select(
        self, query: str, *, k: int | None = None, max_tokens: int | None = None
    ) -> tuple[Document, ...]:
        """Return the chunks of the latest version that fit a query, see `Snapshot.select`."""
        return self.snapshot().select(query, k=k, max_tokens=max_tokens)

    def changes(
        self,
        since_version: int,
        *,
        uris: Collection[str] | None = None,
        until_version: int | None = None,
    ) -> tuple[Change, ...]:
        """Return what is different from a version, sorted by URI. There and back is no change.

        Args:
            since_version: what a conversation was built on.
            uris: only these documents, e.g. `uris_in(context)`: those the conversation has seen.
            until_version: the version to compare it with; None: the latest.

        Raises:
            KnowledgeError: there is no such version.
        """
        before = self._store.etags(since_version)
        now = self._store.etags(self.version if until_version is None else until_version)
        found: list[Change] = []
        for uri in sorted(before.keys() | now.keys() if uris is None else set(uris)):
            old, new = before.get(uri), now.get(uri)
            if old == new:
                continue
            if new is None:
                found.append(Withdrawn(uri=uri))
                continue
            text = self._store.source(uri, new).text
            made = Added if old is None else Changed
            found.append(made(uri=uri, text=text, etag=new))
        return tuple(found)

    def tool(self, name: str = SEARCH_TOOL, *, k: int = 5) -> Tool:
        """Return a tool that searches the latest version. Its results are part of the history.

        Args:
            name: what the model calls it.
            k: how many chunks it shows at most.
        """
        from agentkit.knowledge.search_tool import search_tool

        return search_tool(self, name, k)

    def close(self) -> None:
        """Close the store. Snapshots that were given out stay usable."""
        self._store.close()

    def __enter__(self) -> Knowledge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _loaded(self, uri: str) -> Source | None:
        if self._loader is None:
            raise KnowledgeError(
                f"cannot read {uri!r} again without a loader; use Knowledge(loader=...) or "
                "put() the new text"
            )
        text = self._loader(uri)
        return None if text is None else Source(uri, text)
