"""What tiers want of the KV pool: the bytes of slots, and slots from bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from agentkit_runtime.kv.extent import Extent


class RowStore(Protocol):
    """The pool of one device. A row is all that one token's slot holds, whatever the format."""

    @property
    def bytes_per_token(self) -> int:
        """Bytes of a row: keys, values and scales of all layers."""

    @property
    def device(self) -> torch.device:
        """Where the slots are."""

    def export(self, extents: Sequence[Extent]) -> Tensor:
        """Copies of the rows [n_tokens, bytes_per_token] uint8 of these slots, in order."""

    def load(self, extents: Sequence[Extent], rows: Tensor) -> None:
        """Write rows [n_tokens, bytes_per_token] uint8, on any device, into these slots."""
