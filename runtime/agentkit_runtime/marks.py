"""Beginnings of prompts that requests mark to be kept: a mark becomes a pin with an end.

Where a mark is in the prompt: the conversation up to the mark is rendered by itself, and what its
ids and those of the whole prompt have in common is decided by the marked part alone. So many of the
prompt's own ids are pinned, once they are computed: nothing is computed for a mark. A template that
says the marked part otherwise when more follows shortens what can be kept, never what is right.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit_runtime.chat import ChatMessage, ChatRequest
from agentkit_runtime.errors import NotCached, PinRefused, RequestRejected
from agentkit_runtime.kv.tokens import common_prefix, pack
from agentkit_runtime.prompt import PromptBuilder
from agentkit_runtime.roots import Roots

if TYPE_CHECKING:
    from agentkit_runtime.engine import Engine
    from agentkit_runtime.kv.cache import KvCache

MAX_MARKS_PER_TENANT = 256
"""Each new pin is weighed against all that its tenant has, so there is an end to them."""

_NAME = "cache_control"
"""Of pins that are marks."""

_SAMPLE = "¤"
"""A text that no conversation goes on with, for templates that render no system message alone."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked beginning."""

    conversation: ChatRequest
    """What is marked, as a request: the whole one's first messages, perhaps with less text in the
    last of them. It may have none: then the tools are marked."""
    ttl_s: float
    """It is kept so long after its last use."""


class Marks:
    """The marked beginnings of one model's prompts. Usable from any event loop."""

    def __init__(self, *, engine: Engine, builder: PromptBuilder, roots: Roots) -> None:
        self._engine = engine
        self._builder = builder
        self._roots = roots
        self._handles = _Handles()

    async def keep(
        self, request: ChatRequest, ids: tuple[int, ...], marks: Sequence[Mark]
    ) -> list[int]:
        """Pin what is marked of a request whose prompt, `ids`, has just been computed.

        Returns how many of the first ids each mark keeps: 0 for one that is not kept, because the
        tenant's quota is used up, or because the prompt is not cached any more.
        """
        if not marks:
            return []
        root, scope = self._roots.of(request.tenant), self._roots.scope(request)
        places = await asyncio.to_thread(self._places, root, ids, marks)

        def pinned(cache: KvCache) -> list[int]:
            kept: list[int] = []
            for n_ids, mark in zip(places, marks, strict=True):
                try:
                    pin = cache.pin(
                        root,
                        pack(ids[:n_ids]),
                        scope=scope,
                        ttl_s=mark.ttl_s,
                        name=_NAME,
                        only_longer=True,
                    )
                except (NotCached, PinRefused):
                    kept.append(0)
                    continue
                kept.append(n_ids)
                if pin.name != _NAME:
                    continue  # somebody pinned it by hand: it is not for marks to end it
                for handle in self._handles.add(request.tenant, pin.handle):
                    cache.unpin(handle, tenant=request.tenant, name=_NAME)
            return kept

        return await asyncio.wrap_future(self._engine.call(lambda core: pinned(core.cache)))

    async def prompt_ids(self, request: ChatRequest) -> tuple[int, ...]:
        """The ids of a request's prompt, without computing it. Raises `RequestRejected`."""
        root = self._roots.of(request.tenant)
        return (await asyncio.to_thread(self._builder.build, root, request)).ids

    def _places(self, root: bytes, ids: tuple[int, ...], marks: Sequence[Mark]) -> list[int]:
        tokens = pack(ids)
        rendered = [pack(self._rendered(root, mark.conversation)) for mark in marks]
        return [common_prefix(tokens, 0, other) if other else 0 for other in rendered]

    def _rendered(self, root: bytes, conversation: ChatRequest) -> tuple[int, ...]:
        try:
            return self._ids(root, conversation)
        except RequestRejected:
            pass
        sample = ChatMessage(role="user", content=_SAMPLE)
        longer = dataclasses.replace(conversation, messages=(*conversation.messages, sample))
        try:
            return self._ids(root, longer)
        except RequestRejected:
            return ()

    def _ids(self, root: bytes, conversation: ChatRequest) -> tuple[int, ...]:
        return self._builder.build(root, conversation, add_generation_prompt=False).ids


class _Handles:
    """Which pins of a tenant were marks, the latest last. Thread-safe.

    A handle may be that of a pin that has ended by itself.
    """

    def __init__(self) -> None:
        self._tenants: dict[str, OrderedDict[str, None]] = {}
        self._lock = threading.Lock()

    def add(self, tenant: str, handle: str) -> list[str]:
        """Note a pin; returns those that are too many."""
        with self._lock:
            handles = self._tenants.setdefault(tenant, OrderedDict())
            handles[handle] = None
            handles.move_to_end(handle)
            return [
                handles.popitem(last=False)[0] for _ in range(len(handles) - MAX_MARKS_PER_TENANT)
            ]
