"""Whose sequences ended where: sessions and tags on the tree, and the hints about them.

A label does not protect anything. It gives the leaves where its sequences ended a rank for the
policy `hints`, and lets pruning find them. When a leaf is evicted its labels go to its parent, so
that a half-evicted session is still known. Labels, tags and hints are bounded: of the tenant that
has too many, the session that was used longest ago is forgotten first, and then its prefixes are
ordinary ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentkit_runtime.kv.fair import FairlyRecent
from agentkit_runtime.kv.hints import (
    MAX_EXPECTED_S,
    Hint,
    LikelyNext,
    SessionDone,
    SessionWaits,
)
from agentkit_runtime.kv.node import DONE, NORMAL, WANTED, Node
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.timers import Timers
from agentkit_runtime.kv.tree import RadixTree

MAX_OWNERS = 8_192
"""Sessions, and sets of tags without one, that are remembered."""

MAX_TAGS = 1_024
"""Tags that are expected at the same time."""


class Label:
    """One session, or all requests without session that have the same tags. One tenant's."""

    __slots__ = (
        "done",
        "ends",
        "forgotten",
        "n_begun",
        "rank",
        "session",
        "tags",
        "tenant",
        "wanted_until_s",
    )

    def __init__(self, tenant: str, session: str | None, tags: frozenset[str]) -> None:
        self.tenant = tenant
        self.session = session
        self.tags = tags
        self.ends: dict[Node, None] = {}
        """Where its sequences ended, oldest first."""
        self.rank = NORMAL
        self.done = False
        self.wanted_until_s = 0.0
        self.forgotten = False
        """Sequences that still run with it leave no more traces."""
        self.n_begun = 0
        """Sequences that started with it; one that is resumed starts again."""


class Labels:
    """The labels of one tree."""

    def __init__(self, tree: RadixTree, timers: Timers, clock: Callable[[], float]) -> None:
        self._tree = tree
        self._timers = timers
        self._clock = clock
        self._labels: FairlyRecent[str | frozenset[str], Label] = FairlyRecent()
        self._by_tag: dict[tuple[str, str], dict[Label, None]] = {}
        self._expected: FairlyRecent[str, float] = FairlyRecent()

    def begin(self, scope: Scope, node: Node) -> Label | None:
        """A sequence starts at `node`; its session is back. None when the scope has no label."""
        if scope.session is None and not scope.tags:
            return None
        label = self._label(scope)
        label.n_begun += 1
        label.done = False
        label.wanted_until_s = 0.0
        self._rank(label)
        if node.edge:
            self._tree.own(node, label)
        return label

    def move(self, label: Label, old: Node, new: Node) -> None:
        """A sequence of `label` that ended at `old` goes on to `new`."""
        if old is not new:
            if old.owners is not None and label in old.owners:
                old.owners.discard(label)
                label.ends.pop(old, None)
                self._tree.requeue(old)
            if new.edge and not label.forgotten:
                self._tree.own(new, label)

    def hint(self, hint: Hint) -> None:
        """Take an advice. One about a session that nobody knows is dropped."""
        now_s = self._clock()
        match hint:
            case SessionWaits():
                label = self._labels.get(hint.tenant, hint.session)
                if label is not None:
                    label.done = False
                    label.wanted_until_s = now_s + min(hint.expected_s, MAX_EXPECTED_S)
                    self._rank(label)
            case SessionDone():
                label = self._labels.get(hint.tenant, hint.session)
                if label is not None:
                    label.done = True
                    label.wanted_until_s = 0.0
                    self._rank(label)
            case LikelyNext():
                until_s = now_s + min(hint.within_s, MAX_EXPECTED_S)
                for tag in hint.tags:
                    self._expect((hint.tenant, tag), until_s)

    def with_session(self, tenant: str, session: str) -> list[Label]:
        """The label of a session, if it is known."""
        label = self._labels.get(tenant, session)
        return [] if label is None else [label]

    def with_tag(self, tenant: str, tag: str) -> list[Label]:
        """All labels of a tenant that have a tag."""
        return list(self._by_tag.get((tenant, tag), ()))

    def expects(self, scope: Scope) -> bool:
        """Whether a hint said that this session, or one of these tags, would come about now."""
        label = None if scope.session is None else self._labels.get(scope.tenant, scope.session)
        if label is not None and label.wanted_until_s > self._clock():
            return True
        return any((scope.tenant, tag) in self._expected for tag in scope.tags)

    def forget(self, label: Label) -> None:
        """Drop a label; what it was on becomes ordinary."""
        label.forgotten = True
        for node in label.ends:
            if node.owners is not None:
                node.owners.discard(label)
                if not node.owners:
                    node.owners = None
                self._tree.requeue(node)
        label.ends.clear()
        self._timers.cancel(label)
        self._labels.pop(label.tenant, _key(label.session, label.tags))
        self._untag(label)

    def __len__(self) -> int:
        return len(self._labels)

    def all(self) -> list[Label]:
        """Every label; of each tenant the one used longest ago first."""
        return list(self._labels)

    def latest(self, tenant: str | None = None) -> Iterator[Label]:
        """Labels of one tenant or of all; of each tenant the one used last first."""
        return self._labels.latest(tenant)

    def _label(self, scope: Scope) -> Label:
        key = _key(scope.session, scope.tags)
        label = self._labels.get(scope.tenant, key)
        if label is None:
            if len(self._labels) >= MAX_OWNERS:
                oldest = self._labels.get(*self._labels.surplus(scope.tenant))
                assert oldest is not None, "the surplus is one of them"
                self.forget(oldest)
            label = Label(scope.tenant, scope.session, scope.tags)
            self._tag(label)
        elif label.tags != scope.tags:
            self._untag(label)
            label.tags = scope.tags
            self._tag(label)
        self._labels.set(scope.tenant, key, label)
        return label

    def _tag(self, label: Label) -> None:
        for tag in label.tags:
            self._by_tag.setdefault((label.tenant, tag), {})[label] = None

    def _untag(self, label: Label) -> None:
        for tag in label.tags:
            others = self._by_tag.get((label.tenant, tag))
            if others is not None:
                others.pop(label, None)
                if not others:
                    del self._by_tag[label.tenant, tag]

    def _expect(self, tag: tuple[str, str], until_s: float) -> None:
        is_new = tag not in self._expected
        if is_new and len(self._expected) >= MAX_TAGS:
            self._unexpect(self._expected.surplus(tag[0]))
        self._expected.set(*tag, until_s)
        self._timers.set(tag, until_s, lambda: self._unexpect(tag))
        if is_new:  # else said again: there may be thousands of labels, and all have their rank
            self._rank_all(tag)

    def _unexpect(self, tag: tuple[str, str]) -> None:
        self._expected.pop(*tag)
        self._timers.cancel(tag)
        self._rank_all(tag)

    def _rank_all(self, tag: tuple[str, str]) -> None:
        for label in self._by_tag.get(tag, ()):
            self._rank(label)

    def _rank(self, label: Label) -> None:
        """Work out a label's rank anew."""
        waits = label.wanted_until_s > self._clock()
        if waits or any((label.tenant, tag) in self._expected for tag in label.tags):
            rank = WANTED
        else:
            rank = DONE if label.done else NORMAL
        if waits:
            self._timers.set(label, label.wanted_until_s, lambda: self._rank(label))
        else:
            self._timers.cancel(label)
        # What it alone has left falls when it is done, whatever its rank is.
        fell = rank < label.rank or label.done
        label.rank = rank
        if fell:
            for node in label.ends:
                self._tree.requeue(node)


def _key(session: str | None, tags: frozenset[str]) -> str | frozenset[str]:
    return tags if session is None else session
