"""Agents on the real runtime with the bundled model: one tree, read by everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentkit import Agent, Settings, ToolChoice, fan_out, tool
from agentkit.blocks import AssistantMessage, ToolMessage
from agentkit.events import TextDelta
from agentkit.models.local import LocalModel, engine_registry
from agentkit.team import warm

SHORT = Settings(max_tokens=6)


@pytest.fixture(scope="module")
def model(smollm2_gguf: Path) -> Iterator[LocalModel]:
    yield LocalModel(str(smollm2_gguf), max_slots=4096, threads=1)
    engine_registry().close()


class Counter(Agent):
    """You count letters."""

    settings = SHORT

    def tool_choice(self, turn: int) -> ToolChoice:
        return "none"


class Speller(Counter):
    """You spell words."""


class Boss(Agent):
    """You lead a team of letter experts."""

    rules = "Answer in one short sentence. Never invent words. Say so when you do not know."
    settings = SHORT
    subagents = (Counter, Speller)

    def tool_choice(self, turn: int) -> ToolChoice:
        return "none"


async def test_siblings_read_rules_and_tools_from_the_tree(model: LocalModel) -> None:
    done = await fan_out(
        Boss(model=model), [(Counter, "tree"), (Speller, "root"), (Counter, "leaf")]
    )

    assert not done.failed
    reads = [request.usage.cache_read_tokens or 0 for request in done.requests]
    prompts = [request.usage.input_tokens or 0 for request in done.requests]
    # Cold shared work is done once: one task computes the front, and the others read it.
    assert sorted(reads)[1] > 0.7 * min(prompts)


async def test_a_second_turn_reads_everything_that_the_first_one_left(model: LocalModel) -> None:
    agent = Boss(model=model)
    first = await agent.run("What is a leaf?")
    second = await agent.run("And a root?", context=first.context)

    known = (first.usage.input_tokens or 0) + (first.usage.output_tokens or 0)
    assert (second.usage.cache_read_tokens or 0) >= known - 1
    assert second.cache.total.ttft_first_s is not None
    assert second.finish in ("stop", "length")


async def test_a_warmed_team_computes_only_what_it_is_asked(model: LocalModel) -> None:
    team = Boss(model=model, rules="Count with care, and answer in one short sentence, always.")

    cold = await warm(team)
    kept = await warm(team, keep_s=60.0)
    done = await fan_out(team, [(Counter, "tree"), (Speller, "root")])

    assert list(cold) == list(kept) == ["boss", "boss/counter", "boss/speller"]
    assert (cold["boss"].cache_read_tokens or 0) < 10, "its rules are new"
    assert (cold["boss/speller"].cache_read_tokens or 0) > 50, "the team's rules and tools"
    assert {usage.cache_write_tokens for usage in kept.values()} == {0}
    for request in done.requests:
        computed = (request.usage.input_tokens or 0) - (request.usage.cache_read_tokens or 0)
        assert computed < 20
    runtime = await engine_registry().get(model._spec, model._options)
    pins = await runtime.prefixes.pins("default")
    assert {pin.name for pin in pins} == {"boss", "counter", "speller"}
    assert {pin.ttl_s for pin in pins} == {60.0}


async def test_a_required_call_is_made_under_the_grammar_and_its_tool_runs(
    model: LocalModel,
) -> None:
    seen: list[int] = []

    class Adder(Agent):
        """You add numbers with the tool."""

        settings = Settings(max_tokens=60)
        max_turns = 2

        def tool_choice(self, turn: int) -> ToolChoice:
            return "none" if turn else "required"

        @tool
        def add(self, a: int, b: int) -> int:
            """Add two numbers."""
            seen.extend((a, b))
            return a + b

    result = await Adder(model=model).run("What is 2 plus 3?")

    assert len(seen) == 2
    assert isinstance(result.messages[1], AssistantMessage)
    assert result.messages[1].calls[0].name == "add"
    assert isinstance(result.messages[2], ToolMessage)
    assert result.messages[2].results[0].content == str(sum(seen))
    first, second = result.requests
    assert (second.usage.cache_read_tokens or 0) >= (first.usage.input_tokens or 0)


async def test_leaving_the_stream_gives_the_slots_back(model: LocalModel) -> None:
    runtime = await engine_registry().get(model._spec, model._options)
    agent = Boss(model=model, settings=Settings(max_tokens=500))

    async with agent.stream("Tell a long story about a tree.") as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break

    # A short request later the long one must be gone, not still telling its story.
    await Boss(model=model).run("Hi")
    assert runtime.stats().running == 0
