"""What an agent has of a `Knowledge`: all documents in its front, or a tool that searches them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from agentkit.caching.tokens import data_tokens
from agentkit.context import Context, Document, Segment
from agentkit.context.prices import Prices
from agentkit.context.version import FrontChange, choose
from agentkit.knowledge import Knowledge, as_message
from agentkit.knowledge.changes import Change
from agentkit.knowledge.shown import outdated, shown_uris
from agentkit.toolset import Tool

_LOGGER = logging.getLogger("agentkit.context")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """The documents that new runs begin with."""

    version: int
    documents: tuple[Document, ...]
    epoch: int = 0
    """How many editions there were before."""


class KnownDocuments:
    """The documents of one agent. Usable from any thread.

    Whether they lie in the front or are searched is decided once: a tool that comes or goes would
    change the prompt of the whole team.

    Args:
        knowledge: where they come from.
        most_tokens: up to how many tokens they lie in the front, by estimate.
    """

    def __init__(self, knowledge: Knowledge, most_tokens: int) -> None:
        self.knowledge = knowledge
        self._most_tokens = most_tokens
        self._lock = threading.Lock()
        self._n_begun = 0
        """Runs that began with this edition, so that a provider may have it in its cache."""
        self._n_told = 0
        """Those of them that had to be told of changes."""
        self._is_warned = False
        version = knowledge.version
        documents = knowledge.snapshot(version).documents
        self.searches = _tokens(documents) > most_tokens
        """Whether the model has a tool in place of the documents."""
        self._edition = Edition(version=version, documents=() if self.searches else documents)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the agent needs to read them."""
        return (self.knowledge.tool(),) if self.searches else ()

    @property
    def edition(self) -> Edition:
        """What new runs began with so far."""
        return self._edition

    def begin(self, front_of: Callable[[Edition], Context], prices: Prices) -> Edition:
        """Return what a new run begins with: the latest documents, or older ones, as is cheaper.

        A run that begins with older ones is told what has changed. Each run pays for writing that,
        so when they have paid as much as a new front costs, there is one.
        """
        with self._lock:
            newer = self._newer(front_of, prices)
            if newer is not None:
                self._edition, self._n_begun, self._n_told = newer, 0, 0
            self._n_begun += 1
            return self._edition

    def changes(
        self, context: Context, since: int | None, until: int, seen: frozenset[str]
    ) -> tuple[Change, ...]:
        """Return what a conversation has to be told.

        Args:
            context: the conversation.
            since: the version that it knows; None: what its own text says.
            until: what is true now.
            seen: URIs of documents that it has seen, and that a summary may speak of.
        """
        everything = not self.searches and self._fits(until)
        if since is None:
            return outdated(context, self.knowledge, until, everything=everything)
        uris = None if everything else shown_uris(context) | seen
        return self.knowledge.changes(since, uris=uris, until_version=until)

    def _newer(self, front_of: Callable[[Edition], Context], prices: Prices) -> Edition | None:
        """Return a new edition if it is cheaper than to tell what has changed."""
        version, old = self.knowledge.version, self._edition
        if self.searches or version == old.version or not self._fits(version):
            return None
        changes = self.knowledge.changes(old.version, until_version=version)
        if not changes:
            return None
        newer = Edition(
            version=version,
            documents=self.knowledge.snapshot(version).documents,
            epoch=old.epoch + 1,
        )
        if not self._n_begun:
            return newer  # nobody has cached the older one
        sizes = _whole(FrontChange.of(front_of(old), front_of(newer), as_message(changes)))
        is_paid = self._n_told * sizes.delta_tokens >= sizes.new_tokens
        if is_paid or choose(sizes, prices).action == "rebase":
            return newer
        self._n_told += 1
        return None

    def _fits(self, version: int) -> bool:
        """Whether all documents may be shown. Else only what was shown is kept up to date."""
        if version == self._edition.version:
            return True
        n_tokens = _tokens(self.knowledge.snapshot(version).documents)
        if n_tokens > self._most_tokens and not self._is_warned:
            self._is_warned = True
            _LOGGER.warning(
                "the documents have about %s tokens now, and at most knowledge_tokens=%s are "
                "shown: of new documents the agents made before are not told; make a new agent, "
                "which searches them, or raise knowledge_tokens",
                n_tokens,
                self._most_tokens,
            )
        return n_tokens <= self._most_tokens


def _whole(change: FrontChange) -> FrontChange:
    """Return the same, where of a front all is read or nothing, as by caches that need marks."""
    return replace(
        change,
        shared_tokens=0,
        old_tokens=change.shared_tokens + change.old_tokens,
        new_tokens=change.shared_tokens + change.new_tokens,
    )


def _tokens(documents: tuple[Document, ...]) -> int:
    return sum(data_tokens(Segment(document).data) for document in documents)
