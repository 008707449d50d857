"""A request as it lies on a provider's wire, in pieces that its cache tells apart."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from agentkit.caching.plan.draft import SharedPrefix
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import Provider
from agentkit.caching.request import Block, CacheRequest
from agentkit.events import ModelEvent
from agentkit.models.base import ModelRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WireBlock:
    """One piece: what caches see of it, and its bytes."""

    block: Block
    """Its digest is that of `data`; its mark is the user's, if there is one."""
    data: bytes
    """JSON of the piece on the wire, without any mark. Shared by all requests that have it."""
    segment: int | None
    """Index of the context's segment that it comes from; None: volatile, or the adapter's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A request in the provider's cache order, without marks but the user's."""

    blocks: tuple[WireBlock, ...]
    """Aligned with `cache_request.blocks`."""
    cache_request: CacheRequest
    shared: tuple[SharedPrefix, ...]
    """As in `Draft`; the adapter knows where its wire ends the team's, the agent's, the run's."""
    n_volatile: int = 0

    @property
    def stable(self) -> tuple[bytes, ...]:
        """The bytes of all pieces but the volatile ones.

        Those of a run's request are a prefix of those of its next one.
        """
        return tuple(wire.data for wire in self.blocks[: len(self.blocks) - self.n_volatile])


LayoutT = TypeVar("LayoutT", bound=Layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A finished request."""

    data: bytes
    """The JSON body, final to the last byte."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Adapter(Protocol[LayoutT]):
    """One provider's API. It decides nothing about caching: it lays out, fills in, and sends."""

    @property
    def label(self) -> str:
        """Model string, e.g. `anthropic:claude-sonnet-5-5`."""
        ...

    @property
    def provider(self) -> Provider:
        """Whose cache rules hold."""
        ...

    @property
    def model(self) -> str:
        """The provider's name of the model."""
        ...

    def layout(self, request: ModelRequest) -> LayoutT:
        """Return the request's pieces. Pure; segments that it saw before are not encoded again.

        Raises:
            RequestRefused: the API can never take this request.
        """
        ...

    def body(self, layout: LayoutT, plan: CachePlan, request: ModelRequest) -> Body:
        """Return the final bytes: the pieces with the plan's marks, keys and hints. Pure."""
        ...

    def stream(self, body: Body) -> AsyncGenerator[ModelEvent, None]:
        """Send it. Yields what the model says; ends with `UsageEvent` and `ModelEnd`.

        What the vendor says about its cache comes as `UsageEvent.cache_note`.

        Raises:
            RequestRefused: the request is refused for good.
            ModelError: it failed; `retryable` and `retry_after_s` say what to do.
        """
        ...

    async def touch(self, body: Body) -> ModelEvent | None:
        """Send it once more without generating, so that its entries live on. Returns the usage.

        None where the API has no such request: then nothing was sent.
        """
        ...


@runtime_checkable
class Closing(Protocol):
    """An adapter that keeps something at its provider or a connection of its own."""

    async def aclose(self) -> None:
        """End it. Idempotent."""
        ...


@runtime_checkable
class Refusing(Protocol):
    """An adapter whose server may not know the fields that caching uses."""

    @property
    def refused_fields(self) -> frozenset[str]:
        """The fields that the server has refused, and that are left out since."""
        ...
