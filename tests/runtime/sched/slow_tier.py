"""A slower tier for the simulation: it keeps what slots held, and gives it back when told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.tiers.base import BLOCK_TOKENS, Block, TierChange

Content = dict[int, tuple[bytes, tuple[int, ...]]]
"""For which namespace and prefix each slot holds KV."""


class SlowFetch:
    """Arrives when the tier says so."""

    def __init__(self, tier: SlowTier, names: Sequence[bytes]) -> None:
        self._tier = tier
        self._names = names
        self.arrived = False
        self.closed = False

    @property
    def done(self) -> bool:
        return self.arrived

    @property
    def n_blocks(self) -> int:
        held = (name in self._tier.blocks for name in self._names)
        return next((i for i, here in enumerate(held) if not here), len(self._names))

    def load(self, extents: Sequence[Extent]) -> None:
        assert self.arrived
        assert not self.closed
        if self._tier.broken:
            raise OSError("the disk is gone")
        slots = [slot for run in extents for slot in range(run.start, run.end)]
        assert len(slots) % BLOCK_TOKENS == 0
        rows = [row for name in self._names for row in self._tier.blocks[name]]
        self._tier.content.update(zip(slots, rows, strict=False))

    def close(self) -> None:
        self.closed = True


class SlowTier:
    """`kv.tiers.base.Tiers` without limits; every block is worth fetching."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.blocks: dict[bytes, list[tuple[bytes, tuple[int, ...]]]] = {}
        self.fetches: list[SlowFetch] = []
        self.broken = False

    def arrive(self) -> None:
        """All that is under way is here."""
        for fetch in self.fetches:
            fetch.arrived = True

    def save(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            slots = [slot for run in block.extents for slot in range(run.start, run.end)]
            self.blocks.setdefault(block.name, [self.content[slot] for slot in slots])

    def held(self, names: Sequence[bytes], *, cached_tokens: int = 0) -> int:
        return next((i for i, name in enumerate(names) if name not in self.blocks), len(names))

    def fetch(self, names: Sequence[bytes]) -> SlowFetch:
        self.fetches.append(SlowFetch(self, names))
        return self.fetches[-1]

    def forget(self, namespace: bytes | None = None) -> int:
        return 0

    def forget_blocks(self, names: Sequence[bytes]) -> int:
        return 0

    def note_prefill(self, n_tokens: int, seconds: float, *, context: int = 0) -> None:
        pass

    def listen(self, listener: Callable[[TierChange], None] | None) -> None:
        pass

    def close(self) -> None:
        pass
