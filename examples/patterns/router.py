"""A router: one cheap, typed question decides who gets the task, before anybody works on it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from agentkit import Agent, fan_out
from agentkit.result import Outcome


class Route(BaseModel):
    """Who should get a question."""

    to: Literal["billing", "technician"]


class Billing(Agent):
    """You answer questions about bills."""


class Technician(Agent):
    """You answer questions about machines that do not do what they should."""


class Router(Agent[None, Route]):
    """You say who should get a question. You do not answer it."""

    rules = "We rent out coffee machines. Be friendly and brief."
    subagents = (Billing, Technician)


async def answer(router: Router, question: str) -> Outcome:
    """Route a question, and have it answered. Both prompts begin with the same rules and tools."""
    async with router:
        route = (await router.run(question)).output
        return (await fan_out(router, [(route.to, question)])).outcomes[0]
