"""A pipeline: each agent works on what the one before has made; between them is plain Python."""

from __future__ import annotations

import asyncio
import json

from agentkit import Agent, ModelRequest, Task, fan_out
from agentkit.team import Ok
from examples.offline import arguments, model_of, said_to


class Outliner(Agent[None, list[str]]):
    """You break a subject down into the headings of a short article."""


class Writer(Agent):
    """You write one paragraph under a heading."""


class Editor(Agent):
    """You join paragraphs to one text, and change as little as possible."""

    rules = "The house style: short sentences, no jargon, no jokes."
    subagents = (Outliner, Writer)


async def article(editor: Editor, subject: str) -> str:
    """Outline, write all paragraphs at once, join. What fails is left out, and said."""
    async with editor:
        outline = (await fan_out(editor, [(Outliner, subject)])).outcomes[0]
        headings = outline.output if isinstance(outline, Ok) else [subject]
        assert isinstance(headings, list)
        tasks = [Task(agent=Writer, prompt=heading, label=heading) for heading in headings]
        written = (await fan_out(editor, tasks)).outcomes
        parts = [f"{each.output}" if isinstance(each, Ok) else f"({each.task})" for each in written]
        return (await editor.run("\n\n".join(parts))).output


def script(request: ModelRequest) -> str:
    """Answer as a model might."""
    match request.agent:
        case "outliner":
            return json.dumps(["The keel", "The mast"])
        case "writer":
            return f"{said_to(request)} holds it together."
        case _:
            return said_to(request)


def main(argv: list[str] | None = None) -> None:
    """Write a short article, and print it."""
    model = model_of(arguments(__doc__, argv).model, script)
    print(asyncio.run(article(Editor(model=model), "Boats")))


if __name__ == "__main__":
    main()
