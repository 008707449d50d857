"""The messages of a request as caches see them, and what is known of a whole list of them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, compress, count
from operator import attrgetter

from agentkit.caching.policy import BlockKind, Ttl


@dataclass(frozen=True, slots=True)
class Mark:
    """A cache mark on a block (`cache_control`, `prompt_cache_breakpoint`)."""

    ttl: Ttl | None = None
    """None: the provider's default, or what the request's options say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a request that is equal to another or not; simulated caches never look inside.

    Where two texts part in their middle, make two blocks of each.
    """

    kind: BlockKind = BlockKind.TEXT
    digest: bytes
    """Names the bytes: equal digests, equal bytes."""
    n_tokens: int
    mark: Mark | None = None
    group: str | None = None
    """Neighbours of one group are one position, and their marks act as one: the last."""
    shows_image: bool = False
    """Whether there is an image inside it, e.g. in a tool result."""

    def __post_init__(self) -> None:
        if self.n_tokens < 0:
            raise ValueError(f"n_tokens must be at least 0, got {self.n_tokens!r}")


def replace_mark(block: Block, mark: Mark | None) -> Block:
    """Return the block with another mark, or none."""
    return Block(
        kind=block.kind,
        digest=block.digest,
        n_tokens=block.n_tokens,
        mark=mark,
        group=block.group,
        shows_image=block.shows_image,
    )


def with_length(block: Block, n_tokens: int) -> Block:
    """Return the block with another number of tokens."""
    if block.n_tokens == n_tokens:
        return block
    return Block(
        kind=block.kind,
        digest=block.digest,
        n_tokens=n_tokens,
        mark=block.mark,
        group=block.group,
        shows_image=block.shows_image,
    )


def shows_image(block: Block) -> bool:
    """Return whether a block is an image, or shows one."""
    return block.kind is BlockKind.IMAGE or block.shows_image


class Role(enum.StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DEVELOPER = "developer"
    """A system or developer message behind the first other message."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation."""

    role: Role
    blocks: tuple[Block, ...]
    shows_image: bool = field(init=False, repr=False, compare=False)
    """Whether there is an image in it."""
    is_marked: bool = field(init=False, repr=False, compare=False)
    """Whether one of its blocks has a mark."""

    def __post_init__(self) -> None:
        # Found once: every request of a run shows the same messages again.
        shows, is_marked = False, False
        for block in self.blocks:
            shows = shows or block.shows_image or block.kind is BlockKind.IMAGE
            is_marked = is_marked or block.mark is not None
        object.__setattr__(self, "shows_image", shows)
        object.__setattr__(self, "is_marked", is_marked)

    @property
    def is_tool_result(self) -> bool:
        """Whether it holds nothing but tool results, whichever role carries them."""
        if self.role is Role.TOOL:
            return True
        return bool(self.blocks) and all(
            block.kind in (BlockKind.TOOL_RESULT, BlockKind.PROGRAMMATIC_TOOL_RESULT)
            for block in self.blocks
        )


class Messages(tuple[Message, ...]):
    """Messages in order. What takes a walk over all of them is found once, and passed on.

    A request has those of the one before and some more, so a list that is made of another one walks
    over what is new only; the rest is copied in one step. Equal to a tuple of the same messages.
    """

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks, in order."""
        return tuple(chain.from_iterable(map(_BLOCKS, self)))

    @cached_property
    def starts(self) -> list[int]:
        """For each message the index of its first block, and at the end the number of blocks."""
        return list(accumulate(map(len, map(_BLOCKS, self)), initial=0))

    @cached_property
    def lengths(self) -> list[int]:
        """Tokens of the first 0, 1, 2, ... blocks."""
        return list(accumulate(map(_N_TOKENS, self.blocks), initial=0))

    @cached_property
    def roles(self) -> list[Role]:
        """For each block the role of its message."""
        return list(chain.from_iterable([each.role] * len(each.blocks) for each in self))

    @cached_property
    def marked(self) -> list[int]:
        """The places of messages that have a marked block."""
        return list(compress(count(), map(_IS_MARKED, self)))

    @cached_property
    def shows_image(self) -> bool:
        """Whether there is an image in one of them."""
        return any(map(_HAS_IMAGE, self))

    @cached_property
    def kinds(self) -> frozenset[BlockKind]:
        """The kinds of their blocks; maybe others, which a list had that this one is made of."""
        return frozenset(map(_KIND, self.blocks))

    def continued(self, n_kept: int, new: Iterable[Message]) -> Messages:
        """Return the first `n_kept` of them with others behind."""
        if not n_kept:
            return Messages(new)
        tail = tuple(new)
        made = Messages((*self[:n_kept], *tail))
        end = self.starts[n_kept]
        blocks = [block for message in tail for block in message.blocks]
        lengths = (len(message.blocks) for message in tail)
        made.blocks = (*self.blocks[:end], *blocks)
        made.starts = self.starts[:n_kept]
        made.starts += accumulate(lengths, initial=end)
        made.lengths = self.lengths[:end]
        made.lengths += accumulate(map(_N_TOKENS, blocks), initial=self.lengths[end])
        made.roles = self.roles[:end]
        for message in tail:
            made.roles += [message.role] * len(message.blocks)
        made.marked = [number for number in self.marked if number < n_kept]
        made.marked += [number for number, each in enumerate(tail, n_kept) if each.is_marked]
        made.kinds = self.kinds.union(map(_KIND, blocks))
        if not self.shows_image:
            made.shows_image = any(map(_HAS_IMAGE, tail))
        return made

    def with_marks_of(self, changed: Mapping[int, Message]) -> Messages:
        """Return them with some replaced by messages that differ in their marks only."""
        messages, blocks = list(self), list(self.blocks)
        for number, message in changed.items():
            messages[number] = message
            blocks[self.starts[number] : self.starts[number + 1]] = message.blocks
        made = Messages(messages)
        made.blocks = tuple(blocks)
        made.starts, made.lengths, made.roles = self.starts, self.lengths, self.roles
        made.kinds, made.shows_image = self.kinds, self.shows_image
        touched = {number for number, message in changed.items() if message.is_marked}
        made.marked = sorted(touched.union(self.marked) - (changed.keys() - touched))
        return made


_BLOCKS = attrgetter("blocks")
_HAS_IMAGE = attrgetter("shows_image")
_IS_MARKED = attrgetter("is_marked")
_KIND = attrgetter("kind")
_N_TOKENS = attrgetter("n_tokens")
# Lists are walked by these, without a step of Python for each item.
