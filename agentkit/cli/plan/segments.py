"""The segments of a request, in the order of the provider's cache."""

from __future__ import annotations

from dataclasses import replace

from agentkit.caching.difference import Sent
from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import AnthropicPolicy, OpenAiMarkPolicy, Policy, Ttl
from agentkit.cli.plan.rows import SegmentRow
from agentkit.models.base import ModelRequest
from agentkit.models.hosted.wire import Layout


def segments_of(
    layout: Layout, request: ModelRequest, plan: CachePlan, policy: Policy, *, n_shared: int = 0
) -> tuple[SegmentRow, ...]:
    """Return one row for each segment; `n_shared` leading blocks are those of another agent."""
    sent = Sent.of(layout, request, policy)
    marks = {mark.index: _life(mark.ttl, policy) for mark in plan.marks}
    rows: list[SegmentRow] = []
    for index, wire in enumerate(layout.blocks):
        name, _ = sent.segment(index)
        row = SegmentRow(
            name=name,
            tier=name,
            blocks=1,
            tokens=wire.block.n_tokens,
            marks=(marks[index],) if index in marks else (),
            shared_tokens=wire.block.n_tokens if index < n_shared else 0,
        )
        if wire.segment is not None:
            row = replace(row, tier=request.context.segments[wire.segment].tier.value)
        if rows and rows[-1].name == name:
            rows[-1] = _together(rows[-1], row)
        else:
            rows.append(row)
    return tuple(rows)


def shared_blocks(layout: Layout, other: Layout) -> int:
    """Return how many leading blocks two requests have in common."""
    pairs = zip(layout.blocks, other.blocks, strict=False)
    for index, (mine, theirs) in enumerate(pairs):
        if mine.block.digest != theirs.block.digest:
            return index
    return min(len(layout.blocks), len(other.blocks))


def _together(row: SegmentRow, more: SegmentRow) -> SegmentRow:
    return replace(
        row,
        blocks=row.blocks + more.blocks,
        tokens=row.tokens + more.tokens,
        marks=row.marks + more.marks,
        shared_tokens=row.shared_tokens + more.shared_tokens,
    )


def _life(ttl: Ttl | None, policy: Policy) -> str:
    if ttl is None and isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy):
        ttl = policy.default_ttl
    return "marked" if ttl is None else ttl.value
