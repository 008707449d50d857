"""Integer weights in groups: `weight = scale * code + minimum`, scale and minimum in float16.

That is the form of GGUF's block types, so their numbers are taken as they are
(`TensorSource.blocks`) and a file that is quantised already loses nothing more. Other weights are
rounded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 32
"""Weights that share a scale; the block size of GGUF's Q4_0, Q4_1 and Q8_0."""

_BLOCK_ELEMENTS = 1 << 20
"""How much is decoded at once for a product: 4 MB of float32, which stays in a core's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """One quantised matrix [out, in], in groups along `in`."""

    bits: int
    """4 (codes 0 to 15) or 8 (codes -128 to 127)."""
    codes: Tensor
    """int8 [out, groups, group size]."""
    scale: Tensor
    """float16 [out, groups]."""
    minimum: Tensor | None
    """float16 [out, groups]; None is zero."""

    def effective(self) -> Tensor:
        """The weights that the codes stand for: float32 [out, in]."""
        weight = self.codes.float() * self.scale.float()[..., None]
        if self.minimum is not None:
            weight += self.minimum.float()[..., None]
        return weight.flatten(1)


def quantise(weight: Tensor, bits: int) -> Blocks:
    """Round `weight` [out, in] to `bits`: symmetric for 8, with a minimum for 4.

    The scale is rounded to float16 first, and codes are chosen for the rounded one. Rows that do
    not divide into groups of `GROUP` are one group each.

    Raises:
        ValueError: `bits` is neither 4 nor 8.
    """
    if bits not in (4, 8):
        raise ValueError(f"bits must be 4 or 8, got {bits!r}")
    n_out, n_in = weight.shape
    grouped = weight.float().reshape(n_out, -1, GROUP if n_in % GROUP == 0 else n_in)
    minimum: Tensor | None = None
    if bits == 8:
        scale = (grouped.abs().amax(-1) / 127).half()
        low, high = -128, 127
    else:
        minimum = grouped.amin(-1).half()
        scale = ((grouped.amax(-1) - minimum.float()) / 15).half()
        grouped = grouped - minimum.float()[..., None]
        low, high = 0, 15
    # A group of equal weights has scale 0: its codes are 0 whatever it is divided by.
    divisor = scale.float().masked_fill(scale == 0, 1.0)
    codes = (grouped / divisor[..., None]).round_().clamp_(low, high).to(torch.int8)
    return Blocks(bits=bits, codes=codes, scale=scale, minimum=minimum)


def join_rows(parts: Sequence[Blocks]) -> Blocks:
    """Stack matrices with the same group size. Parts of 4 and 8 bits become one of 8."""
    minimum = None
    if any(part.minimum is not None for part in parts):
        minimum = torch.cat(
            [torch.zeros_like(p.scale) if p.minimum is None else p.minimum for p in parts]
        )
    return Blocks(
        bits=max(part.bits for part in parts),
        codes=torch.cat([part.codes for part in parts]),
        scale=torch.cat([part.scale for part in parts]),
        minimum=minimum,
    )


class BlockMatrix:
    """A projection, and an embedding, that is kept as integers and decoded piece by piece.

    It takes about a seventh (4 bits) or a quarter (8 bits) of float32's memory. It is for memory,
    not for speed: on a CPU a single row takes about twice as long as with float32 weights, and four
    times as long as with float16 ones; for hundreds of rows decoding hardly counts.
    """

    __slots__ = ("_bias", "_codes", "_dtype", "_group", "_minimum", "_packed", "_scale", "shape")

    def __init__(
        self,
        blocks: Blocks,
        bias: Tensor | None = None,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        n_out, n_groups, self._group = blocks.codes.shape
        n_in = n_groups * self._group
        self.shape = (n_out, n_in)
        self._packed = blocks.bits == 4 and n_in % 2 == 0
        codes = blocks.codes.flatten(1)
        self._codes = (_pack_nibbles(codes) if self._packed else codes).to(device)
        self._scale = blocks.scale.to(device)
        self._minimum = None if blocks.minimum is None else blocks.minimum.to(device)
        self._bias = bias
        self._dtype = dtype

    @property
    def device(self) -> torch.device:
        """See `Table.device`."""
        return self._codes.device

    @property
    def n_bytes(self) -> int:
        """See `Linear.n_bytes`."""
        minimum = 0 if self._minimum is None else self._minimum.nbytes
        return self._codes.nbytes + self._scale.nbytes + minimum

    def __call__(self, x: Tensor) -> Tensor:
        """See `Linear.__call__`."""
        n_out, n_in = self.shape
        step = max(_BLOCK_ELEMENTS // n_in, 1)
        out = torch.empty(x.shape[0], n_out, dtype=x.dtype, device=x.device)
        for start in range(0, n_out, step):
            rows = slice(start, start + step)
            weight = self._scaled(rows).flatten(1).to(self._dtype)
            torch.mm(x, weight.t(), out=out[:, rows])
        if self._minimum is not None:
            # Each minimum meets the sum of its group's activations: no pass over all weights.
            sums = x.view(x.shape[0], -1, self._group).sum(-1, dtype=torch.float32)
            out += sums @ self._minimum.float().t()
        return out if self._bias is None else out.add_(self._bias)

    def rows(self, ids: Tensor) -> Tensor:
        """See `Table.rows`."""
        weight = self._scaled(ids)
        if self._minimum is not None:
            weight += self._minimum[ids].float()[..., None]
        return weight.flatten(1).to(self._dtype)

    def _scaled(self, rows: slice | Tensor) -> Tensor:
        """Scale times code of `rows`: float32 [n, groups, group size]."""
        codes = self._codes[rows]
        n, n_in = codes.shape[0], self.shape[1]
        if self._packed:
            weight = torch.empty(n, n_in, dtype=torch.float32, device=codes.device)
            weight[:, : n_in // 2] = codes & 15
            weight[:, n_in // 2 :] = codes >> 4
        else:
            weight = codes.float()
        return weight.view(n, -1, self._group).mul_(self._scale[rows].float()[..., None])


def _pack_nibbles(codes: Tensor) -> Tensor:
    """int8 [out, in] in 0 to 15 -> uint8 [out, in / 2]: a row's first half in the low nibbles.

    Halves of rows and not of groups: decoding writes long runs.
    """
    low, high = codes.to(torch.uint8).chunk(2, dim=-1)
    return low | (high << 4)
