"""Research: a question is split, several readers look at once, a judge weighs what they bring.

    python -m examples.research [--model deepseek:deepseek-flash]

The readers begin fresh: rules, tools and their question. The judge is a fork: it knows the whole
conversation with the customer, and reads it from the cache. A reader that fails is a result like
the others, and the answer is given without it. Every quote is looked up in the papers by code.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from agentkit import (
    Agent,
    Limits,
    Model,
    ModelError,
    ModelRequest,
    RunResult,
    ToolContext,
    fan_out,
    subagent,
    tool,
)
from agentkit.team import Ok
from agentkit.testing import Call, ScriptedModel, Step
from examples.house import HOUSE
from examples.offline import arguments, model_of, proven, results_of, said_to, turns_of

PAPERS = {path.name: path.read_text() for path in (Path(__file__).parent / "documents").glob("*")}


class Note(BaseModel):
    """A line of a paper that says something about a question."""

    paper: str
    quote: str


@dataclass
class Archive:
    """The papers, and what was found in them."""

    papers: dict[str, str] = field(default_factory=lambda: dict(PAPERS))
    notes: list[Note] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def search(self, query: str) -> list[str]:
        """Return the lines that contain all words."""
        words = query.lower().split()
        return [
            f"{name}: {line}"
            for name, text in sorted(self.papers.items())
            for line in text.splitlines()
            if all(word in line.lower() for word in words)
        ]


class Reader(Agent[Archive, list[Note]]):
    """You look for the lines that answer one question. Search, then give the lines.

    A search finds lines that have all of its words; try fewer words before you give up.
    """

    max_turns = 6

    @tool
    def search(self, query: str) -> list[str]:
        """Find lines of the papers that contain all words."""
        return self.deps.search(query)[:20]


class Judge(Agent[Archive]):
    """You are the judge. Say which notes answer the customer, and what is still open."""


class Lead(Agent[Archive]):
    """You lead the research. Split the question, have it read, have it judged, then answer."""

    rules = HOUSE
    subagents = (Reader, subagent(Judge, context="fork"))

    @tool(idempotent=True)
    async def read(self, questions: list[str], context: ToolContext[Archive]) -> str:
        """Have several questions looked up at once.

        Args:
            questions: two to six questions that have nothing to do with each other
        """
        tasks = [(Reader, question) for question in questions]
        done = await fan_out(self, tasks, within=context, max_parallel=4)
        archive = context.deps
        for outcome in done.outcomes:
            if isinstance(outcome, Ok):
                archive.notes += [note for note in _notes(outcome.output) if _stands(note, archive)]
            else:
                archive.unread.append(outcome.task)
        notes = "\n".join(f"{note.paper}: {note.quote}" for note in archive.notes)
        return f"{notes or 'Nothing was found.'}\n\nNot read: {archive.unread or 'nothing'}"


def _notes(output: object) -> Sequence[Note]:
    assert isinstance(output, list)
    return output


def _stands(note: Note, archive: Archive) -> bool:
    return note.quote in archive.papers.get(note.paper, "").splitlines()


async def research(model: Model, question: str) -> tuple[Archive, RunResult[str]]:
    """Answer a question from the archive, for no more than 30 requests in all."""
    archive = Archive()
    lead = Lead(deps=archive, model=model, limits=Limits(turns=30))
    return archive, await lead.run(question)


QUESTIONS = {
    "What must hang in the hall?": "escape routes hang",
    "Until when is the certificate due?": "insurance certificate",
    "When does the painting go back?": "returns painting",
    "What did the director dream?": "",
}


def script(request: ModelRequest) -> Step:
    """What the offline model says. One reader's model is ill, and one quotes what nobody wrote."""
    turn, results = turns_of(request), results_of(request)
    if request.agent == "judge":
        return "The first two answer the customer. The loan is another matter."
    if request.agent == "reader":
        if not (query := QUESTIONS[said_to(request)]):
            raise ModelError("the model is ill")
        if turn == 0:
            return Call("search", {"query": query})
        found = [each.split(": ", 1) for each in json.loads(results[-1])]
        invented = [["loan.md", "The museum keeps the painting."]] if "painting" in query else []
        return json.dumps([{"paper": name, "quote": line} for name, line in found + invented])
    if turn == 0:
        return Call("read", {"questions": [*QUESTIONS]})
    if turn == 1:
        return Call("delegate_to_judge", {"task": "Which of these notes answer the customer?"})
    return "By 1 March 2027 the plan must hang, and by 31 January 2027 the certificate is due."


def main(argv: list[str] | None = None) -> None:
    """Ask, and check what comes back."""
    model = model_of(arguments(__doc__, argv).model, script)
    question = "What have we promised the town, and until when? Our house manager has left. " * 8
    with proven(model, anthropic=0.75, openai=0.75):
        archive, result = asyncio.run(research(model, question))
    print(*(f"{note.paper}: {note.quote}" for note in archive.notes), sep="\n")
    print(f"not read: {archive.unread}", result.output, result.cache, sep="\n\n")
    assert archive.notes, "something was found"
    assert all(_stands(note, archive) for note in archive.notes), "each quote stands in its paper"
    assert len(result.requests) <= 30, "limits hold for everybody together"
    paths = [outcome.path for outcome in result.children]
    judge = next(each.usage for each in result.requests if each.path[-1] == "judge")
    asked = [each.usage for each in result.requests if each.path == result.path]
    assert ("lead", "judge") in paths, "somebody has judged"
    if isinstance(model, ScriptedModel):
        assert len(archive.unread) == 1, "one reader failed, and nobody waited for it"
        assert judge.cache_read_tokens == asked[1].input_tokens, "the judge reads all of its parent"


if __name__ == "__main__":
    main()
