"""What callers do to cached prefixes on purpose: warm, pin, publish, prune, hint, and ask why not.

Everything runs in the engine's thread, through `Engine.call`. Tenants come from the server.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agentkit_runtime.chat import DEFAULT_TENANT, ChatMessage, ChatRequest, Role
from agentkit_runtime.checks import require_number
from agentkit_runtime.errors import EngineStopped, NotCached, RequestRejected, RuntimeFault
from agentkit_runtime.kv.hints import Hint, LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.kv.pins import Pin
from agentkit_runtime.kv.prune import (
    ByNamespace,
    ByPrefix,
    BySession,
    ByTag,
    ByTenant,
    PruneReport,
    Selector,
)
from agentkit_runtime.kv.public import Published
from agentkit_runtime.kv.scope import NO_SCOPE, Scope
from agentkit_runtime.kv.tokens import pack
from agentkit_runtime.miss import MissReport, explain_walk
from agentkit_runtime.prompt import PromptBuilder
from agentkit_runtime.roots import Roots
from agentkit_runtime.text.common import n_common
from agentkit_runtime.text.stream import GenerationText
from agentkit_runtime.types import Finished, FinishReason, GenerateRequest, SamplingParams

if TYPE_CHECKING:
    from agentkit_runtime.engine import Engine
    from agentkit_runtime.kv.cache import KvCache
    from agentkit_runtime.text.tokenizer import Tokenizer

T = TypeVar("T")
N = TypeVar("N", bound=Hint | Selector)

_ATTEMPTS = 3
"""A prefix can be evicted between being computed and being pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prewarmed:
    """A prefix that is now cached."""

    tokens: int
    cached_tokens: int
    """Of them, those that were cached before."""
    pin: Pin | None
    """None where no pin was asked for."""


class Prefixes:
    """The cached prefixes of one model, by chat requests. Usable from any event loop."""

    def __init__(
        self,
        *,
        engine: Engine,
        tokenizer: Tokenizer,
        builder: PromptBuilder,
        roots: Roots,
        next_id: Callable[[str | None], str],
    ) -> None:
        """`next_id` makes an engine's request id of a caller's."""
        self._engine = engine
        self._tokenizer = tokenizer
        self._builder = builder
        self._roots = roots
        self._next_id = next_id

    @property
    def engine(self) -> Engine:
        """The engine whose cache this is: for reports and for steering."""
        return self._engine

    async def prewarm(
        self,
        request: ChatRequest,
        *,
        pin: bool = False,
        ttl_s: float | None = None,
        name: str | None = None,
    ) -> Prewarmed:
        """Compute what requests that begin with these messages and tools will share; no answer.

        For an agent type: its rules, tools and role. Doing it again costs one look-up.

        Args:
            request: messages and tools; what steers an answer is not looked at.
            pin: keep it from being evicted.
            ttl_s: the pin ends so long after its last use; None is never.
            name: of the pin, for lists.

        Raises:
            RequestRejected: no prompt can be made of the request.
            PinRefused: more would be pinned than the tenant may.
            ValueError: `ttl_s` is no time, or it or `name` is given without `pin`.
        """
        if ttl_s is not None:
            require_number("ttl_s", ttl_s, least=0)
        if not pin and (ttl_s is not None or name is not None):
            raise ValueError("ttl_s and name are a pin's: they do nothing without pin=True")
        root = self._roots.of(request.tenant)
        scope = self._roots.scope(request)
        ids = await self._shared_ids(root, request)
        cached = await self._compute(root, ids, scope, request)

        def pinned(cache: KvCache) -> Pin:
            return cache.pin(root, pack(ids), scope=scope, ttl_s=ttl_s, name=name)

        held = await self._once_cached(root, ids, scope, request, pinned) if pin else None
        return Prewarmed(tokens=len(ids), cached_tokens=cached, pin=held)

    async def explain(self, request: ChatRequest) -> MissReport:
        """Why a request would not be read from the cache, were it sent now. Leaves no trace there.

        Only what the request's own tenant may read is looked at. Raises RequestRejected when no
        prompt can be made of the request.
        """
        root, scope = self._roots.of(request.tenant), self._roots.scope(request)
        before, prompt = await asyncio.to_thread(self._builder.compared, root, request)
        tokens = pack(prompt.ids)
        walk = await self._call(lambda cache: cache.explain(root, tokens, scope=scope))
        return await asyncio.to_thread(
            explain_walk, walk, prompt, request, self._builder.renderer, before
        )

    async def publish(self, request: ChatRequest) -> Published:
        """Let all tenants start from what requests with these messages and tools share.

        For the operator only: nothing of it may be anybody's secret. Raises as `prewarm`.
        """
        root = self._roots.public
        ids = await self._shared_ids(root, request)
        await self._compute(root, ids, NO_SCOPE, request)
        return await self._once_cached(
            root, ids, NO_SCOPE, request, lambda cache: cache.publish(root, pack(ids))
        )

    async def unpublish(self, handle: str) -> bool:
        """Publish a prefix no longer. False when there is no such prefix."""
        return await self._call(lambda cache: cache.unpublish(handle))

    async def unpin(self, handle: str, *, tenant: str | None = None) -> bool:
        """End a pin. False when there is no such pin (of `tenant`, if that is given)."""
        return await self._call(lambda cache: cache.unpin(handle, tenant=tenant))

    async def pins(self, tenant: str | None = None) -> list[Pin]:
        """The pins of a tenant, or all."""
        return await self._call(lambda cache: cache.pins(tenant))

    async def prune(self, selector: Selector, *, dry_run: bool = False) -> PruneReport:
        """Forget what `selector` names; see `KvCache.prune`.

        A session or tag without a tenant is one of `DEFAULT_TENANT`. Of a tenant also that is
        forgotten which an earlier process has left on disk, though the tenant has not come since.
        """
        selector = _of_somebody(selector)
        root = self._roots.of(selector.tenant) if isinstance(selector, ByTenant) else None

        def prune(cache: KvCache) -> PruneReport:
            report = cache.prune(selector, dry_run=dry_run)
            if root is not None and not dry_run:
                cache.prune(ByNamespace(root))  # the cache knows tenants by what came, not by name
            return report

        return await self._call(prune)

    async def prune_prefix(self, request: ChatRequest, *, dry_run: bool = False) -> PruneReport:
        """Forget all of the request's tenant that begins with these messages and tools."""
        root = self._roots.of(request.tenant)
        ids = await self._shared_ids(root, request)
        return await self.prune(ByPrefix(root, pack(ids)), dry_run=dry_run)

    async def hint(self, hint: Hint) -> None:
        """Tell the cache what is expected. Without a tenant it is about `DEFAULT_TENANT`."""
        advice = _advice(hint)
        await self._call(lambda cache: cache.hint(advice))

    def advise(self, hint: Hint) -> None:
        """Hand a hint over without waiting; a closed engine needs none. From any thread."""
        advice = _advice(hint)
        with suppress(EngineStopped):
            self._engine.call(lambda core: core.cache.hint(advice))

    async def _call(self, work: Callable[[KvCache], T]) -> T:
        return await asyncio.wrap_future(self._engine.call(lambda core: work(core.cache)))

    async def _once_cached(
        self,
        root: bytes,
        ids: tuple[int, ...],
        scope: Scope,
        request: ChatRequest,
        work: Callable[[KvCache], T],
    ) -> T:
        """Do `work`, which needs the prefix cached; compute it again where it was evicted."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._call(work)
            except NotCached:
                await self._compute(root, ids, scope, request)
        return await self._call(work)

    async def _compute(
        self, root: bytes, ids: tuple[int, ...], scope: Scope, request: ChatRequest
    ) -> int:
        """Fill the cache with `ids`; returns how many tokens were there already."""
        generation = self._engine.submit(
            GenerateRequest(
                request_id=self._next_id(request.request_id),
                prompt=ids,
                namespace=root,
                text=GenerationText(self._tokenizer, ()),
                sampling=SamplingParams(max_tokens=0),
                scope=scope,
                priority=request.priority,
                deadline_s=request.deadline_s,
            )
        )
        try:
            async for event in generation:
                if isinstance(event, Finished):
                    return _cached_tokens(event)
        finally:
            generation.abort()
        raise AssertionError("a generation ends with Finished")

    async def _shared_ids(self, root: bytes, request: ChatRequest) -> tuple[int, ...]:
        return await asyncio.to_thread(self._shared_by_all, root, request)

    def _shared_by_all(self, root: bytes, request: ChatRequest) -> tuple[int, ...]:
        """The ids with which every longer conversation begins, as far as two samples can tell.

        Up to the last special token that both have: behind it, text could become part of a token.
        """
        first, second = (self._continued(root, request, text) for text in ("A", "0"))
        shared = first[: n_common(first, second)]
        n_shared = max(
            (n for n in range(1, len(shared) + 1) if self._tokenizer.is_special(shared[n - 1])),
            default=len(shared),
        )
        if not n_shared:
            raise RequestRejected(
                "the chat template lets conversations that begin with these messages share nothing",
                field="messages",
            )
        return shared[:n_shared]

    def _continued(self, root: bytes, request: ChatRequest, text: str) -> tuple[int, ...]:
        last = request.messages[-1].role if request.messages else "system"
        role: Role = "assistant" if last in ("user", "tool") else "user"
        longer = (*request.messages, ChatMessage(role=role, content=text))
        prompt = self._builder.build(
            root, dataclasses.replace(request, messages=longer), add_generation_prompt=False
        )
        return prompt.ids


def _advice(hint: Hint) -> Hint:
    if not isinstance(hint, Hint):
        raise TypeError(f"a hint is SessionWaits, SessionDone or LikelyNext, got {hint!r}")
    return _of_somebody(hint)


def _of_somebody(named: N) -> N:
    """A session or tag is looked for in a tenant: that of requests that name none either."""
    if isinstance(named, SessionWaits | SessionDone | LikelyNext | BySession | ByTag) and (
        not named.tenant
    ):
        return dataclasses.replace(named, tenant=DEFAULT_TENANT)
    return named


def _cached_tokens(finished: Finished) -> int:
    if finished.reason in (FinishReason.STOP, FinishReason.LENGTH):
        return finished.stats.cached_tokens
    raise RuntimeFault(
        f"the prefix could not be computed: {finished.error or finished.reason.value}"
    )
