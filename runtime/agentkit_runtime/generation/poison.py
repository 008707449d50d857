"""Cached numbers that are none: a slot with a NaN or an infinity spoils all that attends to it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.pool import KvStorage


def first_bad_position(storage: KvStorage, n_layers: int, extents: Sequence[Extent]) -> int | None:
    """Return the first position in `extents` with a key or value that is not finite, if any.

    Reads all of it: for requests that have failed, not for those that work.
    """
    position = 0
    for run in extents:
        bad = torch.zeros(run.length, dtype=torch.bool, device=storage.device)
        for index in range(n_layers):
            for plane in storage.layer(index).read(run.start, run.length):
                bad |= ~torch.isfinite(plane.float()).flatten(1).all(dim=1)
        if bool(bad.any()):
            return position + int(bad.int().argmax())
        position += run.length
    return None
