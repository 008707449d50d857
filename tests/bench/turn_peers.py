"""Other frameworks with the same agent, as their documentation shows it.

openai-agents speaks to Anthropic only through another library, so it has OpenAI's API alone. Its
tracing, which would send every run to OpenAI, is off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any

from turn_work import ABOUT, ANTHROPIC_MODEL, OPENAI_MODEL, RULES, Loop, Work, seen

_MOST_TURNS = 10_000


async def _timed(work: Work, run: Callable[[str], Awaitable[str]]) -> float:
    begun = time.process_time()
    answers = await asyncio.gather(*(run(work.question(number)) for number in range(work.n_runs)))
    cost_s = time.process_time() - begun
    assert all(answer.startswith("I look at") for answer in answers), answers[:1]
    return cost_s


async def _pydantic_ai(work: Work) -> float:
    pydantic_ai = import_module("pydantic_ai")
    limits = pydantic_ai.usage.UsageLimits(request_limit=_MOST_TURNS)
    async with _client(work) as client:
        agent = pydantic_ai.Agent(_pydantic_ai_model(work, client), instructions=RULES)

        async def lookup(city: str) -> str:
            return seen(city)

        lookup.__doc__ = ABOUT
        agent.tool_plain(lookup)

        async def run(question: str) -> str:
            if not work.streams:
                return str((await agent.run(question, usage_limits=limits)).output)
            async with agent.run_stream_events(question, usage_limits=limits) as events:
                async for event in events:
                    last = event
            return str(last.result.output)

        return await _timed(work, run)


def _pydantic_ai_model(work: Work, client: Any) -> Any:
    if work.api == "anthropic":
        models: Any = import_module("pydantic_ai.models.anthropic")
        providers: Any = import_module("pydantic_ai.providers.anthropic")
        provider = providers.AnthropicProvider(anthropic_client=client)
        return models.AnthropicModel(ANTHROPIC_MODEL, provider=provider)
    models = import_module("pydantic_ai.models.openai")
    providers = import_module("pydantic_ai.providers.openai")
    provider = providers.OpenAIProvider(openai_client=client)
    return models.OpenAIResponsesModel(OPENAI_MODEL, provider=provider)


async def _openai_agents(work: Work) -> float:
    agents = import_module("agents")
    agents.set_tracing_disabled(True)
    async with _client(work) as client:

        async def lookup(city: str) -> str:
            return seen(city)

        lookup.__doc__ = ABOUT
        model = agents.OpenAIResponsesModel(model=OPENAI_MODEL, openai_client=client)
        tools = [agents.function_tool(lookup)]
        agent = agents.Agent(name="tourist", instructions=RULES, model=model, tools=tools)

        async def run(question: str) -> str:
            if not work.streams:
                done = await agents.Runner.run(agent, question, max_turns=_MOST_TURNS)
                return str(done.final_output)
            result = agents.Runner.run_streamed(agent, question, max_turns=_MOST_TURNS)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

        return await _timed(work, run)


def _client(work: Work) -> Any:
    if work.api == "anthropic":
        vendor: Any = import_module("anthropic")
        return vendor.AsyncAnthropic(api_key="bench", base_url=work.url, max_retries=0)
    vendor = import_module("openai")
    return vendor.AsyncOpenAI(api_key="bench", base_url=f"{work.url}/v1", max_retries=0)


PEERS: Mapping[str, tuple[Loop, tuple[str, ...]]] = {
    "pydantic-ai": (_pydantic_ai, ("anthropic", "responses")),
    "openai-agents": (_openai_agents, ("responses",)),
}
"""By name: the loop, and the APIs that it has."""
