"""What a plan means in tensors: built once a step, used by every layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from agentkit_runtime.attention.kernels import Mask, Packed, bias_of
from agentkit_runtime.attention.plan import AttentionPlan, CausalPart, GatherPart, ReadPart

Part = ReadPart | GatherPart | CausalPart


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """One kernel call and what becomes of its result."""

    part: Part
    folded: slice
    """Folded rows, see `merge`."""
    n_lanes: int
    slots: Tensor | None
    """[keys] int64: slots that are gathered, padded to [lanes * keys] unless `packed`."""
    mask: Mask | None
    packed: Packed | None
    merges: bool
    """Some of the rows have a result from an earlier part."""
    last: bool
    """No later part touches any of the rows."""


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """The parts in the order in which they run: few rows first.

    A lane's own part comes first and is stored; what is shared comes later, and is merged into all
    rows at once.
    """

    plan: AttentionPlan
    parts: tuple[CompiledPart, ...]
    empty_rows: bool
    """A part merges into rows of which some have no result yet."""


class PlanCompiler:
    """Turns plans into tensors.

    Args:
        group: query heads of a KV head.
        dtype: compute dtype.
        device: where.
        window: each row sees this many positions up to its own; None is all.
        packs: see `Kernels.packs`.
    """

    def __init__(
        self,
        *,
        group: int,
        dtype: torch.dtype,
        device: torch.device,
        window: int | None,
        packs: bool,
    ) -> None:
        self._group, self._dtype, self._device = group, dtype, device
        self._window, self._packs = window, packs

    def compile(self, plan: AttentionPlan) -> CompiledPlan:
        """Build a plan's tensors."""
        parts: list[Part] = [*plan.reads, *plan.gathers, *plan.causal]
        parts.sort(key=_n_rows)
        spans = [(part.row, part.row + _n_rows(part)) for part in parts]
        seen = bytearray(plan.n_rows)
        merges: list[bool] = []
        empty = False
        for lo, hi in spans:
            n_seen = sum(seen[lo:hi])
            merges.append(n_seen > 0)
            empty |= 0 < n_seen < hi - lo
            seen[lo:hi] = b"\x01" * (hi - lo)
        later = bytearray(plan.n_rows)
        last: list[bool] = []
        for lo, hi in reversed(spans):
            last.append(not any(later[lo:hi]))
            later[lo:hi] = b"\x01" * (hi - lo)
        last.reverse()
        positions = torch.tensor(plan.positions)
        return CompiledPlan(
            plan,
            tuple(
                self._part(part, span, merged, final, positions)
                for part, span, merged, final in zip(parts, spans, merges, last, strict=True)
            ),
            empty or not all(seen),
        )

    def _part(
        self,
        part: Part,
        span: tuple[int, int],
        merges: bool,
        last: bool,
        positions: Tensor,
    ) -> CompiledPart:
        folded = slice(span[0] * self._group, span[1] * self._group)
        rows = positions[span[0] : span[1]]
        slots: Tensor | None = None
        mask: Mask | None = None
        packed: Packed | None = None
        n_lanes = 1
        if isinstance(part, GatherPart):
            n_lanes = len(part.lanes)
            keys = _key_positions(part)
            if self._packs and not self._cut(rows, keys):
                slots = torch.tensor([s for lane in part.lanes for s in _slots(lane)])
                packed = self._packed(part)
            else:
                slots = torch.tensor(_padded_slots(part))
                mask = self._mask(rows.view(n_lanes, part.n_rows), keys)
        elif self._window is not None:
            first = part.first if isinstance(part, ReadPart) else int(rows[0])
            length = part.extent.length if isinstance(part, ReadPart) else part.n_rows
            keys = torch.arange(first, first + length)[None]
            if self._cut(rows, keys):
                mask = self._mask(rows[None], keys)
        if slots is not None:
            slots = slots.to(self._device)
        return CompiledPart(part, folded, n_lanes, slots, mask, packed, merges, last)

    def _cut(self, rows: Tensor, keys: Tensor) -> bool:
        """True when the window hides a key from a row."""
        return self._window is not None and int(rows.max()) - self._window >= int(keys.min())

    def _mask(self, rows: Tensor, keys: Tensor) -> Mask | None:
        """Mask rows at positions [B, n] on keys at positions [B, L]; None if all see all."""
        seen = keys[:, None, :] <= rows[:, :, None]
        if self._window is not None:
            seen &= keys[:, None, :] > rows[:, :, None] - self._window
        if bool(seen.all()):
            return None
        seen = seen.repeat_interleave(self._group, dim=1).to(self._device)
        blind = ~seen.any(-1)[:, None]
        return Mask(bias_of(seen, self._dtype), blind if bool(blind.any()) else None)

    def _packed(self, part: GatherPart) -> Packed:
        sizes = [sum(piece.extent.length for piece in lane) for lane in part.lanes]
        ends = torch.zeros(len(sizes) + 1, dtype=torch.int32)
        ends[1:] = torch.tensor(sizes, dtype=torch.int32).cumsum(0)
        rows = torch.arange(len(sizes) + 1, dtype=torch.int32) * part.n_rows
        return Packed(
            rows.to(self._device),
            ends.to(self._device),
            n_rows=part.n_rows * len(sizes),
            max_rows=part.n_rows,
            max_keys=max(sizes),
            causal=part.own,
        )


def _n_rows(part: Part) -> int:
    return part.n_rows * len(part.lanes) if isinstance(part, GatherPart) else part.n_rows


def _slots(lane: tuple[tuple[tuple[int, int], int], ...]) -> Iterator[int]:
    for (start, length), _ in lane:
        yield from range(start, start + length)


def _padded_slots(part: GatherPart) -> list[int]:
    """Slots of all lanes, each filled up with a slot of its own: a free one could hold NaN."""
    lanes = [list(_slots(lane)) for lane in part.lanes]
    longest = max(map(len, lanes))
    return [slot for lane in lanes for slot in (*lane, *lane[-1:] * (longest - len(lane)))]


_NEVER = torch.iinfo(torch.int64).max
"""Position of padding: behind every row."""


def _key_positions(part: GatherPart) -> Tensor:
    """[B, L] int64."""
    lanes = [
        [at for (_, length), first in lane for at in range(first, first + length)]
        for lane in part.lanes
    ]
    longest = max(map(len, lanes))
    return torch.tensor([lane + [_NEVER] * (longest - len(lane)) for lane in lanes])
