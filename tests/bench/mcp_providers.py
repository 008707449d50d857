"""Whether each provider would take some tools: by its rules, and by being sent there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions
from openai import AsyncOpenAI

from agentkit import Agent, Tool
from agentkit.fake import FakeProvider
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import DEEPSEEK, ChatAdapter
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.toolset.provider_forms import DIALECTS, tool_problems

PROVIDERS = ("anthropic", "openai", "deepseek", "gemini")


async def accepted_by_providers(tools: Sequence[Tool]) -> list[str]:
    """Check tools by each provider's rules, send them to it, and return what is wrong."""
    problems = [
        f"{dialect}: {tool.spec.name}: {problem}"[:300]
        for tool in tools
        for dialect in DIALECTS
        for problem in tool_problems(tool.spec, dialect)
    ]
    for provider in PROVIDERS:
        fake = FakeProvider()
        async with httpx2.AsyncClient(transport=fake.transport(), timeout=None) as http:
            model = HostedModel(_adapter(provider, http))
            agent = Agent(model=model, name="tester", instructions="You test.", tools=list(tools))
            try:
                result = await agent.run("/say taken")
            except Exception as error:
                problems.append(f"{provider}: {error}"[:300])
                continue
            if result.output != "taken":
                problems.append(f"{provider}: {result.output}"[:300])
    return problems


def _adapter(provider: str, http: httpx2.AsyncClient) -> Any:
    match provider:
        case "anthropic":
            claude = AsyncAnthropic(api_key="any", base_url="http://fake", http_client=http)
            return AnthropicAdapter("claude-sonnet-5-5", client=claude)
        case "openai":
            gpt = AsyncOpenAI(api_key="any", base_url="http://fake/v1", http_client=http)
            return ResponsesAdapter("gpt-6.1-sol", client=gpt)
        case "deepseek":
            chat = AsyncOpenAI(api_key="any", base_url="http://fake/deepseek", http_client=http)
            return ChatAdapter("deepseek-flash", profile=DEEPSEEK, client=chat)
        case _:
            options = HttpOptions(base_url="http://fake", httpx_async_client=http)
            return GeminiAdapter(
                "gemini-3.8-flash",
                client=Client(vertexai=False, api_key="any", http_options=options),
            )
