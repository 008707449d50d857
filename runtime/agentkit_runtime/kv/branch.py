"""A branch of the tree, named by what a look at it has shown (`view.NodeView`).

An operator who sees a node knows neither its tokens nor its namespace. Its last slot and its end
name it for as long as it is there; a slot that was given to others meanwhile seldom ends at the
same place of the same tenant, and then it is that node that is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.kv.node import RootNode
from agentkit_runtime.kv.scope import Scope
from agentkit_runtime.kv.tree import RadixTree


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

    Looks at all nodes of the tenant; what was pruned while it is in use is none of them any more.
    """
    for root in tree.roots():
        if root.tenant != tenant:
            continue
        for found in root.subtree():
            if found.edge and found.extent.end - 1 == node and found.end == end:
                tokens = b"".join(step.edge for step in found.path())
                scope = Scope(tenant=tenant, public=_public(root))
                return Branch(namespace=root.owner, tokens=tokens, scope=scope)
    return None


def _public(root: RootNode) -> bytes | None:
    """The root of the published prefix that an overlay hangs on."""
    base = root.parent
    return None if base is None or base.root is None else base.root.namespace
