"""The tensors behind the slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from agentkit_runtime.kv.extent import Extent, total
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.kv.formats import FLOAT_DTYPES, TURNED, Codec, codec_for, float_format
from agentkit_runtime.kv.formats.rotation import rotation
from agentkit_runtime.kv.slots import SlotAllocator

__all__ = ["CodedLayer", "FloatLayer", "KvStorage", "SlotAllocator", "StoredLayer"]


class StoredLayer(Protocol):
    """One layer of a pool; what attention knows as `attention.base.KvLayer`."""

    def write(self, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values; returns what `read` will give."""

    def queries(self, q: Tensor) -> Tensor:
        """Return queries in the basis of the keys that `write` and `read` give."""

    def read(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of neighbouring slots."""

    def gather(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of any slots: new tensors."""


class KvStorage:
    """Keys and values of all slots and layers, in one format.

    The memory is not initialised: a slot holds garbage, also NaN, until its token was computed. On
    CPU the operating system gives real memory only to slots that were written.
    """

    def __init__(
        self,
        *,
        n_layers: int,
        n_slots: int,
        n_kv_heads: int,
        head_dim: int,
        compute_dtype: torch.dtype = torch.float32,
        kv_format: KvFormat | None = None,
        key_centre: Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocate the pool.

        Args:
            n_layers: layers of the model.
            n_slots: tokens that fit.
            n_kv_heads: key and value heads of a layer.
            head_dim: numbers of a head.
            compute_dtype: what the model computes in: what `read` gives.
            kv_format: how numbers are stored; None stores the compute dtype as it is.
            key_centre: subtracted from keys before they are turned, [n_layers, n_kv_heads,
                head_dim] float32; formats that do not turn keys take none. It must be the same as
                long as what was stored is used. Every score of a query changes by the same amount
                then, so attention does not.
            device: where.

        Raises:
            ValueError: a size is not positive, or the format cannot have this head_dim or centre.
        """
        shape = (n_layers, n_slots, n_kv_heads, head_dim)
        if min(shape) < 1:
            raise ValueError(
                f"layers, slots, KV heads and head dim must all be at least 1, got {shape!r}"
            )
        self.format = kv_format or float_format(compute_dtype)
        codec = codec_for(self.format, head_dim=head_dim, compute_dtype=compute_dtype)
        self._plain = FLOAT_DTYPES.get(self.format) is compute_dtype
        # On CPU the heads of a plain pool lie apart in memory: one query reads the slots of a head
        # twice as fast when they touch. What is decoded first does not profit.
        apart = self._plain and torch.device(device).type == "cpu"
        self.planes = tuple(
            torch.empty(
                n_layers, 2, n_kv_heads, n_slots, width, dtype=dtype, device=device
            ).transpose(2, 3)
            if apart
            else torch.empty(n_layers, 2, n_slots, n_kv_heads, width, dtype=dtype, device=device)
            for dtype, width in codec.planes
        )
        """`[n_layers, 2, n_slots, n_kv_heads, width]` each: codes, then scales; keys at 0."""
        self._turn = rotation(head_dim).to(device) if self.format in TURNED else None
        self._centre: Tensor | None = None
        if key_centre is not None:
            if self._turn is None:
                raise ValueError(f"a pool of {self.format} stores keys as they are: no key_centre")
            self._centre = key_centre.to(device) @ self._turn
        self._layers = [self._open_layer(i, codec) for i in range(n_layers)]

    @property
    def n_slots(self) -> int:
        """Tokens that fit."""
        return self.planes[0].shape[2]

    @property
    def bytes_per_token(self) -> int:
        """Bytes of K and V of one token over all layers, with scales."""
        return sum(plane.nbytes for plane in self.planes) // self.n_slots

    @property
    def device(self) -> torch.device:
        """Where the slots are."""
        return self.planes[0].device

    @property
    def keys(self) -> Tensor:
        """`[n_layers, n_slots, n_kv_heads, head_dim]`, a view; of a pool of plain numbers only."""
        return self._plain_plane()[:, 0]

    @property
    def values(self) -> Tensor:
        """As `keys`."""
        return self._plain_plane()[:, 1]

    def layer(self, index: int) -> StoredLayer:
        """One layer's keys and values."""
        return self._layers[index]

    def export(self, extents: Sequence[Extent]) -> Tensor:
        """Return the bytes of these slots, [n_tokens, bytes_per_token] uint8, on the same device.

        A row is all of one token: codes of all layers, then scales of all layers. Only `load` of a
        pool with the same format and shape understands it.
        """
        rows = torch.empty(
            total(extents), self.bytes_per_token, dtype=torch.uint8, device=self.device
        )
        for mine, theirs in self._byte_views(extents, rows):
            theirs.copy_(mine)
        return rows

    def load(self, extents: Sequence[Extent], rows: Tensor) -> None:
        """Write what `export` gave, `rows` [n_tokens, bytes_per_token], into these slots.

        `rows` may be on another device. Raises ValueError when the sizes do not fit.
        """
        expected = (total(extents), self.bytes_per_token)
        if rows.dtype is not torch.uint8 or tuple(rows.shape) != expected:
            raise ValueError(
                f"rows must be uint8 of shape {expected}, got {rows.dtype} {tuple(rows.shape)}"
            )
        for mine, theirs in self._byte_views(extents, rows.to(self.device)):
            mine.copy_(theirs)

    def _byte_views(self, extents: Sequence[Extent], rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Pairs of views, `[n_layers, 2, n, n_kv_heads, bytes]`: of the pool, and of `rows`."""
        pairs: list[tuple[Tensor, Tensor]] = []
        column = 0
        for plane in self.planes:
            mine = plane.view(torch.uint8)
            n_layers, two, n_slots, n_heads, width = mine.shape
            n_bytes = mine.numel() // n_slots
            shape = (-1, n_layers, two, n_heads, width)
            theirs = rows[:, column : column + n_bytes].view(shape).permute(1, 2, 0, 3, 4)
            column += n_bytes
            row = 0
            for run in extents:
                pairs.append(
                    (mine[:, :, run.start : run.end], theirs[:, :, row : row + run.length])
                )
                row += run.length
        return pairs

    def _open_layer(self, index: int, codec: Codec) -> StoredLayer:
        if self._plain:
            return FloatLayer(self.planes[0][index, 0], self.planes[0][index, 1])
        centre = None if self._centre is None else self._centre[index]
        return CodedLayer(codec, tuple(plane[index] for plane in self.planes), self._turn, centre)

    def _plain_plane(self) -> Tensor:
        if not self._plain:
            raise ValueError(f"a pool of {self.format} has no plain keys and values; use layer()")
        return self.planes[0]


class FloatLayer:
    """One layer of a pool that stores what the model computes; `attention.base.KvLayer`."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys = keys
        """`[n_slots, n_kv_heads, head_dim]`"""
        self.values = values
        """`[n_slots, n_kv_heads, head_dim]`"""

    def write(self, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store `k` and `v` [T, kv_heads, head_dim]; see `KvLayer.write`."""
        self.keys.index_copy_(0, slots, k)
        self.values.index_copy_(0, slots, v)
        return k, v

    def queries(self, q: Tensor) -> Tensor:
        """`q`, because keys are as they were computed."""
        return q

    def read(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        """The rows of slots [start, start + length), without a copy."""
        return self.keys[start : start + length], self.values[start : start + length]

    def gather(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of the rows of `slots` [n]. Head by head, which is how the pool lies."""
        k, v = (x.transpose(0, 1).index_select(1, slots) for x in (self.keys, self.values))
        return k.transpose(0, 1), v.transpose(0, 1)


class CodedLayer:
    """One layer of a pool that stores something else; `attention.base.KvLayer`.

    Keys are stored, and read, turned by the orthogonal matrix `turn` [head_dim, head_dim] where
    there is one, and without `centre` [n_kv_heads, head_dim], which is turned already. The codec's
    outliers are smaller then, and attention is the same for queries that are turned, too.
    """

    __slots__ = ("_centre", "_codec", "_planes", "_turn")

    def __init__(
        self,
        codec: Codec,
        planes: tuple[Tensor, ...],
        turn: Tensor | None,
        centre: Tensor | None,
    ) -> None:
        self._codec = codec
        self._planes = planes  # [2, n_slots, n_kv_heads, width] each
        self._turn = turn
        self._centre = centre

    def write(self, slots: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store `k` and `v` [T, kv_heads, head_dim]; see `KvLayer.write`."""
        if self._turn is not None:
            k, v = k.float() @ self._turn, v.float()
            if self._centre is not None:
                k -= self._centre
        coded = self._codec.encode(torch.stack((k, v)))
        for plane, rows in zip(self._planes, coded, strict=True):
            plane.index_copy_(1, slots, rows)
        k, v = self._codec.decode(coded).unbind()
        return k, v

    def queries(self, q: Tensor) -> Tensor:
        """Turn `q` [T, heads, head_dim] as keys are turned; see `KvLayer.queries`."""
        return q if self._turn is None else (q.float() @ self._turn).to(q.dtype)

    def read(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        """The numbers of slots [start, start + length): new tensors, the caller's own."""
        rows = [plane[:, start : start + length] for plane in self._planes]
        k, v = self._codec.decode(rows).unbind()
        return k, v

    def gather(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of `slots` [n]: new tensors, the caller's own."""
        k, v = self._codec.decode([plane.index_select(1, slots) for plane in self._planes]).unbind()
        return k, v
