"""A session of pydantic-ai: a tool, an answer in a form, a stream, by both of OpenAI's APIs."""

# mypy: ignore-errors
# Its packages are in an environment of their own.

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, ModelSettings, RunContext
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Trip(BaseModel):
    """A trip."""

    city: str
    days: int


async def session(model: OpenAIChatModel | OpenAIResponsesModel) -> None:
    """Raise when something is not as it should be."""
    asked: list[str] = []
    name = {"name": "weather"}
    forced = {"type": "function", "function": name}
    if isinstance(model, OpenAIResponsesModel):
        forced = {"type": "function", **name}

    def settings(context: RunContext[None]) -> ModelSettings:
        """The first step must call: so small a model would not by itself."""
        body = {"tool_choice": forced if context.run_step == 1 else "none"}
        return ModelSettings(max_tokens=40, extra_body=body)

    helper = Agent(model, model_settings=settings)

    @helper.tool_plain
    def weather(city: str) -> str:
        """Weather of a city."""
        asked.append(city)
        return "sunny, 21 degrees"

    said = await helper.run("What is the weather in Oslo?")
    assert said.output
    assert asked
    planner = Agent(model, output_type=Trip, model_settings=ModelSettings(max_tokens=60))
    trip = (await planner.run("Plan three days in Oslo.")).output
    assert isinstance(trip, Trip)
    talker = Agent(model, model_settings=ModelSettings(max_tokens=20))
    async with talker.run_stream("Say hello.") as stream:
        text = "".join([piece async for piece in stream.stream_text(delta=True)])
    assert text
    said = f"tool calls: {len(asked)}; form: {trip!r}; streamed: {len(text)} characters"
    sys.stdout.write(f"{said}\n")


async def main(url: str) -> None:
    """By both APIs."""
    provider = OpenAIProvider(base_url=url, api_key="none")
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        await session(kind("smollm2", provider=provider))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
