"""A journal that remembers all that it ever held."""

from __future__ import annotations

from agentkit import MemoryJournal
from agentkit.saved import SavedRun


class Diary(MemoryJournal):
    """Keeps what the journal held of the run `r` after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[tuple[SavedRun, ...]] = []

    async def save(self, run: SavedRun) -> None:
        await super().save(run)
        self.states.append(await self.load("r"))
