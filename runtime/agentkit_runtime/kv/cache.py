"""KV cache: the only module that touches both the tree and the free list.

`leasing` has what running sequences do; here is what is done to the cache as a whole. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentkit_runtime.errors import NotCached
from agentkit_runtime.kv.branch import Branch, find_branch
from agentkit_runtime.kv.events import AllBlocksCleared
from agentkit_runtime.kv.extent import total
from agentkit_runtime.kv.hints import Hint
from agentkit_runtime.kv.integrity import check_cache, check_labels, check_names
from agentkit_runtime.kv.lease import Lease
from agentkit_runtime.kv.node import Node
from agentkit_runtime.kv.pins import Pin, PinQuota
from agentkit_runtime.kv.prune import (
    ByNamespace,
    ByPin,
    ByPrefix,
    BySession,
    ByTag,
    ByTenant,
    PruneReport,
    Selection,
    Selector,
    select_labels,
    select_namespaces,
    select_prefix,
)
from agentkit_runtime.kv.public import Prefix, Published
from agentkit_runtime.kv.restoring import RestoringSlots
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.tokens import TOKEN_BYTES, count
from agentkit_runtime.kv.view import SessionView, TreeView, session_views, tree_view
from agentkit_runtime.kv.walk import Walk, walk

__all__ = ["KvCache", "Lease", "PinQuota"]


class KvCache(RestoringSlots):
    """All KV slots of one model: shared prefixes in the tree, the rest in leases. For one thread.

    `eviction_step` is how many slots are freed at a time when the pool is full (if that many can
    be); single slots would scatter the sequences that get them. By default a 64th of the pool,
    between 1 and 256. `clock` gives seconds, for pins and hints that end.
    """

    # -- looking --------------------------------------------------------------------------------

    def explain(self, namespace: bytes, tokens: bytes, *, scope: Scope = NO_SCOPE) -> Walk:
        """How much of `tokens` is cached for this caller, and where it parts from what is."""
        prefix = self._prefix(namespace, tokens, scope)
        name = namespace if prefix is None else prefix.overlay(namespace)
        n_public = 0 if prefix is None else count(prefix.tokens)
        return walk(self._tree.root(name), tokens, public=n_public, now=self._tree.now)

    @property
    def pinned_tokens(self) -> int:
        """Tokens that pins protect; those that pins share count once."""
        return self._pins.tokens()

    def view(
        self,
        *,
        limit: int = 500,
        depth: int | None = None,
        tenant: str | None = None,
        with_tokens: bool = False,
    ) -> TreeView:
        """The part of the tree that was used last; see `view.tree_view`. Takes bounded time."""
        return tree_view(
            self._tree,
            pins=self._pins,
            published=(prefix.node for prefix in self._public),
            limit=limit,
            depth=depth,
            tenant=tenant,
            with_tokens=with_tokens,
        )

    def branch(self, *, node: int, end: int, tenant: str) -> Branch | None:
        """What pins and prunes call a node that `view` has shown; see `branch.find_branch`."""
        return find_branch(self._tree, node=node, end=end, tenant=tenant)

    def sessions(self, *, limit: int = 500, tenant: str | None = None) -> list[SessionView]:
        """Sessions and sets of tags that are remembered; of each tenant the latest first."""
        self.tick()
        return session_views(self._labels.latest(tenant), limit)

    # -- time, hints ----------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Seconds on the cache's clock, on which pins end."""
        return self._clock()

    def tick(self) -> None:
        """End pins and hints whose time is over. Cheap; called before each step."""
        self._timers.run(self._clock())

    def hint(self, hint: Hint) -> None:
        """Take an advice of the framework; the policy `hints` evicts by it."""
        self.tick()
        self._labels.hint(hint)

    def expects(self, scope: Scope) -> bool:
        """Whether a hint said that such a request would come about now."""
        return self._labels.expects(scope)

    # -- pins, published prefixes ---------------------------------------------------------------

    def pin(
        self,
        namespace: bytes,
        tokens: bytes,
        *,
        scope: Scope = NO_SCOPE,
        ttl_s: float | None = None,
        name: str | None = None,
        only_longer: bool = False,
    ) -> Pin:
        """Keep `tokens` from being evicted, until `unpin` or `ttl_s` after their last use.

        Pinning the same again renews the pin and returns the same handle; with `only_longer` it
        keeps its name, and its time where that is longer. A pin does not outlive a
        `clear` or `prune` of what it holds.

        Raises:
            NotCached: not all of `tokens` is cached; compute them first.
            PinRefused: over the quota of `scope.tenant`, or of all tenants.
        """
        self.tick()
        root, _ = self._enter(namespace, tokens, scope)
        node = self._require_cached(root, tokens, "pinned")
        self._pins.used(node)
        self._tree.lock(node)  # so that a refusal leaves no root behind that nobody uses
        try:
            return self._pins.add(
                namespace,
                tokens,
                node,
                tenant=scope.tenant,
                ttl_s=ttl_s,
                name=name,
                only_longer=only_longer,
            )
        finally:
            self._tree.unlock(node)

    def unpin(self, handle: str, *, tenant: str | None = None, name: str | None = None) -> bool:
        """End a pin; its tokens become ordinary cached ones. False when there is no such pin.

        With `tenant`, only one of that tenant; with `name`, only one that is called so.
        """
        pin = self._pins.get(handle)
        if pin is None or tenant not in (None, pin.tenant) or name not in (None, pin.name):
            return False
        self._pins.drop(handle)
        self._free_released()
        return True

    def set_pin_quotas(self, quotas: Mapping[str, int]) -> None:
        """Limit the tokens that these tenants may pin, and others by `PinQuota.per_tenant`.

        Pins that are there stay.
        """
        self._pins.quotas = dict(quotas)

    def pins(self, tenant: str | None = None) -> list[Pin]:
        """The pins of one tenant, or all, oldest first."""
        self.tick()
        return [pin.view() for pin in self._pins if tenant in (None, pin.tenant)]

    def publish(self, public: bytes, tokens: bytes) -> Published:
        """Let requests whose scope names `public` start from `tokens`, which that root has cached.

        For the operator. Publishing the same again returns the same. Raises NotCached, and
        PinRefused when too much would be pinned.
        """
        known = self._public.get(public, tokens)
        if known is not None:
            return known.view()
        node = self._require_cached(public, tokens, "published")
        if not node.edge:
            raise ValueError("a published prefix needs at least one token, got none")
        self._pins.require_room(node)
        if self._index is not None:
            self._index.expect_copies(self._tree)
        return self._public.add(public, tokens, node).view()

    def unpublish(self, handle: str) -> bool:
        """Publish a prefix no longer. False when there is no such prefix.

        What tenants have behind it is pruned: see `prune` for what is in use.
        """
        prefix = self._public.with_handle(handle)
        if prefix is not None:
            self._retire(prefix)
        return prefix is not None

    def published(self) -> list[Published]:
        """All published prefixes."""
        return [prefix.view() for prefix in self._public]

    # -- forgetting -----------------------------------------------------------------------------

    def prune(self, selector: Selector, *, dry_run: bool = False) -> PruneReport:
        """Forget what `selector` names: free what is unlocked, hide the rest until it is.

        Copies in slower tiers are dropped, too. What had left the device before is found there by
        namespace, tenant, session and tag; by a prefix only what follows on the device. With
        `dry_run` nothing changes. Raises LookupError for an unknown pin, and ValueError where a
        published prefix would go: unpublish it first.
        """
        self.tick()
        selection = self._select(selector)
        self._spare_published(selection)
        report = selection.report(dry_run=dry_run)
        if not dry_run:
            namespaces, names = self._namespaces(selector), selection.block_names()
            self._remove(selection)
            if self._tiers is not None and self._index is not None:
                for namespace in namespaces:
                    self._tiers.forget(namespace)
                names += self._index.left_by(set(selection.labels))
                self._tiers.forget_blocks(self._index.without_copy(names))
        return report

    def forget_spoiled(self, lease: Lease, position: int) -> None:
        """Forget all that starts with the first `position + 1` tokens of a running sequence.

        For KV that turned out to be no numbers: whatever attends to it is spoiled, too. A published
        prefix that it is in is published no longer, and nothing of it is left in slower tiers.
        """
        spoiled = lease.tokens[: (position + 1) * TOKEN_BYTES]
        roots = {lease.namespace}
        for prefix in self._public:
            if prefix.public in (lease.namespace, lease.scope.public) and (
                prefix.tokens.startswith(spoiled)
            ):
                roots.add(prefix.public)
                self._retire(prefix)
        for root in roots:
            self.prune(ByPrefix(root, spoiled))
            if self._tiers is not None:
                self._tiers.forget(root)

    def clear(self, namespace: bytes | None = None) -> int:
        """Forget every unlocked token of one namespace, or of all; returns how many.

        Ends its pins and published prefixes, and drops its blocks in slower tiers.
        """
        before = self._tree.total_tokens
        for pin in self._pins:
            if namespace in (None, pin.namespace):
                self._pins.drop(pin.handle)
        for prefix in self._public:
            if namespace in (None, prefix.public):
                self._retire(prefix)
        freed = self._tree.clear(namespace)
        self._allocator.free(freed)
        self.counters.pruned += total(freed)
        if self._tiers is not None:
            self._tiers.forget(namespace)
        if namespace is None:
            self._ghosts.clear()
        if namespace is None and not self._tree.total_tokens and self.events is not None:
            self.events.emit(AllBlocksCleared())
        return before - self._tree.total_tokens

    # -- checking -------------------------------------------------------------------------------

    def check_integrity(self, leases: Iterable[Lease]) -> None:
        """Check every invariant of tree, free list and `leases`, which must be all active ones.

        Takes time proportional to the tree. Raises IntegrityError and names what is wrong.
        """
        held = [pin.node for pin in self._pins]
        held += [prefix.node for prefix in self._public]
        held += [restore.node for restore in self._restores]
        check_cache(self._allocator, self._tree, _active(leases), held=held)
        check_labels(self._labels.all(), self._tree)
        if self._index is not None:
            check_names(self._tree)

    # -- helpers --------------------------------------------------------------------------------

    def _require_cached(self, root: bytes, tokens: bytes, what: str) -> Node:
        known = self._tree.match(root, tokens)
        if known.length < count(tokens):
            self._tree.lock(known.node)
            self._tree.unlock(known.node)  # a root that was made for this goes again
            raise NotCached(
                f"{count(tokens)} tokens are to be {what}, but only the first {known.length} are "
                "cached; compute them first (a request with max_tokens=0 does)"
            )
        return known.node

    def _select(self, selector: Selector) -> Selection:
        pins = list(self._pins)
        match selector:
            case ByPrefix() if selector.tokens:
                return select_prefix(self._tree, selector.namespace, selector.tokens, pins)
            case ByPin():
                pin = self._pins.get(selector.handle)
                if pin is None:
                    raise LookupError(f"there is no pin {selector.handle!r}; it may have expired")
                return select_prefix(self._tree, pin.namespace, pin.tokens, pins)
            case BySession():
                labels = self._labels.with_session(selector.tenant, selector.session)
                return select_labels(labels, pins)
            case ByTag():
                return select_labels(self._labels.with_tag(selector.tenant, selector.tag), pins)
            case ByPrefix() | ByNamespace():
                namespace = selector.namespace
                return select_namespaces(self._tree, lambda root: root.owner == namespace, pins)
            case ByTenant():
                tenant = selector.tenant
                return select_namespaces(self._tree, lambda root: root.tenant == tenant, pins)
        raise TypeError(f"what to prune is said by ByPrefix, ByTenant or such, got {selector!r}")

    def _spare_published(self, selection: Selection) -> None:
        for prefix in self._public:
            if any(node in selection.tops for node in prefix.node.upwards()):
                raise ValueError(
                    f"this would prune the published prefix {prefix.handle!r}; unpublish it first"
                )

    def _remove(self, selection: Selection) -> None:
        for pin in selection.pins:
            self._pins.drop(pin.handle)
        for label in selection.labels:
            self._labels.forget(label)
        for top in selection.tops:
            self._free(top)
        self._free_released()

    def _retire(self, prefix: Prefix) -> None:
        """Prune what hangs on a published prefix, and take it back."""
        for name in self._public.overlays(prefix):
            root = self._tree.root(name)
            assert root is not None, "overlays are roots of the tree"
            root.condemned = True  # a sequence that holds only the root shares nothing more
            for pin in self._pins:
                if any(node is root for node in pin.node.upwards()):
                    self._pins.drop(pin.handle)
            for top in list(root.children.values()):
                self._free(top)
        self._public.drop(prefix)
        self._free_released()

    def _free(self, top: Node) -> None:
        freed = self._tree.remove(top).freed
        self._allocator.free(freed)
        self.counters.pruned += total(freed)

    def _namespaces(self, selector: Selector) -> set[bytes]:
        """Namespaces that a selector takes as a whole."""
        match selector:
            case ByNamespace():
                return {selector.namespace}
            case ByTenant():
                here = {(root.owner, root.tenant) for root in self._tree.roots()}
                known = here | set(self._tenants.items())
                return {namespace for namespace, tenant in known if tenant == selector.tenant}
        return set()


def _active(leases: Iterable[Lease]) -> Sequence[Lease]:
    return [lease for lease in leases if not lease.released]
