"""A router: one cheap, typed question decides who gets the task, before anybody works on it."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

from pydantic import BaseModel

from agentkit import Agent, ModelRequest, fan_out
from agentkit.result import Outcome
from agentkit.team import Ok
from examples.offline import arguments, model_of, said_to


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


def script(request: ModelRequest) -> str:
    """Answer as a model might."""
    if request.agent == "router":
        return json.dumps({"to": "technician" if "leaks" in said_to(request) else "billing"})
    return f"This is {request.agent}. We call you back today."


def main(argv: list[str] | None = None) -> None:
    """Route two questions, and print who answers what."""
    model = model_of(arguments(__doc__, argv).model, script)
    for question in ("My machine leaks.", "How much was it in May?"):
        outcome = asyncio.run(answer(Router(model=model), question))
        print(question, outcome.output if isinstance(outcome, Ok) else outcome.reason, sep=" - ")


if __name__ == "__main__":
    main()
