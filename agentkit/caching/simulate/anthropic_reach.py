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
    positions: list[int] = []
    before: Block | None = None
    collapses = unit is LookbackUnit.COLLAPSED_RUNS
    for block in blocks:
        if before is None:
            positions.append(0)
        else:
            same = collapses and _is_one_run(before, block)
            positions.append(positions[-1] + (0 if same else 1))
        before = block
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


def _is_one_run(before: Block, block: Block) -> bool:
    if block.group is not None and before.group == block.group:
        return True
    return before.kind is block.kind and block.kind in _RUNS


_RUNS = (BlockKind.TOOL_USE, BlockKind.TOOL_RESULT)
