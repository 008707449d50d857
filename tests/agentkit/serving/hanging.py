"""A model that never ends its answer to some prompts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from agentkit import ModelRequest
from agentkit.blocks import UserMessage
from agentkit.events import ModelEvent, TextDelta
from agentkit.testing import ScriptedModel


class Hanging(ScriptedModel):
    """Answers `ok`; a prompt with "hang" in it is begun to be answered, and no more."""

    def __init__(self) -> None:
        super().__init__(lambda request: "ok")
        self.began = asyncio.Event()
        self.aborted = asyncio.Event()
        self.gate = asyncio.Event()
        """Answers wait for it; it is open at first."""
        self.gate.set()
        self.is_full = asyncio.Event()
        """Set when three are asked at the same time."""
        self.n_running = 0
        self.most_running = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        last = request.context.messages[-1]
        self.n_running += 1
        self.most_running = max(self.most_running, self.n_running)
        if self.n_running == 3:
            self.is_full.set()
        try:
            await self.gate.wait()
            if isinstance(last, UserMessage) and "hang" in last.text:
                yield TextDelta("thin")
                self.began.set()
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted.set()
            raise
        finally:
            self.n_running -= 1
