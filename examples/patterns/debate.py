"""A debate with a judge: two sides speak in turn, each in its own conversation; a third decides."""

from __future__ import annotations

import asyncio
import json
from typing import Literal

from pydantic import BaseModel

from agentkit import Agent, Context, ModelRequest, UserMessage, fan_out
from agentkit.team import Ok
from examples.offline import arguments, model_of


class Verdict(BaseModel):
    """Who has convinced the judge, and by what."""

    winner: Literal["pro", "contra"]
    why: str


class Judge(Agent[None, Verdict]):
    """You have read a debate. Decide by the arguments, not by your own opinion."""


class Side(Agent):
    """You argue for the side that you are given, in three sentences, and answer the other."""

    rules = "Say only what you can defend. Never invent figures."
    subagents = (Judge,)


async def debate(side: Side, motion: str, rounds: int = 2) -> tuple[Verdict, list[str]]:
    """Let both sides speak for some rounds, and have it judged."""
    contexts: dict[str, Context | None] = {"pro": None, "contra": None}
    said: list[str] = []
    async with side:
        for _ in range(rounds):
            for name, context in contexts.items():
                prompt = said[-1] if context else f"You are {name}. The motion: {motion}"
                result = await side.run(prompt, context=context)
                contexts[name] = result.context
                said.append(f"{name}: {result.output}")
        judged = (await fan_out(side, [(Judge, "\n".join([motion, *said]))])).outcomes[0]
    if not isinstance(judged, Ok):
        raise judged.error
    assert isinstance(judged.output, Verdict)
    return judged.output, said


def script(request: ModelRequest) -> str:
    """Answer as a model might."""
    if request.agent == "judge":
        return json.dumps({"winner": "contra", "why": "Only one side has answered the other."})
    first = request.context.messages[0]
    is_pro = isinstance(first, UserMessage) and "You are pro" in first.text
    argument = "They need no rails." if is_pro else "They are slow, and they rock."
    return f"{'Still: ' if len(request.context.messages) > 1 else ''}{argument}"


def main(argv: list[str] | None = None) -> None:
    """Hold a debate, and print what was said and who has won."""
    model = model_of(arguments(__doc__, argv).model, script)
    verdict, said = asyncio.run(debate(Side(model=model), "Boats are better than trains."))
    print(*said, f"{verdict.winner} has won: {verdict.why}", sep="\n")


if __name__ == "__main__":
    main()
