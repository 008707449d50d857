"""Where a request stops being a longer version of the one before it, to the byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from agentkit.caching.chain import changed_settings, settings
from agentkit.caching.policy import Change, Policy, Section
from agentkit.caching.request import CacheRequest, Role
from agentkit.caching.verdict import Difference

if TYPE_CHECKING:
    from agentkit.context import Context
    from agentkit.models.base import ModelRequest
    from agentkit.models.hosted.wire import Layout, WireBlock

_AROUND = 40
"""Bytes of text shown on each side of the place."""
_CHUNK = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that was sent. Its bytes are shared with the layout, never copied."""

    wire: tuple[WireBlock, ...]
    """All blocks in the provider's cache order."""
    request: CacheRequest
    """Aligned with `wire`; its token counts are the ones that the plan was made with."""
    n_volatile: int = 0
    settings: tuple[tuple[Change, str], ...] = ()
    """What entries are keyed by, beside the blocks."""
    context: Context
    """What it was made from; gives segments their names."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Digest of a segment -> the source line that supplied it."""
    n_cached: int = 0
    """Leading blocks that the next request should extend: those that a cache keeps. 0: none."""
    cached_tokens: int | None = None
    """How many tokens these have by the provider's own count; None: only estimated."""
    life_s: float | None = None
    """Seconds that the cache keeps them, from the request's start; None: not published."""
    at: datetime | None = None
    """When it was sent, with a time zone."""

    @staticmethod
    def of(
        layout: Layout,
        request: ModelRequest,
        policy: Policy,
        *,
        cache_request: CacheRequest | None = None,
        keyed_by: tuple[tuple[Change, str], ...] | None = None,
    ) -> Sent:
        """Return what is sent with this layout. Until it is answered, no cache keeps any of it.

        Then `agentkit.caching.judge.remembered` says what is kept.
        `cache_request` is the layout's with better token counts, where there is one: that for which
        the plan was made. `keyed_by` are its settings, where they are known already.
        """
        planned = layout.cache_request if cache_request is None else cache_request
        return Sent(
            wire=layout.blocks,
            request=planned,
            n_volatile=layout.n_volatile,
            settings=settings(planned, policy.invalidations) if keyed_by is None else keyed_by,
            context=request.context,
            sources=request.sources,
        )

    @property
    def n_stable(self) -> int:
        """Blocks before the volatile end."""
        return len(self.wire) - self.n_volatile

    def tokens(self, n_blocks: int) -> int:
        """Return the estimated tokens of the first blocks."""
        return self.request.tokens(n_blocks)

    def begin_of(self, section: Section) -> int:
        """Return the index of the first block of a section."""
        match section:
            case Section.TOOLS:
                return 0
            case Section.SYSTEM:
                return len(self.request.tools)
            case Section.MESSAGES:
                return len(self.request.tools) + len(self.request.system)

    def segment(self, index: int) -> tuple[str, str | None]:
        """Return the name of the segment that block `index` comes from, and its source line."""
        place = self.wire[index].segment
        if place is None:
            return ("volatile" if index >= self.n_stable else "adapter"), None
        segments = self.context.segments
        segment = segments[place]
        source = self.sources.get(segment.digest)
        if segment.part is not None:
            return f"{segment.tier.value}/{segment.part.value}", source
        same = [each for each in segments if each.tier is segment.tier and each.part is None]
        if len(same) == 1 and segment.tier.value == "tools":
            return segment.tier.value, source
        number = sum(1 for each in segments[:place] if each.tier is segment.tier)
        return f"{segment.tier.value}[{number}]", source


def compare(before: Sent, now: Sent) -> Difference | None:
    """Return the first place at which `now` does not extend the cached blocks of `before`.

    One digest is compared for each block; only the block that differs is read byte by byte.
    """
    ours, theirs = _frames(before.request), _frames(now.request)
    for index, was in enumerate(before.wire[: before.n_cached]):
        was_frame, frame = next(ours), next(theirs, None)
        if frame is None:
            return _removed(before, index, was_frame[0])
        have = now.wire[index]
        if was_frame[0] is not frame[0]:
            inserted = _RANK[frame[0]] < _RANK[was_frame[0]]
            if inserted:
                return _inserted(now, index, frame[0])
            return _removed(before, index, was_frame[0])
        if was_frame != frame or not (was is have or _same(was, have)):
            return _changed(before, now, index, frame[0])
    return None


def changed_identity(before: Sent, now: Sent) -> tuple[Change, ...]:
    """Return the settings that entries are keyed by and that differ."""
    if before.settings == now.settings:
        return ()
    return tuple(Change(name) for name in changed_settings(before.settings, now.settings))


def _same(was: WireBlock, have: WireBlock) -> bool:
    return was.block.digest == have.block.digest and was.block.kind is have.block.kind


def _frames(request: CacheRequest) -> Iterator[tuple[Section, Role | None]]:
    """Yield the section of each block, and the role where it begins a message."""
    for _ in request.tools:
        yield Section.TOOLS, None
    for _ in request.system:
        yield Section.SYSTEM, None
    for message in request.messages:
        for place, _ in enumerate(message.blocks):
            yield Section.MESSAGES, message.role if place == 0 else None


def _changed(before: Sent, now: Sent, index: int, section: Section) -> Difference:
    was, have = before.wire[index].data, now.wire[index].data
    byte = _first_difference(was, have)
    segment, source = now.segment(index)
    return Difference(
        section=section.value,
        block=index,
        segment=segment,
        byte=byte,
        before=_around(was, byte),
        after=_around(have, byte),
        source=source,
    )


def _inserted(now: Sent, index: int, section: Section) -> Difference:
    segment, source = now.segment(index)
    after = _around(now.wire[index].data, 0)
    return Difference(
        section=section.value,
        block=index,
        segment=segment,
        byte=0,
        before="",
        after=after,
        source=source,
    )


def _removed(before: Sent, index: int, section: Section) -> Difference:
    segment, source = before.segment(index)
    was = _around(before.wire[index].data, 0)
    return Difference(
        section=section.value,
        block=index,
        segment=segment,
        byte=0,
        before=was,
        after="",
        source=source,
    )


def _first_difference(was: bytes, have: bytes) -> int:
    """Return the first offset at which the two differ; the shorter's length if it is a prefix."""
    shorter = min(len(was), len(have))
    for start in range(0, shorter, _CHUNK):
        end = min(start + _CHUNK, shorter)
        if was[start:end] != have[start:end]:
            return next(at for at in range(start, end) if was[at] != have[at])
    return shorter


def _around(data: bytes, byte: int) -> str:
    start = max(0, byte - _AROUND)
    return data[start : byte + _AROUND].decode("utf-8", "replace")


_RANK = {section: rank for rank, section in enumerate(Section)}
