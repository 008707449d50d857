"""Token estimates, corrected by what the provider has counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agentkit.caching.messages import with_length
from agentkit.caching.request import CacheRequest, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A request with corrected lengths."""

    given: CacheRequest
    """With the estimates."""
    request: CacheRequest
    """With the corrected lengths."""
    n_counted: int = 0
    """Leading messages that were counted with all before them, and keep their lengths."""
    counted: int = 0
    """How many tokens these have, by the provider's count; tools and system are among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A prompt whose tokens the provider has counted."""

    n_blocks: int
    estimated: int
    actual: int
    sized: Sized | None = None
    """The request, as it was planned; its blocks behind the first `n_blocks` are not counted."""


class TokenScale:
    """Tokens of one model. The first estimate may be off by a third, later ones by a few."""

    def __init__(self) -> None:
        self._ratio = 1.0

    def learn(self, counted: Counted) -> None:
        """Take over what a provider counted for a whole prompt."""
        if counted.estimated > 0 and counted.actual > 0:
            self._ratio = counted.actual / counted.estimated

    def scaled(self, request: CacheRequest, known: Counted | None) -> CacheRequest:
        """Return the request with corrected lengths, see `sized`."""
        return self.sized(request, known).request

    def sized(self, request: CacheRequest, known: Counted | None) -> Sized:
        """Return the request with corrected lengths.

        `known` is the counted prompt that this one extends, if there is one: its blocks have
        exactly the counted tokens together. Lengths that were counted before it stay.
        """
        if known is None:
            return self._anew(request, 0, 0)
        extended = self._extended(request, known)
        return extended or self._anew(request, known.n_blocks, known.actual)

    def _extended(self, request: CacheRequest, known: Counted) -> Sized | None:
        """Return the request, of which only what is new since the count before gets new lengths.

        None: it does not extend the counted one, or that one was counted shorter than its front.
        """
        before = known.sized
        if before is None or not before.n_counted:
            return None
        given, n_counted = before.given, before.n_counted
        n_known = _messages_within(given, known.n_blocks)
        own = given.messages[n_counted:n_known]
        n_own = known.actual - before.counted
        if (
            not any(_sizes(own))
            or n_own <= 0
            or given.messages[:n_known] != request.messages[:n_known]
            or (given.tools, given.system) != (request.tools, request.system)
        ):
            return None
        new = request.messages[n_known:]
        front = before.request
        resized = (
            *_resized(own, _spread(_sizes(own), n_own)),
            *_resized(new, self._estimates(_sizes(new))),
        )
        messages = front.messages.continued(n_counted, resized)
        scaled = replace(request, tools=front.tools, system=front.system, messages=messages)
        return Sized(given=request, request=scaled, n_counted=n_known, counted=known.actual)

    def _anew(self, request: CacheRequest, n_known: int, total: int) -> Sized:
        blocks = list(request.blocks)
        sizes = [block.n_tokens for block in blocks]
        n_known = min(n_known, len(sizes))
        lengths = _spread(sizes[:n_known], total) + self._estimates(sizes[n_known:])
        scaled = request
        if lengths != sizes:
            pairs = zip(blocks, lengths, strict=True)
            scaled = request.with_blocks([with_length(block, n) for block, n in pairs])
        n_counted = _messages_within(request, n_known)
        return Sized(given=request, request=scaled, n_counted=n_counted, counted=total)

    def _estimates(self, sizes: Sequence[int]) -> list[int]:
        return _spread(sizes, round(sum(sizes) * self._ratio))


def _messages_within(request: CacheRequest, n_blocks: int) -> int:
    """Return how many leading messages lie within the first blocks; 0 if those end inside one."""
    n_within = n_blocks - request.n_front
    if n_within < 0:
        return 0
    starts = request.messages.starts
    found = bisect_left(starts, n_within)
    return found if found < len(starts) and starts[found] == n_within else 0


def _sizes(messages: Iterable[Message]) -> list[int]:
    return [block.n_tokens for message in messages for block in message.blocks]


def _resized(messages: Iterable[Message], lengths: Iterable[int]) -> list[Message]:
    left = iter(lengths)
    return [
        Message(each.role, tuple(with_length(block, next(left)) for block in each.blocks))
        for each in messages
    ]


def _spread(sizes: Sequence[int], total: int) -> list[int]:
    """Return lengths in the proportions of `sizes` that add up to `total`."""
    everything = sum(sizes)
    if not everything or everything == total:
        return list(sizes)
    lengths, before, so_far = [], 0, 0
    for size in sizes:
        so_far += size
        end = so_far * total // everything
        lengths.append(end - before)
        before = end
    return lengths
