"""What the planner and the front promise, seen on the wire of whole teams of agents."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import Agent
from agentkit.caching.verdict import Cause
from agentkit.fake import Ask, Call, Reply
from agentkit.toolset import ToolContext, ToolOutput, ToolSpec
from tests.agentkit.caching.audit.worlds import (
    AnyWorld,
    assert_prefix,
    front_of,
    pieces_of,
)

RULES = "Always be brief and never guess. " * 200
ROLE = "You look things up before you answer. " * 100
ARGON = "gemini-4-argon"
"""Without cached-content objects, which would take the front out of the request."""
MARKING = ("anthropic", "responses", "chat", "openrouter")


class Listed:
    """A tool as a server lists it: its schema's keys come in any order."""

    def __init__(self, name: str, seed: int = 0) -> None:
        order = random.Random(f"{name}{seed}")
        keys = [("a", {"type": "string"}), ("b", {"type": "integer", "description": "b"})]
        order.shuffle(keys)
        parts = [("type", "object"), ("properties", dict(keys)), ("required", ["a"])]
        order.shuffle(parts)
        self.spec = ToolSpec(name=name, description=f"Does {name}. " * 60, parameters=dict(parts))

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        return ToolOutput(content=f"{arguments['a']} is there. " * 20)


def tools(seed: int | None = None) -> list[Any]:
    listed = [Listed(f"tool_{n}", seed or 0) for n in range(6)]
    if seed is not None:
        random.Random(seed).shuffle(listed)
    return listed


def works(turns: int) -> Any:
    """Calls a tool in each turn, then answers; a parent asks its child in its first turn."""

    def respond(ask: Ask) -> Reply:
        call = Call("tool_1", json.dumps({"a": f"step {ask.n_turns}"}))
        if "delegate_to_child" in ask.tools and ask.n_turns == 0 and "LEAD" in ask.user_text:
            call = Call("delegate_to_child", '{"task": "Look."}')
        done = ask.n_turns + 1 >= turns
        return Reply(
            text="Done." if done else "Looking.",
            calls=() if done else (call,),
            first_byte_s=1.0,
            seconds=1.0,
        )

    return respond


def team(model: Any, seed: int | None = None) -> Agent[None, str]:
    child: Agent[None, str] = Agent(
        name="child", instructions="You are the child. " + ROLE, tools=tools(seed)
    )
    return Agent(
        model=model,
        name="parent",
        rules=RULES,
        instructions="You are the parent. " + ROLE,
        tools=tools(seed),
        subagents=[child],
    )


def single(model: Any, seed: int | None = None, **more: Any) -> Agent[None, Any]:
    return Agent(
        model=model, name="clerk", rules=RULES, instructions=ROLE, tools=tools(seed), **more
    )


def is_of_child(body: bytes) -> bool:
    return "You are the child." in front_of(body)[-1]


@pytest.mark.parametrize(
    ("provider", "name"), [*((each, None) for each in (*MARKING, "deepseek")), ("gemini", ARGON)]
)
def test_a_child_sends_its_parents_rules_and_tools_to_the_byte(
    provider: str, name: str | None
) -> None:
    """C53: the team's front is one on the wire; what differs is the role, behind it."""
    world = AnyWorld(works(3))
    world.run(lambda: team(world.model(provider, name)).run("LEAD"))

    parents = [front_of(body) for body in world.fake.requests if not is_of_child(body)]
    children = [front_of(body) for body in world.fake.requests if is_of_child(body)]
    assert len(parents) == len(children) == 3
    for child in children:
        assert child[:8] == parents[0][:8], "seven tools and the rules"
        assert child[8:] != parents[0][8:]


@pytest.mark.parametrize("provider", MARKING)
def test_a_child_is_cached_as_its_parent_is(provider: str) -> None:
    """C53: no other policy on the child's path: it reads the parent's front, and all of its own."""
    world = AnyWorld(works(4))
    world.run(lambda: team(world.model(provider)).run("LEAD"))

    pairs = list(zip(world.fake.requests, world.served, strict=True))
    children = [served for body, served in pairs if is_of_child(body)]
    assert len(children) == 4
    shared = sum(len(piece) for piece in front_of(world.fake.requests[0])[:8]) // 4
    assert children[0].read > 0.8 * shared
    for before, after in pairwise(children):
        assert after.read >= before.split.total - 300
    n_marks = {
        is_of_child(body): body.count(b"cache_control") + body.count(b"prompt_cache_breakpoint")
        for body in world.fake.requests
    }
    assert n_marks[True] == n_marks[False] > 0


@pytest.mark.parametrize("provider", ["responses", "chat"])
def test_one_key_for_a_team_a_run_and_the_process_after_it(provider: str) -> None:
    """C46, C47, C50: on the wire, through the agent, the tracker and the adapter."""
    world = AnyWorld(works(10))

    async def both() -> None:
        for _ in range(2):
            await team(world.model(provider)).run("LEAD")

    world.run(both)

    keys = [json.loads(body).get("prompt_cache_key") for body in world.fake.requests]
    assert len(keys) == 40
    assert len(set(keys)) == 1
    assert keys[0]


def test_above_the_ceiling_a_session_keeps_its_key_from_its_first_request_to_its_last() -> None:
    """C46: a key that is new at each request is hit by chance only, however high the rate."""
    world = AnyWorld(works(6))
    model = world.model("responses", "gpt-5.4")

    async def many() -> None:
        for wave in range(3):
            await asyncio.gather(*(single(model).run(f"Q{wave}.{n}.") for n in range(12)))
            await world.time.sleep(120)  # each wave is as fast as the one before

    world.run(many)

    keys: dict[bytes, list[str]] = {}
    for body in world.fake.requests[-72:]:
        question = body.split(b"Q2.")[1].split(b".")[0]
        keys.setdefault(question, []).append(json.loads(body)["prompt_cache_key"])
    assert len({key for found in keys.values() for key in found}) > 1, "they are spread"
    for found in keys.values():
        assert len(found) == 6
        assert len(set(found)) == 1


@pytest.mark.parametrize("provider", [*MARKING, "deepseek", "gemini"])
def test_listings_in_another_order_cost_what_the_same_order_costs(provider: str) -> None:
    """C1, C2, C7: not near to what was sent could have cost, but the bill of sorted listings."""

    def bill(seeds: Sequence[int | None]) -> tuple[Decimal, list[list[str]]]:
        world = AnyWorld(works(3))
        model = world.model(provider)

        async def sessions() -> None:
            for seed in seeds:
                await single(model, seed).run("Go.")
                await world.time.sleep(60)

        world.run(sessions)
        costs = [each.cost.total for each in world.served if each.cost]
        assert len(costs) == len(world.fake.requests) == 3 * len(seeds)
        return sum(costs, Decimal(0)), [pieces_of(body) for body in world.fake.requests]

    shuffled, wires = bill([1, 2, 3, 4])
    ordered, same_wires = bill([None] * 4)

    assert shuffled == ordered
    assert wires == same_wires
    for first in wires[3::3]:
        assert_prefix(wires[0], first)


class Number(BaseModel):
    """A number."""

    value: int


class Word(BaseModel):
    """A word."""

    text: str


@pytest.mark.parametrize("provider", ["anthropic", "responses"])
def test_another_answer_schema_in_a_conversation_is_named_as_the_cause(provider: str) -> None:
    """C68: the form of the answer is no part of the prompt's text, and yet entries hang on it."""

    def respond(ask: Ask) -> Reply:
        is_second = ask.n_turns > 0
        said = '{"text": "a"}' if is_second else '{"value": 1}'
        return Reply(text=said, first_byte_s=1.0, seconds=1.0)

    world = AnyWorld(respond)
    model = world.model(provider)

    async def two() -> Any:
        first = await single(model, output_type=Number).run("Go. " * 2_000)
        await world.time.sleep(10)
        return await single(model, output_type=Word).run("Again.", context=first.context)

    result = world.run(two)

    verdict = result.requests[0].verdict
    assert verdict is not None
    assert verdict.shortfall is not None
    assert verdict.shortfall.cause is Cause.IDENTITY_CHANGED
    assert "output_format" in verdict.shortfall.detail
    assert verdict.shortfall.lost_tokens > 0
