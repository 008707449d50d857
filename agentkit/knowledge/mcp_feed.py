"""Keeps a `Knowledge` in step with the resources of an MCP server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentkit.knowledge.errors import KnowledgeError
from agentkit.knowledge.knowledge import Knowledge
from agentkit.toolset.errors import McpConnectError, McpRequestError
from agentkit.toolset.mcp import McpConnection
from agentkit.toolset.mcp.content.resources import McpResource, ResourcePart
from agentkit.toolset.threads import run_in_thread

_LOGGER = logging.getLogger("agentkit.mcp")
_AT_ONCE = 8
"""Resources that are read at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedReport:
    """What one look at a server has changed."""

    version: int
    """The knowledge's version afterwards."""
    changed: tuple[str, ...]
    """URIs of documents that are new or have another text, sorted."""
    withdrawn: tuple[str, ...]
    """URIs of documents whose resource is gone, sorted."""
    notes: tuple[str, ...]
    """What was left out, and why. A document that could not be read again keeps its text."""


class McpFeed:
    """Documents out of the resources of a server, each under `{alias}:{uri of the resource}`.

        feed = McpFeed(connection, knowledge)
        await feed.refresh()                        # once, or
        task = asyncio.create_task(feed.follow())   # until it is cancelled

    Only documents under its alias are changed or withdrawn, so servers cannot touch each other's,
    nor the app's own. A text that has not changed makes no new version. Texts are as untrusted as
    their server: they are looked through as descriptions are, and left out where the server's
    `Trust.refuses_flagged` says so.

    Args:
        connection: a connected server.
        knowledge: gets the documents.
        takes: which resources; None: all.
        max_document_chars: a longer text is left out, with a note.

    Raises:
        KnowledgeError: at construction, for a limit that is of no use.
    """

    def __init__(
        self,
        connection: McpConnection,
        knowledge: Knowledge,
        *,
        takes: Callable[[McpResource], bool] | None = None,
        max_document_chars: int = 500_000,
    ) -> None:
        if not max_document_chars > 0:
            raise KnowledgeError(f"max_document_chars must be above 0, not {max_document_chars!r}")
        self._connection = connection
        self._knowledge = knowledge
        self._takes = takes
        self._max_chars = max_document_chars
        self._prefix = f"{connection.server.alias}:"
        self._refreshing = asyncio.Lock()
        self._said: set[str] = set()

    async def refresh(self) -> FeedReport:
        """Read all resources, and bring their documents up to date in one step.

        Raises:
            McpConnectError: the server cannot be reached; the knowledge stays as it is.
            McpRequestError: it does not list its resources; likewise.
        """
        async with self._refreshing:
            listed = await self._connection.resources()
            taken = [each for each in listed if self._takes is None or self._takes(each)]
            notes: list[str] = []
            texts = await self._texts(taken, notes)
            before = self._own(self._knowledge.etags())
            gone = before.keys() - {self._prefix + each.uri for each in taken}
            changes: dict[str, str | None] = {**texts, **dict.fromkeys(gone)}
            version = await run_in_thread(lambda: self._knowledge.update(changes), "feed")
            now = self._own(self._knowledge.etags(version))
        self._log(notes)
        return FeedReport(
            version=version,
            changed=tuple(sorted(uri for uri in now if now[uri] != before.get(uri))),
            withdrawn=tuple(sorted(before.keys() - now.keys())),
            notes=tuple(sorted(notes)),
        )

    async def follow(self, *, every_s: float = 300.0) -> None:
        """Refresh now, whenever the server announces a change of its resources, and every so often.

        Goes on until it is cancelled. While the server cannot be reached the documents stay as they
        are, and a warning is logged.

        Args:
            every_s: the longest time between two looks, in seconds. Not every server announces
                changes, and few announce those of single resources.
        """
        changed = self._connection.resources_changed
        while True:
            changed.clear()
            try:
                await self.refresh()
            except (McpConnectError, McpRequestError) as error:
                self._log([str(error)])
            try:
                async with asyncio.timeout(every_s):
                    await changed.wait()
            except TimeoutError:
                continue

    async def _texts(self, resources: list[McpResource], notes: list[str]) -> dict[str, str]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def read(resource: McpResource) -> tuple[str, str | None]:
            async with slots:
                return self._prefix + resource.uri, await self._text(resource, notes)

        # A group, so that no reading is left behind when one of them raises.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(read(resource)) for resource in resources]
        return {uri: text for uri, text in (task.result() for task in tasks) if text is not None}

    async def _text(self, resource: McpResource, notes: list[str]) -> str | None:
        """The text of a resource; None and a note where it has none, or cannot be read now."""
        try:
            parts = await self._connection.read_resource(resource.uri)
        except (McpRequestError, McpConnectError) as error:
            notes.append(f"{resource.uri!r} could not be read: {error}")
            return None
        text, n_bytes = _joined(parts)
        if n_bytes:
            notes.append(f"{n_bytes:,} bytes of {resource.uri!r} are no text, and were left out")
        if not text:
            return None
        if len(text) > self._max_chars:
            notes.append(
                f"{resource.uri!r} has {len(text):,} characters and was left out; the limit is "
                f"max_document_chars={self._max_chars:,}"
            )
            return None
        return None if self._is_refused(resource, text, notes) else text

    def _is_refused(self, resource: McpResource, text: str, notes: list[str]) -> bool:
        from agentkit.toolset.mcp.trust.scan import flags_of_text

        flags = flags_of_text(text, f"resource {resource.uri!r}")
        notes += [str(flag) for flag in flags if flag.severity == "danger"]
        refuses = self._connection.server.trust.refuses_flagged
        return refuses and any(flag.severity == "danger" for flag in flags)

    def _own(self, etags: Mapping[str, str]) -> dict[str, str]:
        return {uri: etag for uri, etag in etags.items() if uri.startswith(self._prefix)}

    def _log(self, notes: list[str]) -> None:
        """Log what was not logged before."""
        for note in sorted(set(notes) - self._said):
            self._said.add(note)
            _LOGGER.warning("MCP server %r: %s", self._connection.server.alias, note)


def _joined(parts: tuple[ResourcePart, ...]) -> tuple[str, int]:
    """One text of all parts, of several each with its URI, and the size of what is no text."""
    texts = [part for part in parts if part.text]
    n_bytes = sum(len(part.data) for part in parts if part.data is not None)
    if len(texts) == 1:
        return texts[0].text or "", n_bytes
    return "\n\n".join(f"{part.uri}\n{part.text}" for part in texts), n_bytes
