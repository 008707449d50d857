"""A weather desk: the front and the parts of a conversation that several APIs are shown."""

from __future__ import annotations

import dataclasses
from typing import Any

from agentkit.blocks import AssistantMessage, Text, ToolMessage, ToolResult
from agentkit.caching.plan.plan import Prediction
from agentkit.caching.policy import InputSplit
from agentkit.context import Context, Document, SystemPart, SystemText, ToolList
from agentkit.context.segment import Content
from agentkit.models.base import ModelRequest
from agentkit.toolset import Toolset, tool


@tool
def weather(city: str) -> str:
    """Say the weather."""
    return city


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return word


TOOLSET = Toolset([weather, lookup])
RULES = SystemText(SystemPart.RULES, "Be honest.")
ROLE = SystemText(SystemPart.ROLE, "You are a weather desk.")
EXAMPLES = SystemText(SystemPart.EXAMPLES, "Q: Rome? A: 20 °C")
NOTE = Document(uri="file:notes", text="Use Celsius.\n")
FRONT: tuple[Content, ...] = (RULES, ToolList(TOOLSET.bytes), ROLE, EXAMPLES, NOTE)

RESULTS = ToolMessage(
    (
        ToolResult(call_id="call_1", name="weather", content="7 °C"),
        ToolResult(call_id="call_2", name="lookup", content="no such word", is_error=True),
    )
)
ANSWER = AssistantMessage((Text("Zürich, 7 °C."),))

PREDICTION = Prediction(split=InputSplit(read=0, uncached=0), hit=0, cost=None, uncached=None)


def request(context: Context, toolset: Toolset = TOOLSET, **changes: Any) -> ModelRequest:
    made = ModelRequest(context=context, toolset=toolset, agent="a", run_id="r", request_id="r-0-0")
    return dataclasses.replace(made, **changes)
