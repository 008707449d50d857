"""What the planner answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from agentkit.caching.policy import Cost, InputSplit, Ttl
from agentkit.caching.request import CacheRequest, Mark, OpenAiOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedMark:
    """A mark on one block."""

    index: int
    """Place of the block in `CacheRequest.blocks`."""
    ttl: Ttl | None = None
    """None: the provider's default."""
    by_user: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What an OpenAI-compatible server is told beside the prompt."""

    body: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedFront:
    """A Gemini cached-content object that pays."""

    end: int
    """Blocks that it holds."""
    ttl_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the request will read and write, if the provider keeps to its rules."""

    split: InputSplit
    hit: int
    """Blocks that are read."""
    cost: Cost | None
    """Without output. None: the price is not known."""
    uncached: Decimal | None
    """What the input would cost without any cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePlan:
    """Where the marks go, and what they will do."""

    marks: tuple[PlacedMark, ...] = ()
    """All marks in wire order, the user's among them."""
    cache_key: str | None = None
    """OpenAI's `prompt_cache_key`, DeepSeek's `user_id`, and the like."""
    key_base: str | None = None
    """The key before it was split by session; what `KeyRates` counts by."""
    openai: OpenAiOptions = field(default_factory=OpenAiOptions)
    hints: Hints = field(default_factory=Hints)
    cached_front: CachedFront | None = None
    mask: frozenset[str] | None = None
    """The tools to name in the request's own mask; None where the API has none, or all may."""
    keep_alive: bool = False
    """Whether a slow gap is to be bridged by pings: nothing else that is cheaper bridges it."""
    siblings_ahead: int = 0
    """How many requests must go ahead before others that share the front find it; 0: none."""
    predicted: Prediction
    notes: tuple[str, ...] = ()
    """What was not done, and why, e.g. that a prefix is too short to be cached."""
    lost_marks: tuple[str, ...] = ()
    """Why marks of the user's are left out, or have another lifetime. Among the notes, too."""

    def applied(self, request: CacheRequest) -> CacheRequest:
        """Return the request with the plan's marks and options, as a simulator takes it."""
        marks = {mark.index: Mark(mark.ttl) for mark in self.marks}
        identity = request.identity
        if identity.cache_key != self.cache_key:
            identity = replace(identity, cache_key=self.cache_key)
        return request.with_marks(marks, identity=identity, openai=self.openai)
