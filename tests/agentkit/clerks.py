"""Tools whose calls are logged, some of which need a person's agreement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from agentkit import ModelRequest, RunRecord, Tool, ToolContext, tool
from agentkit.blocks import ToolMessage
from agentkit.events import ModelEvent, ToolCallStarted
from agentkit.testing import ScriptedModel


class Log:
    """What was really done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.hang = False
        """Whether a payment never comes back, though it is done."""
        self.hangs = asyncio.Event()

    @property
    def tools(self) -> list[Tool]:
        """`look` is free, `pay` needs approval, and `refund` from 100 euro on."""

        @tool
        def look() -> str:
            """Look."""
            self.done.append("look")
            return "seen"

        @tool(requires_approval=True)
        async def pay(to: str, eur: int) -> str:
            """Pay somebody."""
            self.done.append(f"pay {to} {eur}")
            if self.hang:
                self.hangs.set()
                await asyncio.Event().wait()
            return f"paid {eur} to {to}"

        def is_much(arguments: Mapping[str, object], context: ToolContext[Any]) -> bool:
            return int(str(arguments["eur"])) >= 100

        @tool(requires_approval=is_much)
        def refund(eur: int) -> str:
            """Give money back."""
            self.done.append(f"refund {eur}")
            return f"refunded {eur}"

        return [look, pay, refund]


class SameIds(ScriptedModel):
    """Numbers the calls of each turn anew, as some providers' models do."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Replay the next step."""
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                if isinstance(event, ToolCallStarted):
                    event = replace(event, id=f"call_{event.index}")
                yield event


def results_of(record: RunRecord) -> list[list[str]]:
    """What the model was told, by turn and call."""
    return [
        [each.content for each in message.results]
        for message in record.messages
        if isinstance(message, ToolMessage)
    ]
