"""What an agent has of a `Knowledge`: all documents in its front, and a tool that searches them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from agentkit.caching.tokens import data_tokens
from agentkit.context import Context, Document, Segment
from agentkit.context.prices import Prices
from agentkit.context.segment import Content
from agentkit.context.tier import Tier
from agentkit.context.version import FrontChange, choose
from agentkit.knowledge import Knowledge, as_message
from agentkit.knowledge.catch_up import News
from agentkit.knowledge.changes import document_uri, uris_in_front
from agentkit.knowledge.shown import outdated, shown_uris, told_uris, unknown
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

    The agent can always search them: a tool that comes or goes would change the prompt of the whole
    team. Whether they lie in the front too is decided once.

    Args:
        knowledge: where they come from.
        most_tokens: up to how many tokens they lie in the front, by estimate.
    """

    def __init__(self, knowledge: Knowledge, most_tokens: int) -> None:
        self.knowledge = knowledge
        self.tool: Tool = knowledge.tool()
        """Searches them."""
        self._most_tokens = most_tokens
        self._lock = threading.Lock()
        self._n_begun = 0
        """Runs that began with this edition, so that a provider may have it in its cache."""
        self._n_told = 0
        """Those of them that had to be told of changes."""
        self._is_warned = False
        version = knowledge.version
        documents = knowledge.snapshot(version).documents
        fits = _tokens(documents) <= most_tokens
        self._fit = (version, fits)
        """Whether all documents of the version that was asked for last may be shown."""
        self.searches = not fits
        """Whether the model has nothing but the tool."""
        self._edition = Edition(version=version, documents=documents if fits else ())

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

    def news(
        self,
        context: Context,
        since: int | None,
        until: int,
        seen: frozenset[str],
        *,
        can_search: bool = True,
    ) -> News:
        """Return what a conversation has to be told.

        Args:
            context: the conversation.
            since: the version that it knows; None: what its own text says.
            until: what is true now.
            seen: URIs of documents that it has seen, and that a summary may speak of.
            can_search: whether it was begun with the tool.
        """
        everything = not self.searches and self._fits(until)
        known = shown_uris(context) | seen
        if since is None:
            changes = outdated(context, self.knowledge, until, everything=everything)
        else:
            changes = self.knowledge.changes(since, uris=known, until_version=until)
            if everything:
                changes += unknown(self.knowledge, until, known)
        shows_some = not self.searches or bool(uris_in_front(context))
        has_more = can_search and not everything and shows_some
        if has_more:
            has_more = not known.issuperset(self.knowledge.snapshot(until).uris)
        return News(changes=changes, version=until, has_more=has_more)

    def newest_front(self, context: Context, version: int) -> Context | None:
        """Return what a conversation could begin anew with; None if it has to stay as it is.

        All but the documents is the same: also the tools that it was begun with.
        """
        in_front = uris_in_front(context)
        if self.searches and not in_front:
            return None
        documents = self._newest(version, in_front | told_uris(context.messages))
        if documents is None:
            return None
        kept: list[Content] = [s.content for s in context.front if s.tier is not Tier.KNOWLEDGE]
        return Context(*kept, *documents)

    def _newer(self, front_of: Callable[[Edition], Context], prices: Prices) -> Edition | None:
        """Return a new edition if it is cheaper than to tell what has changed."""
        version, old = self.knowledge.version, self._edition
        if self.searches or version == old.version:
            return None
        shown = {document_uri(document.uri) for document in old.documents}
        documents = self._newest(version, shown)
        uris = None if self._fits(version) else shown
        changes = self.knowledge.changes(old.version, uris=uris, until_version=version)
        if documents is None or not changes:
            return None
        newer = Edition(version=version, documents=documents, epoch=old.epoch + 1)
        if not self._n_begun:
            return newer  # nobody has cached the older one
        sizes = FrontChange.of(front_of(old), front_of(newer), as_message(changes)).whole()
        is_paid = self._n_told * sizes.delta_tokens >= sizes.new_tokens
        if is_paid or choose(sizes, prices).action == "rebase":
            return newer
        self._n_told += 1
        return None

    def _newest(self, version: int, shown: Collection[str]) -> tuple[Document, ...] | None:
        """Return the latest texts for a front: of all documents, or else of those in it before."""
        documents = self.knowledge.snapshot(version).documents
        if self._fits(version):
            return documents
        before = tuple(each for each in documents if document_uri(each.uri) in shown)
        return before if _tokens(before) <= self._most_tokens else None

    def _fits(self, version: int) -> bool:
        """Whether all documents may be shown. Else only what was shown is kept up to date."""
        asked, fits = self._fit
        if asked != version:
            n_tokens = _tokens(self.knowledge.snapshot(version).documents)
            fits = n_tokens <= self._most_tokens
            self._fit = (version, fits)
            if not fits and not self.searches:
                self._warn(n_tokens)
        return fits

    def _warn(self, n_tokens: int) -> None:
        if self._is_warned:
            return
        self._is_warned = True
        _LOGGER.warning(
            "the documents have about %s tokens now, and at most knowledge_tokens=%s lie in the "
            "prompt: those that lie there are kept up to date, and the model has to search for the "
            "others with %s; a new agent with a higher knowledge_tokens shows all of them",
            n_tokens,
            self._most_tokens,
            self.tool.spec.name,
        )


def _tokens(documents: tuple[Document, ...]) -> int:
    return sum(data_tokens(Segment(document).data) for document in documents)
