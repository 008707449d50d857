"""A branch of the tree, named by what a look at it has shown (`view.NodeView`).

An operator who sees a node knows neither its tokens nor its namespace. Its last slot and its end
name it for as long as it is there; a slot that was given to others meanwhile seldom ends at the
same place of the same tenant, and then it is that node that is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.kv.hottest import Hottest
from agentkit_runtime.kv.node import Node, RootNode
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tree import RadixTree

MOST_NODES = 5_000
"""That are looked at to find one; bounds the time that everybody waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What a node is to those who pin and prune: the prefix that ends with it."""

    namespace: bytes
    tokens: bytes
    """Packed, from the prompt's beginning."""
    scope: Scope
    """The tenant, and where its published beginning lies."""


def find_branch(tree: RadixTree, *, node: int, end: int, tenant: str) -> Branch | None:
    """The branch of `tenant` whose last token is at position `end - 1`, in slot `node`.

    Looks at the `MOST_NODES` that were used last of those that end no later: more than a look
    shows. What was pruned while it is in use is none of them any more.
    """
    queue = Hottest[None](MOST_NODES)
    queue.add((root for root in tree.latest_roots() if root.tenant == tenant), None)
    while queue:
        found, _ = queue.take()
        if found.edge and found.extent.end - 1 == node and found.end == end:
            return _branch(found, tenant)
        if found.end < end:
            queue.add(reversed(found.children.values()), None)
    return None


def _branch(found: Node, tenant: str) -> Branch:
    root = found.root
    assert root is not None, "it was reached from its root"
    tokens = b"".join(step.edge for step in found.path())
    return Branch(
        namespace=root.owner, tokens=tokens, scope=Scope(tenant=tenant, public=_public(root))
    )


def _public(root: RootNode) -> bytes | None:
    """The root of the published prefix that an overlay hangs on."""
    base = root.parent
    return None if base is None or base.root is None else base.root.namespace
