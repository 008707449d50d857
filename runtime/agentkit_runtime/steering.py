"""What an operator sees of a running engine, and what is changed while it runs.

Everything happens in the engine's thread between two steps, where everybody waits for it: so all
looks are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from agentkit_runtime.errors import NotCached, RuntimeFault
from agentkit_runtime.kv.events import EventLog, Gap, Numbered, Subscriber
from agentkit_runtime.kv.prune import ByPrefix, PruneReport

if TYPE_CHECKING:
    from agentkit_runtime.core import EngineCore
    from agentkit_runtime.engine import Engine
    from agentkit_runtime.kv.branch import Branch
    from agentkit_runtime.kv.pins import Pin
    from agentkit_runtime.kv.public import Published
    from agentkit_runtime.kv.view import SessionView, TreeView

T = TypeVar("T")

MAX_EVENTS_AT_ONCE = 512
"""KV events that are handed over in one go."""


class NoEvents(RuntimeFault):
    """The engine was loaded without a log of KV events."""


class Steering:
    """One engine, as its operator has it in hand. Usable from any event loop.

    Every method raises EngineStopped when the engine is closed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tree(
        self,
        *,
        limit: int,
        depth: int | None = None,
        tenant: str | None = None,
        with_tokens: bool = False,
    ) -> TreeView:
        """The part of the tree that was used last; see `kv.view.tree_view`."""
        return await self._call(
            lambda core: core.cache.view(
                limit=limit, depth=depth, tenant=tenant, with_tokens=with_tokens
            )
        )

    async def pin_branch(
        self, *, node: int, end: int, tenant: str, ttl_s: float | None, name: str | None
    ) -> Pin:
        """Pin the prefix that ends with a node of `tree`; see `KvCache.pin`.

        Raises NotCached where the node is not there any more, and PinRefused.
        """

        def pin(core: EngineCore) -> Pin:
            found = _branch(core, node, end, tenant)
            return core.cache.pin(
                found.namespace, found.tokens, scope=found.scope, ttl_s=ttl_s, name=name
            )

        return await self._call(pin)

    async def prune_branch(
        self, *, node: int, end: int, tenant: str, dry_run: bool = False
    ) -> PruneReport:
        """Forget a node of `tree` with all that follows it; see `KvCache.prune`.

        Raises NotCached where the node is not there any more.
        """

        def prune(core: EngineCore) -> PruneReport:
            found = _branch(core, node, end, tenant)
            return core.cache.prune(ByPrefix(found.namespace, found.tokens), dry_run=dry_run)

        return await self._call(prune)

    async def sessions(self, *, limit: int, tenant: str | None = None) -> list[SessionView]:
        """Sessions that are remembered; of each tenant the latest first."""
        return await self._call(lambda core: core.cache.sessions(limit=limit, tenant=tenant))

    async def pins(self, tenant: str | None = None) -> list[tuple[Pin, float | None]]:
        """The pins of a tenant, or all, oldest first, and in how many seconds each one ends."""

        def read(core: EngineCore) -> list[tuple[Pin, float | None]]:
            now_s = core.cache.now_s
            return [
                (pin, None if pin.expires_at_s is None else max(0.0, pin.expires_at_s - now_s))
                for pin in core.cache.pins(tenant)
            ]

        return await self._call(read)

    async def published(self) -> list[Published]:
        """All published prefixes."""
        return await self._call(lambda core: core.cache.published())

    async def clear(self) -> int:
        """Forget all that is not in use, on all tiers, pins and published prefixes included.

        Returns:
            Tokens that were freed.
        """
        return await self._call(lambda core: core.cache.clear())

    async def tenant_weights(self) -> dict[str, float]:
        """Shares of tenants, relative to each other; 1 for those that are not there."""
        return await self._call(lambda core: dict(core.scheduler.tenant_weights))

    async def set_tenant_weights(self, weights: Mapping[str, float]) -> None:
        """Share by other weights from now on. Raises ValueError for what is no weight."""
        await self._call(lambda core: core.scheduler.set_tenant_weights(weights))

    async def events_since(self, seq: int) -> list[Numbered] | Gap:
        """The next KV events behind number `seq`, at most `MAX_EVENTS_AT_ONCE`, or what is missing.

        Raises NoEvents where none are kept.
        """

        def read(core: EngineCore) -> list[Numbered] | Gap:
            return log_of(core).since(seq, most=MAX_EVENTS_AT_ONCE)

        return await self._call(read)

    async def follow_events(self, subscriber: Subscriber) -> tuple[int, Callable[[], None]]:
        """Call `subscriber` with each new event, in the engine's thread: it must not block.

        Returns:
            The number of the newest event before, and the way out.

        Raises NoEvents where none are kept.
        """

        def subscribe(core: EngineCore) -> tuple[int, Callable[[], None]]:
            log = log_of(core)
            return log.seq, log.subscribe(subscriber)

        future = self._engine.call(subscribe)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_leave)
            raise

    async def _call(self, work: Callable[[EngineCore], T]) -> T:
        return await asyncio.wrap_future(self._engine.call(work))


def _leave(subscribed: Future[tuple[int, Callable[[], None]]]) -> None:
    """Whoever wanted to follow is gone."""
    if not subscribed.cancelled() and subscribed.exception() is None:
        subscribed.result()[1]()


def _branch(core: EngineCore, node: int, end: int, tenant: str) -> Branch:
    found = core.cache.branch(node=node, end=end, tenant=tenant)
    if found is None:
        raise NotCached("this node has left the tree, or has grown; look at the tree again")
    return found


def log_of(core: EngineCore) -> EventLog:
    """The engine's log of KV events. Raises NoEvents where none is kept."""
    log = core.cache.events
    if log is None:
        raise NoEvents("this server keeps no KV events: its engine was loaded without kv_events=")
    return log
