"""Names of blocks in the tree: what events report, and what tiers save under.

A node keeps the names of the blocks whose last token it holds. They are chained within the
namespace that owns the tokens, also behind a published prefix: two tenants never have a name in
common.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container, Sequence
from hashlib import sha256

from agentkit_runtime.kv.events import BlockRemoved, BlockStored, EventLog
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.node import Node, Owner, RootNode
from agentkit_runtime.kv.tiers.base import (
    BLOCK_BYTES,
    BLOCK_TOKENS,
    Block,
    Medium,
    chain,
    first_parent,
)
from agentkit_runtime.kv.tree import RadixTree

MAX_LEFT = 1 << 18
"""Evicted blocks of which one remembers whose they were."""


class BlockIndex:
    """Watches a tree: names what enters, reports and collects what leaves.

    `log` gets the events, if there is one; storing a block again is reported again, removing it
    only when no copy is left. With `collecting`, evicted blocks wait until somebody takes them;
    their slots must not be given away before.
    """

    def __init__(self, log: EventLog | None = None, *, collecting: bool = False) -> None:
        self.log = log
        self.collecting = collecting
        self._evicted: list[Block] = []
        self._copies: Counter[bytes] | None = None
        self._left: OrderedDict[bytes, Owner] = OrderedDict()
        """Of evicted blocks that one owner alone had used, until they are back; the latest last."""

    def stored(self, node: Node, tokens: bytes, n_known: int) -> None:
        """The tree has learned `tokens` behind the first `n_known`; they end at `node`."""
        if len(tokens) // BLOCK_BYTES == n_known // BLOCK_TOKENS:
            return  # no block was completed
        parent = name = last_name(node)
        first = n_known // BLOCK_TOKENS * BLOCK_BYTES
        end = len(tokens) // BLOCK_BYTES * BLOCK_BYTES
        names: list[bytes] = []
        # `chain`, written out: half of what an insertion costs.
        for start in range(first, end, BLOCK_BYTES):
            name = sha256(name + tokens[start : start + BLOCK_BYTES]).digest()
            names.append(name)
        if node.start <= n_known:
            node.names += names
        else:
            _distribute(node, names, n_known)
        if self._copies is not None:
            self._copies.update(names)
        if self._left:
            for name in names:
                self._left.pop(name, None)
        if self.log is not None:
            token_ids = tokens[first:end]
            self.log.emit(
                BlockStored(
                    tuple(names),
                    parent,
                    token_ids,
                    Medium.DEVICE,
                    self.log.format,
                    root_of(node).owner,
                )
            )

    def removing(self, node: Node, n_kept: int, *, evicted: bool) -> None:
        """`node` is about to lose its tokens behind the first `n_kept`."""
        first = node.start // BLOCK_TOKENS
        n_names = (node.start + n_kept) // BLOCK_TOKENS - first
        gone = node.names[n_names:]
        if not gone:
            return
        if evicted and self.collecting:
            namespace = root_of(node).owner
            for index, name in enumerate(gone, first + n_names):
                self._evicted.append(Block(namespace, name, _slots(node, index), index))
            self._remember(node, gone)
        del node.names[n_names:]
        if self._copies is not None:
            self._copies.subtract(gone)
            gone = [name for name in gone if not self._copies[name]]
            for name in gone:
                del self._copies[name]
        if gone and self.log is not None:
            self.log.emit(BlockRemoved(tuple(gone), Medium.DEVICE))

    def expect_copies(self, tree: RadixTree) -> None:
        """Count copies from now on: a prefix is published.

        A block can then be both in a namespace's own root and behind the prefix, else it cannot.
        """
        if self._copies is None:
            self._copies = Counter(
                name for root in tree.roots() for node in root.subtree() for name in node.names
            )

    def without_copy(self, names: Sequence[bytes]) -> Sequence[bytes]:
        """Of these blocks, which have left the tree, those that it does not have elsewhere."""
        if self._copies is None:
            return names
        return [name for name in names if name not in self._copies]

    def left_by(self, owners: Container[Owner]) -> list[bytes]:
        """Names of evicted blocks that nobody but one of these used, as far as one remembers."""
        return [name for name, owner in self._left.items() if owner in owners]

    def take_evicted(self) -> list[Block]:
        """The blocks evicted since the last call, whose slots are still untouched."""
        blocks, self._evicted = self._evicted, []
        return blocks

    def _remember(self, node: Node, names: Sequence[bytes]) -> None:
        owners = node.owners or ()
        for name in names:
            self._left.pop(name, None)
            if len(owners) == 1:
                (self._left[name],) = owners
        while len(self._left) > MAX_LEFT:
            self._left.popitem(last=False)


def root_of(node: Node) -> RootNode:
    """The root or overlay that a node of the tree lies below."""
    assert node.root is not None, "a node of the tree has a root"
    return node.root


def last_name(node: Node) -> bytes:
    """The name of the last whole block up to the end of `node`."""
    step: Node | None = node
    while not isinstance(step, RootNode):
        assert step is not None, "a node of the tree has a root"
        if step.names:
            return step.names[-1]
        step = step.parent
    if step.seed is None:
        public = b"".join(above.edge for above in step.path())
        names = chain(first_parent(step.owner), public)
        step.seed = names[-1] if names else first_parent(step.owner)
    return step.seed


def n_names(node: Node) -> int:
    """How many blocks have their last token in `node`."""
    return node.end // BLOCK_TOKENS - node.start // BLOCK_TOKENS


def _distribute(node: Node, names: list[bytes], n_known: int) -> None:
    """Give each new node, and the grown one, the names of the blocks that end there."""
    n_left = len(names)
    step = node
    while n_left:
        begin = max(step.start, n_known) // BLOCK_TOKENS
        n_here = step.end // BLOCK_TOKENS - begin
        step.names += names[n_left - n_here : n_left]
        n_left -= n_here
        assert step.parent is not None or not n_left, "new blocks end in new tokens"
        step = step.parent or step


def _slots(node: Node, index: int) -> tuple[Extent, ...]:
    """The slots of a block whose last token is in `node`, in order of position."""
    begin, end = index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS
    runs: list[Extent] = []
    step: Node | None = node
    while end > begin:
        assert step is not None, "positions begin at 0"
        first = max(begin, step.start)
        if first < end:
            runs.append(Extent(step.extent.start + first - step.start, end - first))
            end = first
        step = step.parent
    return tuple(reversed(runs))
