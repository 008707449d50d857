"""Six requests of one run, as the Responses API gets them. Writes the golden files when run:

python -m tests.golden.wire.openai_responses.make

What a change of these bytes costs its users is a cold cache, so a new file needs a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentkit.blocks import AssistantMessage, ToolCall, ToolMessage, ToolResult, ToolsMessage
from agentkit.caching.plan.plan import CachePlan, PlacedMark
from agentkit.caching.policy import Ttl
from agentkit.caching.request import OpenAiOptions
from agentkit.context import Context
from agentkit.models.base import ModelRequest
from agentkit.toolset import tool
from tests.agentkit.models.hosted.openai_responses.talk import (
    CALLS,
    FOLLOW_UP,
    QUESTION,
    REASONING,
    adapter,
)
from tests.agentkit.models.hosted.weather import ANSWER, FRONT, PREDICTION, RESULTS, request

FOLDER = Path(__file__).parent


@tool
def forecast(city: str, days: int = 1) -> str:
    """Say what the weather will be."""
    return city * days


@tool
def alarm(text: str) -> str:
    """Warn of storms."""
    return text


FIRST = Context(*FRONT, QUESTION)
SECOND = FIRST.append(CALLS, RESULTS)
THIRD = SECOND.append(ANSWER, FOLLOW_UP)
FOURTH = THIRD.append(
    AssistantMessage((REASONING, ToolCall(id="call_3", name="weather", arguments="{}"))),
    ToolMessage((ToolResult(call_id="call_3", name="weather", content="8 °C"),)),
)
FIFTH = FOURTH.append(ToolsMessage(tuple(each.spec.bytes.decode() for each in (forecast, alarm))))
SIXTH = FIFTH.append(
    AssistantMessage((REASONING, ToolCall(id="call_4", name="forecast", arguments="{}"))),
    ToolMessage((ToolResult(call_id="call_4", name="forecast", content="9 °C"),)),
)

REQUESTS: dict[str, tuple[ModelRequest, CachePlan]] = {
    "1_question_with_image": (
        request(FIRST),
        CachePlan(
            marks=(PlacedMark(index=2, ttl=Ttl.TWELVE_HOURS), PlacedMark(index=7)),
            cache_key="desk",
            openai=OpenAiOptions(mode="explicit"),
            predicted=PREDICTION,
        ),
    ),
    "2_reasoning_calls_and_an_error": (
        request(SECOND),
        CachePlan(
            marks=(PlacedMark(index=7), PlacedMark(index=13)),
            cache_key="desk",
            openai=OpenAiOptions(mode="explicit", ttl=Ttl.THIRTY_MINUTES),
            predicted=PREDICTION,
        ),
    ),
    "3_volatile_text_and_a_mask": (
        request(THIRD.with_volatile("It is 9:41.")),
        CachePlan(
            marks=(PlacedMark(index=13), PlacedMark(index=16)),
            cache_key="desk",
            openai=OpenAiOptions(mode="explicit"),
            mask=frozenset(["weather"]),
            predicted=PREDICTION,
        ),
    ),
    "4_other_volatile_text_and_no_tools": (
        request(FOURTH.with_volatile("It is 9:42."), tool_choice="none"),
        CachePlan(
            marks=(PlacedMark(index=16), PlacedMark(index=19)),
            cache_key="desk",
            openai=OpenAiOptions(mode="explicit"),
            predicted=PREDICTION,
        ),
    ),
    "5_tools_that_came_and_volatile_text": (
        request(FIFTH.with_volatile("It is 9:43.")),
        CachePlan(
            marks=(PlacedMark(index=16), PlacedMark(index=19)),
            cache_key="desk",
            openai=OpenAiOptions(mode="explicit"),
            predicted=PREDICTION,
        ),
    ),
    "6_one_of_them_was_called": (
        request(SIXTH),
        CachePlan(
            marks=(PlacedMark(index=19), PlacedMark(index=23)),
            cache_key="desk",
            openai=OpenAiOptions(mode="explicit"),
            mask=frozenset(["weather", "forecast"]),
            predicted=PREDICTION,
        ),
    ),
}
"""By file name: a request, and a plan made by hand."""


def bodies() -> Iterator[tuple[str, bytes]]:
    """Return each file's name and bytes."""
    api = adapter()
    for name, (made, planned) in REQUESTS.items():
        yield f"{name}.json", api.body(api.layout(made), planned, made).data


if __name__ == "__main__":
    for file, data in bodies():
        (FOLDER / file).write_bytes(data)
