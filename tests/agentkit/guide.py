"""An agent whose documents change, and what its conversations were told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentkit import Agent, Context, Document
from agentkit.blocks import UserMessage
from agentkit.context.turns import is_delta
from agentkit.knowledge import Knowledge
from agentkit.testing import ScriptedModel

RULES = "Be exact and never guess. " * 60


def make_knowledge() -> Knowledge:
    made = Knowledge()
    made.put_all(
        {
            "hours.md": "We open at nine. " * 60,
            "prices.md": "A ticket is ten euro. " * 60,
            "rooms.md": "There are four rooms. " * 60,
        }
    )
    return made


def says(*steps: Any) -> ScriptedModel:
    return ScriptedModel(list(steps) if steps else lambda request: "Yes.")


def guide(model: Any, knowledge: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(model=model, name="guide", rules=RULES, knowledge=knowledge, **more)


def deltas(context: Context) -> list[str]:
    return [m.text for m in context.messages if isinstance(m, UserMessage) and is_delta(m)]


def documents(context: Context) -> list[str]:
    contents = (segment.content for segment in context.front)
    return [each.uri for each in contents if isinstance(each, Document)]


def kinds(context: Context) -> list[str]:
    return ["delta" if is_delta(m) else m.kind for m in context.messages]


def change_in_a_tool(change: Callable[[], object]) -> Callable[[str], str]:
    def act(what: str) -> str:
        """Act."""
        change()
        return f"{what} done"

    return act
