"""The tensors behind the slots."""

from __future__ import annotations

import torch

from agentkit_runtime.kv.slots import SlotAllocator

__all__ = ["KvStorage", "SlotAllocator", "bytes_per_token"]


def bytes_per_token(
    *, n_layers: int, n_kv_heads: int, head_dim: int, dtype: torch.dtype = torch.float32
) -> int:
    """Bytes of K and V of one token: 2 x layers x KV heads x head dim x bytes of an element."""
    return 2 * n_layers * n_kv_heads * head_dim * dtype.itemsize


class KvStorage:
    """Keys and values of all slots and layers, `[n_layers, n_slots, n_kv_heads, head_dim]` each.

    The memory is not initialised: a slot holds garbage, also NaN, until its token was computed. On
    CPU the operating system gives real memory only to slots that were written. Raises ValueError
    for a size that is not positive.
    """

    def __init__(
        self,
        *,
        n_layers: int,
        n_slots: int,
        n_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        shape = (n_layers, n_slots, n_kv_heads, head_dim)
        if min(shape) < 1:
            raise ValueError(
                f"layers, slots, KV heads and head dim must all be at least 1, got {shape!r}"
            )
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        """`[n_layers, n_slots, n_kv_heads, head_dim]`"""
        self.values = torch.empty(shape, dtype=dtype, device=device)
        """`[n_layers, n_slots, n_kv_heads, head_dim]`"""

    @property
    def n_slots(self) -> int:
        """Tokens that fit."""
        return self.keys.shape[1]

    @property
    def bytes_per_token(self) -> int:
        """Bytes of K and V of one token over all layers."""
        n_layers, _, n_kv_heads, head_dim = self.keys.shape
        return bytes_per_token(
            n_layers=n_layers, n_kv_heads=n_kv_heads, head_dim=head_dim, dtype=self.keys.dtype
        )

    @property
    def device(self) -> torch.device:
        """Where the slots are."""
        return self.keys.device

    def layer(self, index: int) -> FloatLayer:
        """One layer's keys and values."""
        return FloatLayer(self.keys[index], self.values[index])


class FloatLayer:
    """One layer of a pool that stores plain floating-point numbers; `attention.base.KvLayer`."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys = keys
        """`[n_slots, n_kv_heads, head_dim]`"""
        self.values = values
        """`[n_slots, n_kv_heads, head_dim]`"""

    def write(
        self, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store `k` and `v` [T, kv_heads, head_dim]; see `KvLayer.write`."""
        stored_k, stored_v = k.to(self.keys.dtype), v.to(self.values.dtype)
        self.keys.index_copy_(0, slots, stored_k)
        self.values.index_copy_(0, slots, stored_v)
        return stored_k.to(k.dtype), stored_v.to(v.dtype)

    def read(self, start: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of slots [start, start + length), contiguous and without a copy."""
        return self.keys[start : start + length], self.values[start : start + length]
