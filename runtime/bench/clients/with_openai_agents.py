"""A session of the OpenAI Agents SDK: a tool that must be called, then an answer; by both APIs."""

# mypy: ignore-errors
# Its packages are in an environment of their own.

from __future__ import annotations

import asyncio
import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

asked: list[str] = []


@function_tool
def weather(city: str) -> str:
    """Weather of a city."""
    asked.append(city)
    return "sunny, 21 degrees"


async def session(model: OpenAIChatCompletionsModel | OpenAIResponsesModel) -> None:
    """Raise when something is not as it should be."""
    agent = Agent(
        name="helper",
        instructions="You help with the weather.",
        tools=[weather],
        model=model,
        model_settings=ModelSettings(tool_choice="required", max_tokens=60),
        tool_use_behavior="stop_on_first_tool",
    )
    before = len(asked)
    first = await Runner.run(agent, "What is the weather in Oslo?")
    assert len(asked) > before
    second = await Runner.run(
        agent.clone(model_settings=ModelSettings(tool_choice="none", max_tokens=300)),
        [*first.to_input_list(), {"role": "user", "content": "And tomorrow?"}],
    )
    streamed = Runner.run_streamed(
        agent.clone(tools=[], model_settings=ModelSettings(max_tokens=300)), "Say hello."
    )
    kinds = [event.type async for event in streamed.stream_events()]
    assert "raw_response_event" in kinds
    usage = second.context_wrapper.usage
    cached = usage.input_tokens_details.cached_tokens
    said = (
        f"tool: {asked[-1]!r}; cached later: {cached} of {usage.input_tokens}; {len(kinds)} events"
    )
    sys.stdout.write(f"{said}\n")


async def main(url: str) -> None:
    """By both APIs."""
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
            await session(kind("smollm2", client))


if __name__ == "__main__":
    set_tracing_disabled(True)
    asyncio.run(main(sys.argv[1]))
