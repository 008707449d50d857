"""How each provider is held to an output type: the tools never change, the prefix only grows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import TypeAdapter

from agentkit import Agent, tool
from agentkit.answer_form import is_object
from agentkit.fake import Ask, Reply
from agentkit.fake.reply import Call
from agentkit.fake.sample import sample
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld


@dataclass
class Found:
    line: int


@dataclass
class Missing:
    reason: str


@dataclass
class Own:
    answer: int


@tool
def look(at: str) -> str:
    """Look.

    Args:
        at: where
    """
    return f"{at} " * 400


NEEDS_OBJECTS = ("anthropic", "openai")
"""Their schemas have an object at the root."""
IN_WORDS = ("deepseek",)
"""They have no schemas: the form is asked for in words, behind everything that is cached."""
TYPES: list[tuple[Any, object]] = [
    (Found, Found(0)),
    (list[Found], []),
    ([Found, Missing], Found(0)),
    (Literal["yes", "no"], "yes"),
    (int, 0),
    (Found | None, Found(0)),
    (Own | None, Own(0)),
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("output_type", "expected"), TYPES)
def test_answers_of_each_type_come_from_each_provider_over_one_growing_prefix(
    provider: str, output_type: Any, expected: object
) -> None:
    asks: list[Ask] = []

    def respond(ask: Ask) -> Reply:
        asks.append(ask)
        if len(asks) == 1:
            return Reply(calls=(Call("look", '{"at": "the roof"}'),))
        if len(asks) == 2:
            return Reply(text="I am not sure.")
        if ask.output_schema is not None:
            return Reply(text=json.dumps(sample(ask.output_schema)))
        return Reply(text=f"```json\n{TypeAdapter(object).dump_json(expected).decode()}\n```")

    world = HostedWorld(respond, provider)
    agent = Agent(
        model=world.model, instructions="You look.", tools=[look], output_type=output_type
    )
    result = world.run(lambda: agent.run("Look."))

    assert result.output == expected
    assert len(world.served) == 3
    assert len({json.dumps(ask.body["tools"], sort_keys=True) for ask in asks}) == 1
    before: tuple[bytes, ...] = ()
    for stable in world.sent:
        assert stable[: len(before)] == before
        before = stable
    schemas = [ask.output_schema for ask in asks]
    assert schemas[0] == schemas[1] == schemas[2]
    assert (schemas[0] is None) == (provider in IN_WORDS)
    if provider in NEEDS_OBJECTS:
        assert schemas[0] is not None
        assert is_object(schemas[0])
