"""What a team's prompts cost, before there is a key: agents at a fake provider in this process.

    python -m examples.offline_bill

A desk has four letters answered by four clerks at once. The official SDKs talk to simulated caches
of Anthropic and OpenAI, in a time of its own: minutes pass at once. What the fake model says is
made up; what is read, written and billed follows the providers' rules and prices.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from agentkit import Agent, Document, Task, fan_out, tool
from agentkit.caching import CacheReport
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, Call, FakeProvider, Reply
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_responses import ResponsesAdapter

MODELS = ("anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol")
PAPERS = sorted((Path(__file__).parent / "documents").glob("*.md"))
LETTERS = (
    "May we hang a painting in the entrance hall?",
    "When is the boat lifted out of the water?",
    "Who pays for the insurance of the loan?",
    "How do I become a volunteer?",
)


class Clerk(Agent):
    """You answer one letter to the museum. Look up what was answered before, then write."""

    knowledge = tuple(Document(uri=paper.name, text=paper.read_text("utf-8")) for paper in PAPERS)

    @tool
    def earlier_answers(self, about: str) -> str:
        """Find what was answered to letters like this one.

        Args:
            about: What the letter is about, in a few words.
        """
        return f"Nobody has asked about {about} before."


class Desk(Agent):
    """You have letters to the museum answered."""

    rules = "You work for the harbour museum. Be friendly and brief. Promise nothing."
    subagents = (Clerk,)


def say(ask: Ask) -> Reply:
    """What the fake model says: it looks something up, and then answers."""
    calls = () if ask.n_results else (Call("earlier_answers", '{"about": "the museum"}'),)
    text = "Dear visitor, the papers say what holds. Yours, the museum." if ask.n_results else ""
    return Reply(text=text, calls=calls, first_byte_s=2.0, seconds=3.0)


async def bill(model: str) -> CacheReport:
    """Have all letters answered by a hosted model, and return what its cache did."""
    time = VirtualTime()
    fake = FakeProvider(time=time, respond=say)
    async with httpx2.AsyncClient(transport=fake.transport(), timeout=None) as http:
        desk = Desk(model=HostedModel(_at_fake(model, http), time=time))
        tasks = [Task(agent=Clerk, prompt=letter) for letter in LETTERS]
        done = await time.drive(fan_out(desk, tasks))
    for failed in done.failed:
        raise failed.error
    return done.cache


def _at_fake(model: str, http: httpx2.AsyncClient) -> Any:
    """Return the adapter that a model string names, with a client that reaches only the fake."""
    provider, _, name = model.partition(":")
    if provider == "anthropic":
        claude = AsyncAnthropic(api_key="any", base_url="http://fake", http_client=http)
        return AnthropicAdapter(name, client=claude)
    gpt = AsyncOpenAI(api_key="any", base_url="http://fake/v1", http_client=http)
    return ResponsesAdapter(name, client=gpt)


def main() -> None:
    """Print a report for each model, and what its cache has saved."""
    for model in MODELS:
        report = asyncio.run(bill(model))
        print(f"{model}\n\n{report}\n")
        money = report.total.money
        if money is not None and money.saved is not None:
            print(f"  The cache saved {money.saved:.6f} USD of {money.uncached} USD.\n")


if __name__ == "__main__":
    main()
