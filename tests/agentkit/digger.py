"""An agent that digs holes until its conversation is too long, on a script or at a provider."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

from agentkit import Agent, CompactionRule
from agentkit.blocks import AssistantMessage, UserMessage
from agentkit.context.compaction_rule import SUMMARY_INSTRUCTION
from agentkit.events import ContextCompacted, Event
from agentkit.fake import Ask
from agentkit.fake import Call as FakeCall
from agentkit.fake import Reply as FakeReply
from agentkit.models import ModelRequest
from agentkit.testing import Call, Say, ScriptedModel
from tests.agentkit.hosted_world import HostedWorld

RULE = CompactionRule(trigger_tokens=6_000, limit_tokens=9_000, summary_tokens=300)
RULES = "Be exact and never guess. " * 200  # about 1,300 tokens
SUMMARY = "Holes 1 to 9 were dug, and there was only sand."


def dig(hole: int) -> str:
    """Dig a hole."""
    return f"Sand in hole {hole}. " * 120  # about 600 tokens


def is_summary_request(request: ModelRequest) -> bool:
    return any(
        isinstance(message, UserMessage) and message.text == SUMMARY_INSTRUCTION
        for message in request.context.messages
    )


class Digger:
    """A model that digs for some turns, then answers; summaries are scripted, or well made."""

    def __init__(self, turns: int, *summaries: Any) -> None:
        self.turns = turns
        self.n_turns = 0
        self.summaries = iter(summaries)
        self.model = ScriptedModel(self.step)

    def step(self, request: ModelRequest) -> Any:
        if is_summary_request(request):
            return next(self.summaries, SUMMARY)
        self.n_turns += 1
        if self.n_turns >= self.turns:
            return "Only sand."
        return [Say("Next."), Call("dig", {"hole": self.n_turns})]

    @property
    def asked_for_summaries(self) -> list[ModelRequest]:
        return [c.request for c in self.model.calls if is_summary_request(c.request)]

    def agent(self, **more: Any) -> Agent[Any, Any]:
        values = {"rules": RULES, "compaction": RULE, "max_turns": 100} | more
        return Agent(model=self.model, name="digger", tools=[dig], **values)


def run_all(agent: Agent[Any, Any], prompt: str = "Dig.") -> tuple[Any, list[Event]]:
    async def main() -> tuple[Any, list[Event]]:
        async with agent.stream(prompt) as stream:
            events = [event async for event in stream]
        return stream.result, events

    return asyncio.run(main())


def compactions(events: Sequence[Event]) -> list[ContextCompacted]:
    return [event for event in events if isinstance(event, ContextCompacted)]


def holes(messages: Sequence[Any]) -> list[int]:
    return [
        json.loads(call.arguments)["hole"]
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    ]


def hosted(turns: int, provider: str = "anthropic") -> HostedWorld:
    said = itertools.count(1)

    def respond(ask: Ask) -> FakeReply:
        if SUMMARY_INSTRUCTION in ask.user_text:
            return FakeReply(text=SUMMARY, thinking="Short.", first_byte_s=1.0, seconds=2.0)
        number = next(said)
        calls = (FakeCall("dig", f'{{ "hole": {number} }}'),) if number < turns else ()
        return FakeReply(
            text="Next.", calls=calls, thinking="Deeper.", first_byte_s=1.0, seconds=2.0
        )

    return HostedWorld(respond, provider)


def hosted_run(turns: int, provider: str = "anthropic", **more: Any) -> tuple[HostedWorld, Any]:
    world = hosted(turns, provider)
    values = {"rules": RULES, "compaction": RULE, "max_turns": 100} | more
    agent: Agent[Any, Any] = Agent(model=world.model, name="digger", tools=[dig], **values)
    return world, world.run(lambda: agent.run("Dig."))
