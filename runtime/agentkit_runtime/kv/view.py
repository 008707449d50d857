"""What is in the tree, for people: the part that was used last, however large the tree is.

Looking costs time in the engine's thread, so it is bounded: by nodes that are shown, and by nodes
that are looked at to choose them. Nothing is marked as used, and no edge is split.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from agentkit_runtime.checks import require_whole
from agentkit_runtime.kv.hottest import Hottest
from agentkit_runtime.kv.labels import Label
from agentkit_runtime.kv.node import DONE, WANTED, Node, RootNode
from agentkit_runtime.kv.pins import HeldPin
from agentkit_runtime.kv.tokens import TOKEN_BYTES
from agentkit_runtime.kv.tree import RadixTree

MAX_NODES = 1_000
"""Most nodes that one look shows."""

SHOWN_TOKENS = 64
"""Tokens of a node that are shown, where they are asked for."""

_SCAN_PER_NODE = 4
"""Children that are looked at for each node that may be shown; the latest ones."""

_SHOWN_LABELS = 8
"""Sessions and tags that a node shows."""

_MARKED = 20_000
"""Most nodes that are looked at to find out what is pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node: a run of tokens that were computed together."""

    id: int
    """The slot of its last token: names the node for as long as it is there and does not grow. -1
    is a root."""
    parent: int | None
    """Place of its parent in the list; None for a root."""
    tenant: str
    """Whose root it lies below; empty for the operator's."""
    start: int
    """Position of its first token."""
    tokens: int
    hits: int
    """Requests that used it."""
    uses_ago: int
    """Uses of the cache since it was last used."""
    locks: int
    """Running requests, pins and published prefixes that hold it or what is below it."""
    pinned: bool
    pins: tuple[str, ...]
    """Handles of the pins that end here."""
    published: bool
    sessions: tuple[str, ...]
    """Sessions whose requests ended here; not all when there are many."""
    tags: tuple[str, ...]
    children: int
    """All of them, shown or not."""
    token_ids: bytes
    """Packed, the first ones; empty where they were not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """The part of a tree that was used last."""

    nodes: list[NodeView]
    """Parents before their children, hot ones first."""
    namespaces: int
    """Roots in all, those of published prefixes' readers included."""
    total_tokens: int
    complete: bool
    """Whether all of it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session, or the requests without one that have the same tags."""

    tenant: str
    session: str | None
    tags: tuple[str, ...]
    expected: bool
    """A hint says that it will be back soon."""
    done: bool
    """A hint says that it has ended."""
    tokens: int
    """Tokens from the start to where its latest sequence ended; 0 when that is not cached now."""
    requests: int
    """Its sequences so far; one that was preempted and resumed counts again."""


def tree_view(
    tree: RadixTree,
    *,
    pins: Iterable[HeldPin],
    published: Iterable[Node],
    limit: int = 500,
    depth: int | None = None,
    tenant: str | None = None,
    with_tokens: bool = False,
) -> TreeView:
    """Look at up to `limit` nodes.

    Args:
        tree: where to look.
        pins: all there are.
        published: nodes where published prefixes end.
        limit: most nodes shown, roots included.
        depth: most nodes on a path below its root; None is any.
        tenant: only what lies below roots of this tenant.
        with_tokens: show the first tokens of each node.
    """
    require_whole("limit", limit, least=1, most=MAX_NODES)
    ends: dict[Node, list[str]] = {}
    for pin in pins:
        ends.setdefault(pin.node, []).append(pin.handle)
    marks = _Marks(ends, _above(ends), _above(published))
    queue = Hottest[tuple[int | None, int]](limit * _SCAN_PER_NODE)
    queue.add(_roots(tree, tenant), (None, 0))
    nodes: list[NodeView] = []
    while queue and len(nodes) < limit:
        node, (parent, level) = queue.take()
        nodes.append(_view(node, parent, tree.now, marks, with_tokens=with_tokens))
        if depth is None or level < depth:
            queue.add(reversed(node.children.values()), (len(nodes) - 1, level + 1))
        elif node.children:
            queue.complete = False
    return TreeView(
        nodes=nodes,
        namespaces=tree.n_roots,
        total_tokens=tree.total_tokens,
        complete=queue.complete and not queue,
    )


def session_views(labels: Iterable[Label], limit: int) -> list[SessionView]:
    """The first `limit` of `labels`."""
    return [
        SessionView(
            tenant=label.tenant,
            session=label.session,
            tags=tuple(sorted(label.tags)),
            expected=label.rank == WANTED,
            done=label.rank == DONE,
            tokens=next((node.end for node in reversed(label.ends)), 0),
            requests=label.n_begun,
        )
        for label in itertools.islice(labels, limit)
    ]


class _Marks(NamedTuple):
    ends: dict[Node, list[str]]
    pinned: set[Node]
    published: set[Node]


def _roots(tree: RadixTree, tenant: str | None) -> Iterator[Node]:
    for root in tree.latest_roots():
        if tenant in (None, root.tenant):
            yield root


def _above(ends: Iterable[Node]) -> set[Node]:
    """The nodes on the paths to `ends`; not all of them when there are very many."""
    marked: set[Node] = set()
    for end in ends:
        for node in end.upwards():
            if node in marked or len(marked) >= _MARKED:
                break
            marked.add(node)
    return marked


def _view(
    node: Node,
    parent: int | None,
    now: int,
    marks: _Marks,
    *,
    with_tokens: bool,
) -> NodeView:
    root = node.root
    some = itertools.islice(node.owners or (), _SHOWN_LABELS)
    labels = [owner for owner in some if isinstance(owner, Label)]
    sessions = {label.session for label in labels if label.session is not None}
    tags = {tag for label in labels for tag in label.tags}
    return NodeView(
        id=-1 if isinstance(node, RootNode) else node.extent.end - 1,
        parent=parent,
        tenant="" if root is None else root.tenant,
        start=node.start,
        tokens=node.extent.length,
        hits=node.hits,
        uses_ago=now - node.last_used,
        locks=node.locks,
        pinned=node in marks.pinned,
        pins=tuple(marks.ends.get(node, ())),
        published=node in marks.published,
        sessions=tuple(sorted(sessions)),
        tags=tuple(sorted(tags))[:_SHOWN_LABELS],
        children=len(node.children),
        token_ids=node.edge[: SHOWN_TOKENS * TOKEN_BYTES] if with_tokens else b"",
    )
