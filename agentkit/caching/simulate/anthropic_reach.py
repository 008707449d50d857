"""Which marks act at Anthropic, and which earlier entry they find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from agentkit.caching.policy import AnthropicPolicy, BlockKind, LookbackUnit, Ttl
from agentkit.caching.request import Block


def acting_marks(
    blocks: Sequence[Block],
    placed: Mapping[int, Ttl],
    policy: AnthropicPolicy,
    *,
    kinds: Collection[BlockKind],
) -> dict[int, Ttl]:
    """Return all marks that act, in order: those placed, and those of server tools.

    `blocks` are those of the rendered prompt, `kinds` all kinds that there are. Of the marks in one
    group only the last acts.
    """
    found = {
        index: ttl for index, ttl in placed.items() if not _later_in_group(index, blocks, placed)
    }
    if found and BlockKind.SERVER_TOOL_RESULT in kinds:
        for index, block in enumerate(blocks):
            if block.kind is BlockKind.SERVER_TOOL_RESULT:
                found.setdefault(index, policy.server_tool_ttl)
    return dict(sorted(found.items()))


class Positions:
    """The positions of a prompt's blocks: each has its own, but a run of equals has one."""

    def __init__(self, blocks: Sequence[Block], unit: LookbackUnit) -> None:
        self._blocks = blocks
        self._collapses = unit is LookbackUnit.COLLAPSED_RUNS

    def back(self, mark: int, size: int) -> Iterator[int]:
        """Yield the blocks that a mark looks at, latest first: `size` positions, its own too."""
        if not self._collapses:
            yield from range(mark, max(-1, mark - size), -1)
            return
        for index in range(mark, -1, -1):
            yield index
            size -= 0 if self._joins(index) else 1
            if not size:
                return

    def _joins(self, index: int) -> bool:
        """Whether a block has the position of the one before it."""
        if not index:
            return False
        before, block = self._blocks[index - 1], self._blocks[index]
        return (block.kind is before.kind and block.kind in _RUNS) or (
            before.group is not None and block.group == before.group
        )


def found_entry(
    marks: Sequence[int], positions: Positions, size: int, readable: Callable[[int], bool]
) -> int | None:
    """Return the block whose entry is read: the first found from the last mark backwards.

    Each mark looks at `size` positions, its own included. `readable` says of a block whether an
    entry that ends with it can be read.
    """
    for mark in reversed(marks):
        for index in positions.back(mark, size):
            if readable(index):
                return index
    return None


def _later_in_group(index: int, blocks: Sequence[Block], placed: Mapping[int, Ttl]) -> bool:
    """Whether a later mark of the same group stands for this one."""
    group = blocks[index].group
    if group is None:
        return False
    for later in range(index + 1, len(blocks)):
        if blocks[later].group != group:
            return False
        if later in placed:
            return True
    return False


_RUNS = (BlockKind.TOOL_USE, BlockKind.TOOL_RESULT)
