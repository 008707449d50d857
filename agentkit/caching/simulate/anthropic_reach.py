"""Which marks act at Anthropic, and which earlier entry they find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentkit.caching.policy import AnthropicPolicy, BlockKind, LookbackUnit, Ttl
from agentkit.caching.request import Block


def acting_marks(
    blocks: Sequence[Block], placed: Mapping[int, Ttl], policy: AnthropicPolicy
) -> dict[int, Ttl]:
    """Return all marks that act, in order: those placed, and those of server tools.

    `blocks` are those of the rendered prompt. Of the marks in one group only the last acts.
    """
    found = {
        index: ttl for index, ttl in placed.items() if not _later_in_group(index, blocks, placed)
    }
    kinds = [block.kind for block in blocks] if found else []
    if BlockKind.SERVER_TOOL_RESULT in kinds:
        for index, kind in enumerate(kinds):
            if kind is BlockKind.SERVER_TOOL_RESULT:
                found.setdefault(index, policy.server_tool_ttl)
    return dict(sorted(found.items()))


def found_entry(
    marks: Sequence[int], positions: Sequence[int], size: int, readable: Sequence[bool]
) -> int | None:
    """Return the block whose entry is read: the first found from the last mark backwards.

    Each mark looks at `size` positions, its own included.
    """
    for mark in reversed(marks):
        last = positions[mark] - size
        for index in range(mark, -1, -1):
            if positions[index] <= last:
                break
            if readable[index]:
                return index
    return None


def positions_of(blocks: Sequence[Block], unit: LookbackUnit) -> list[int]:
    """Return the position of each block: one more than the one before, except inside a run."""
    if unit is not LookbackUnit.COLLAPSED_RUNS:
        return list(range(len(blocks)))
    positions: list[int] = []
    position, kind, group = -1, None, None
    for block in blocks:
        is_one_run = (block.kind is kind and kind in _RUNS) or (
            group is not None and block.group == group
        )
        kind, group = block.kind, block.group
        position += 0 if is_one_run else 1
        positions.append(position)
    return positions


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
