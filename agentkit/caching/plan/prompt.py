"""A draft's prompt as marks see it: rendered blocks, prefix lengths, and where a mark may stand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TypeVar

from agentkit.caching.plan.draft import (
    Draft,
    LiveEntries,
    LiveEntry,
    SharedBy,
    SharedPrefix,
    Written,
)
from agentkit.caching.policy import Ttl
from agentkit.caching.request import Block, CacheRequest, Role

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """For each rendered block, by its place, what marks depend on."""

    index: Sequence[int]
    """Place of the block in `CacheRequest.blocks`."""
    blocks: Sequence[Block]
    roles: Sequence[Role | None]
    """None in tools and system."""
    tokens: Sequence[int]
    """Length of the prefix that ends with the block."""
    markable: Mapping[int, bool]
    """Whether the API takes a mark on the block."""
    anchors: Mapping[int, int | None]
    """The last block up to here where the planner may put a mark that acts."""
    entries: Sequence[LiveEntry | None]
    """The entry that ends with the block, readable or coming."""
    readable: Mapping[int, bool]
    """Whether that entry can be read now."""
    written: Sequence[int]
    """Where there may be entries, in order; there are none anywhere else."""

    @property
    def total(self) -> int:
        """Tokens of the whole prompt."""
        return self.tokens[-1] if self.tokens else 0

    @property
    def n_read(self) -> int | None:
        """The last block whose entry can be read and marked; None if there is none."""
        for index in reversed(self.written):
            if self.readable[index] and self.markable[index] and self.anchors[index] == index:
                return index
        return None

    def written_for(self, ttl: Ttl) -> Sequence[int]:
        """Return where there may be entries of a lifetime, in order."""
        entries = self.entries
        return entries.places_of(ttl) if isinstance(entries, LiveEntries) else self.written

    def length(self, index: int | None) -> int:
        """Return the tokens of the prefix that ends with a block; None is the empty prefix."""
        return 0 if index is None else self.tokens[index]

    def shown_before(self, end: int) -> int:
        """Return how many rendered blocks are among the request's first `end` blocks."""
        index = self.index
        if type(index) is range:  # all are
            return end if end in index else len(index)
        return bisect_left(index, end)

    def anchor(self, end: int) -> int | None:
        """Return where the mark for a prefix of `end` blocks of the request stands.

        It walks back over blocks that take no mark. None: nowhere, or the prefix is too short.
        """
        shown = self.shown_before(end)
        return self.anchors[shown - 1] if shown else None


def prompt_of(
    draft: Draft,
    written: Written,
    *,
    now_s: float,
    minimum: int,
    can_mark: Callable[[Block, Role | None], bool],
    shown: Sequence[int] | None = None,
) -> Prompt:
    """Return the prompt. `shown` are the blocks that are rendered; None is all."""
    request = draft.request
    index: Sequence[int] = range(request.n_blocks)
    blocks: Sequence[Block] = request.blocks
    roles = roles_of(request)
    entries = written.entries
    if len(entries) < len(blocks):
        entries = [*entries, *[None] * (len(blocks) - len(entries))]
    tokens = _lengths(request)
    if shown is not None and len(shown) < len(blocks):
        index = shown
        blocks = [blocks[at] for at in shown]
        roles = [roles[at] for at in shown]
        entries = [entries[at] for at in shown]
        tokens = list(accumulate(block.n_tokens for block in blocks))
    markable = _Lazy(lambda place: can_mark(blocks[place], roles[place]))
    # Marks stand from the first block with the minimum up to the volatile end.
    first = bisect_left(tokens, minimum)
    end = bisect_left(index, request.n_blocks - draft.n_volatile)

    def anchor(place: int) -> int | None:
        for at in range(min(place, end - 1), first - 1, -1):
            if markable[at]:
                return at
        return None

    def is_readable(place: int) -> bool:
        entry = entries[place]
        return entry is not None and entry.readable_s <= now_s < entry.expires_s

    return Prompt(
        index=index,
        blocks=blocks,
        roles=roles,
        tokens=tokens,
        markable=markable,
        anchors=_Lazy(anchor),
        entries=entries,
        readable=_Lazy(is_readable),
        written=_written(entries),
    )


class _Lazy(dict[int, ItemT]):
    """What is known of some blocks is found when it is asked for: of a long prompt few ever are."""

    def __init__(self, find: Callable[[int], ItemT]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, place: int) -> ItemT:
        found = self[place] = self._find(place)
        return found


def _written(entries: Sequence[LiveEntry | None]) -> Sequence[int]:
    places = entries.places if isinstance(entries, LiveEntries) else None
    return [at for at, entry in enumerate(entries) if entry] if places is None else places


def _lengths(request: CacheRequest) -> list[int]:
    """Return the lengths of the request's prefixes."""
    front = (*request.tools, *request.system)
    lengths = list(accumulate(block.n_tokens for block in front))
    before = lengths[-1] if lengths else 0
    lengths += map(before.__add__, islice(request.messages.lengths, 1, None))
    return lengths


def roles_of(request: CacheRequest) -> list[Role | None]:
    """Return for each block the role of its message; None in tools and system."""
    roles: list[Role | None] = [None] * request.n_front
    roles += request.messages.roles
    return roles


def run_ends(draft: Draft) -> tuple[list[SharedPrefix], SharedPrefix | None]:
    """Return the ends of the run's earlier requests, and its own end if it has one."""
    ends = [prefix for prefix in draft.shared if prefix.by is SharedBy.RUN]
    return (ends[:-1], ends[-1]) if ends else ([], None)


def front_is_readable(draft: Draft, prompt: Prompt, minimum: int) -> bool:
    """Whether others find the longest shared front already, or never will: it is too short."""
    ends = [shared.end for shared in draft.shared if shared.by is not SharedBy.RUN and shared.reads]
    shown = prompt.shown_before(ends[-1]) if ends else 0
    if not shown or prompt.tokens[shown - 1] < max(1, minimum):
        return True
    return prompt.readable[shown - 1]
