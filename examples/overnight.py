"""A night's work: a prompt is computed once, and then as many letters as the budget covers.

    python -m examples.overnight [--model local:smollm2]

`warm` fills the model's cache while nobody waits (where a model can do that; at a hosted provider
the first letter goes ahead instead, until its answer begins, and the others read what it wrote).
All letters share one budget. What it does not cover is left for the next night, which begins where
this one ended; a letter that cannot be answered stops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentkit import (
    Agent,
    Document,
    LimitReached,
    Limits,
    Model,
    ModelError,
    ModelRequest,
    Task,
    fan_out,
    tool,
)
from agentkit.caching import CacheReport
from agentkit.team import Ok, warm
from agentkit.testing import Call, ScriptedModel, Step
from examples.house import HOUSE
from examples.offline import arguments, model_of, proven, results_of, said_to

PAPERS = sorted((Path(__file__).parent / "documents").glob("*.md"))
LETTERS: Mapping[str, str] = {
    f"letter-{number:02}": text
    for number, text in enumerate(
        (
            "May we hang a painting in the entrance hall?",
            "When is the boat lifted out of the water?",
            "Who pays for the insurance of the loan?",
            "How do I become a volunteer?",
            "May my class sleep on the quay?",
            "When is the rent of the quay building due?",
            "I have found a needle for nets. Do you want it?",
            "Your sign keeps me awake. When is it turned off?",
        )
        * 2
    )
}


class Clerk(Agent):
    """You answer one letter to the museum, from its papers, in three sentences."""

    knowledge = tuple(Document(uri=paper.name, text=paper.read_text()) for paper in PAPERS)
    max_turns = 3

    @tool
    def earlier_answers(self, about: str) -> str:
        """Find what was answered to letters like this one.

        Args:
            about: what the letter is about, in a few words
        """
        return f"Nobody has asked about {about} before."


class Desk(Agent):
    """You have letters to the museum answered."""

    rules = HOUSE
    subagents = (Clerk,)


@dataclass
class Night:
    """What one night has done."""

    warmed_tokens: int
    answers: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Letters that somebody has to look at, and why."""
    left: list[str] = field(default_factory=list)
    """Letters that the budget did not cover."""
    cache: CacheReport | None = None


async def night(desk: Desk, letters: Mapping[str, str], budget: Limits) -> Night:
    """Answer as many letters as the budget covers."""
    async with desk:
        warmed = await warm(desk, keep_s=8 * 3600)
        done = Night(sum(usage.input_tokens or 0 for usage in warmed.values()))
        tasks = [Task(agent=Clerk, prompt=text, label=name) for name, text in letters.items()]
        result = await fan_out(desk, tasks, limits=budget, max_parallel=4)
    for name, outcome in zip(letters, result.outcomes, strict=True):
        if isinstance(outcome, Ok):
            done.answers[name] = str(outcome.output)
        elif isinstance(outcome.error, LimitReached):
            done.left.append(name)
        else:
            done.failed[name] = outcome.reason
    done.cache = result.cache
    return done


def script(request: ModelRequest) -> Step:
    """What the offline model says."""
    if "needle" in said_to(request):
        raise ModelError("the answer was refused")
    if not results_of(request):
        return Call("earlier_answers", {"about": said_to(request)[:20]})
    return "Dear visitor, the papers say what holds. Yours, the museum."


async def nights(model: Model, budget: Limits) -> list[Night]:
    """Work night by night, until no letter is left. Each has its own budget."""
    desk, letters = Desk(model=model), dict(LETTERS)
    done: list[Night] = []
    while letters and len(done) < 10:
        done.append(await night(desk, letters, budget))
        letters = {name: letters[name] for name in done[-1].left}
    return done


def main(argv: list[str] | None = None) -> None:
    """Work until the letters are answered, and check the books."""
    model = model_of(arguments(__doc__, argv).model, script)
    budget = Limits(turns=20, tokens=60_000)
    with proven(model, anthropic=0.9, openai=0.9):
        done = asyncio.run(nights(model, budget))
    for number, each in enumerate(done, 1):
        print(
            f"night {number}: {each.warmed_tokens:,} tokens warmed, {len(each.answers)} letters "
            f"answered, {len(each.failed)} failed, {len(each.left)} left"
        )
        assert each.cache is not None
        usages = [row.usage for row in each.cache.rows]
        assert sum((u.input_tokens or 0) + (u.output_tokens or 0) for u in usages) < 61_000
        assert each.cache.total.requests - len(each.failed) <= 20, "one budget for all letters"
    print(done[0].cache)
    ended = [name for each in done for name in (*each.answers, *each.failed)]
    assert sorted(ended) == sorted(LETTERS), "each letter once"
    if isinstance(model, ScriptedModel):
        assert done[0].cache is not None
        ratios = [row.usage.hit_ratio for row in done[0].cache.rows if row.requests]
        known = [ratio for ratio in ratios if ratio is not None]
        assert min(known) > 0.9, "nobody had to compute what was warmed"


if __name__ == "__main__":
    main()
