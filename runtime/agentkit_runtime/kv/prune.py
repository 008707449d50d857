"""Forgetting on purpose: which part of the tree a selector means, and what removing it does.

A prune drops the pins and labels of what it selects. What nobody has locked is freed at once; the
rest is found by no lookup from now on and is freed with its last lock: sequences that run on it
finish as if nothing had happened, and share nothing of what they still compute below it. What runs
on a part that was not selected goes on sharing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentkit_runtime.checks import require_instance
from agentkit_runtime.kv.labels import Label
from agentkit_runtime.kv.node import Node, RootNode
from agentkit_runtime.kv.pins import HeldPin
from agentkit_runtime.kv.tokens import TOKEN_BYTES
from agentkit_runtime.kv.tree import RadixTree


@dataclass(frozen=True, slots=True)
class ByPrefix:
    """All that starts with these tokens, and of the tokens themselves what nothing else shares."""

    namespace: bytes
    tokens: bytes

    def __post_init__(self) -> None:
        require_instance("namespace (a digest)", self.namespace, bytes)
        require_instance("tokens (packed ids)", self.tokens, bytes)


@dataclass(frozen=True, slots=True)
class ByPin:
    """All that starts with a pinned prefix, as `ByPrefix`. Raises LookupError for no such pin."""

    handle: str


@dataclass(frozen=True, slots=True)
class ByNamespace:
    """A namespace, with all that it has behind published prefixes."""

    namespace: bytes
    """Its digest. Who knows the tenant takes `ByTenant`."""

    def __post_init__(self) -> None:
        require_instance("namespace (a digest)", self.namespace, bytes)


@dataclass(frozen=True, slots=True)
class ByTenant:
    """Every namespace whose first use carried this tenant's label."""

    tenant: str


@dataclass(frozen=True, slots=True)
class BySession:
    """What only this session used."""

    session: str
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class ByTag:
    """What only sequences with this tag used."""

    tag: str
    tenant: str = ""


Selector = ByPrefix | ByPin | ByNamespace | ByTenant | BySession | ByTag


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What a prune did, or with `dry_run` would have done."""

    freed_tokens: int
    """Freed at once."""
    condemned_tokens: int
    """In use: not found any more, freed when the last sequence leaves."""
    nodes: int
    pins: int
    """Pins that ended."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """What a selector means in the tree as it is now."""

    tops: list[Node]
    """Disjoint branches: each of these nodes with all below it."""
    pins: list[HeldPin]
    """Pins that end in them."""
    labels: list[Label]
    """Labels that are given up."""

    def block_names(self) -> list[bytes]:
        """Names of the blocks that have their last token in them."""
        return [name for top in self.tops for node in top.subtree() for name in node.names]

    def report(self, *, dry_run: bool) -> PruneReport:
        """What removing it does."""
        locks_of_pins: Counter[Node] = Counter()
        for pin in self.pins:
            locks_of_pins.update(pin.node.upwards())
        nodes = [node for top in self.tops for node in top.subtree()]
        condemned = sum(n.extent.length for n in nodes if n.locks > locks_of_pins[n])
        return PruneReport(
            freed_tokens=sum(n.extent.length for n in nodes) - condemned,
            condemned_tokens=condemned,
            nodes=len(nodes),
            pins=len(self.pins),
            dry_run=dry_run,
        )


def select_namespaces(
    tree: RadixTree, wanted: Callable[[RootNode], bool], pins: Iterable[HeldPin]
) -> Selection:
    """All branches below the roots that are wanted."""
    roots = [root for root in tree.roots() if wanted(root)]
    return _selection([child for root in roots for child in root.children.values()], pins)


def select_prefix(
    tree: RadixTree, namespace: bytes, tokens: bytes, pins: Iterable[HeldPin]
) -> Selection:
    """All that starts with `tokens`, in the namespace's root and its overlays."""
    tops: list[Node] = []
    for root in tree.roots():
        if root.owner == namespace:
            public = b"".join(node.edge for node in root.path())
            if tokens.startswith(public):
                found = _ends_in(root, tokens)
                tops += [] if found is None else [found]
            elif public.startswith(tokens):
                tops += root.children.values()
    held = list(pins)
    return _selection(_widened([top for top in tops if top.edge], held, set()), held)


def select_labels(labels: Sequence[Label], pins: Iterable[HeldPin]) -> Selection:
    """What only these labels used: their ends, upwards to where anybody else comes in."""
    ours = set(labels)
    held = list(pins)
    pinned = {up for pin in held for up in pin.node.upwards()}
    tops = [
        end
        for label in labels
        for end in label.ends
        if end not in pinned and all(_is_ours(node, ours) for node in end.subtree())
    ]
    return _selection(_widened(tops, held, ours), held, labels)


def _selection(
    tops: Iterable[Node], pins: Iterable[HeldPin], labels: Sequence[Label] = ()
) -> Selection:
    chosen = dict.fromkeys(tops)
    disjoint = [t for t in chosen if not any(up in chosen for up in t.upwards() if up is not t)]
    inside = set(disjoint)
    dropped = [pin for pin in pins if any(up in inside for up in pin.node.upwards())]
    return Selection(disjoint, dropped, list(labels))


def _ends_in(root: RootNode, tokens: bytes) -> Node | None:
    """The node below `root` in which `tokens` end; None when they are not all known."""
    node: Node = root
    offset = root.start * TOKEN_BYTES
    while offset < len(tokens):
        child = node.children.get(tokens[offset : offset + TOKEN_BYTES])
        if child is None:
            return None
        rest = tokens[offset : offset + len(child.edge)]
        if not child.edge.startswith(rest):
            return None
        offset += len(child.edge)
        node = child
    return node


def _widened(tops: Sequence[Node], pins: Sequence[HeldPin], ours: set[Label]) -> list[Node]:
    """These branches, and all nodes above that lead to them only and that nobody else needs."""
    pinned = {pin.node for pin in pins}
    chosen = dict.fromkeys(tops)
    pending = list(tops)
    while pending:
        above = pending.pop().parent
        if (
            above is not None
            and above.edge
            and above not in chosen
            and above not in pinned
            and (not above.owners or above.owners <= ours)
            and all(child in chosen for child in above.children.values())
        ):
            chosen[above] = None
            pending.append(above)
    return list(chosen)


def _is_ours(node: Node, ours: set[Label]) -> bool:
    """A leaf without labels was used by somebody who has none."""
    return node.owners <= ours if node.owners else bool(node.children)
