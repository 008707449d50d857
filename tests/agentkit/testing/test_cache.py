"""A run of any model, on the simulated caches of the providers."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from agentkit import Agent, ConfigurationError, UnknownModel
from agentkit.testing import Call, ScriptedModel, assert_cache, capture
from tests.agentkit.hosted_world import PROVIDERS

DAY = datetime(2026, 11, 27, 12, tzinfo=UTC)


def look(at: str) -> str:
    """Look."""
    return f"{at} is blue. " * 40


class Desk(Agent):
    """You look at things."""

    rules = "Be brief. " * 2_000
    tools = (look,)


def desk(n_turns: int) -> Desk:
    return Desk(model=ScriptedModel([*[Call("look", {"at": "sky"})] * n_turns, "done"]))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_long_run_reads_nearly_all_of_its_input(provider: str) -> None:
    with capture():
        result = desk(14).run_sync("Which colour?")
        report = assert_cache(result, hit_ratio=0.85, provider=provider, at=DAY)

    assert report.total.requests == 15
    assert report.hit_ratio is not None
    assert report.hit_ratio >= 0.85


def test_a_short_run_cannot_and_the_error_says_why() -> None:
    with capture():
        result = desk(1).run_sync("Which colour?")
        with pytest.raises(AssertionError) as caught:
            assert_cache(result, at=DAY)

    text = str(caught.value)
    assert "anthropic:claude-sonnet-5-5 would read 4" in text
    assert "and not 90.0%; a cache that loses nothing would read 4" in text
    assert "nothing was lost" in text
    assert "desk" in text


def test_a_session_of_several_runs_is_looked_at_as_one() -> None:
    agent = Desk(model=ScriptedModel(lambda _: "blue"))
    with capture() as asked:
        results = [agent.run_sync("Which?")]
        for _ in range(11):
            results.append(agent.run_sync("And now?", context=results[-1].context))
        assert assert_cache(results, at=DAY) == assert_cache(asked, at=DAY)


async def test_a_lifetime_that_is_too_short_is_named() -> None:
    """Inside a running loop, as tests of async code are."""
    agent = Desk(model=ScriptedModel(lambda _: "blue"))
    with capture():
        first = await agent.run("Which?")
        second = await agent.run("And now?", context=first.context)
        with pytest.raises(AssertionError, match=r"request 2, desk: expired, [\d,]+ tokens: 400 s"):
            assert_cache([first, second], 0.4, at=DAY, gap_s=400)
        assert_cache([first, second], 0.4, at=DAY, gap_s=200)


def test_a_changed_front_is_named_with_segment_byte_and_source_line() -> None:
    """Two agents that should have been one."""
    with capture() as asked:
        for number in range(2):
            rules = "Be brief. " * 2_000 + f"Today is day {number}."
            agent = Agent(model=ScriptedModel(["blue"]), name="desk", rules=rules)
            agent.run_sync("Which?")
        with pytest.raises(AssertionError) as caught:
            assert_cache(asked, 0.4, at=DAY)

    text = str(caught.value)
    assert "request 2, desk: segment_changed" in text
    assert "[segment system/rules, byte 2003" in text
    assert "test_cache.py:" in text


def test_a_prompt_below_the_providers_minimum_is_named() -> None:
    model = ScriptedModel(lambda _: "blue")
    with capture(), pytest.raises(AssertionError, match="too_short"):
        assert_cache(Agent(model=model, name="desk").run_sync("Which?"), 0.4, at=DAY)


def test_calls_of_a_scripted_model_are_enough() -> None:
    agent = desk(8)
    agent.run_sync("Which?")
    assert isinstance(agent.model, ScriptedModel)
    assert_cache(agent.model.calls, 0.7, provider="openai:gpt-6.1-sol", at=DAY)


def test_what_cannot_be_checked_is_told() -> None:
    with pytest.raises(AssertionError, match="the list is empty"):
        assert_cache([])
    with capture() as asked, pytest.raises(AssertionError, match="holds no request"):
        assert_cache(asked)
    calls = ScriptedModel(lambda _: "blue")
    Agent(model=calls).run_sync("?")
    with pytest.raises(UnknownModel, match="no provider 'acme'"):
        assert_cache(calls.calls, provider="acme")
    with pytest.raises(ValueError, match="from 0 to 1"):
        assert_cache(calls.calls, 90)
    assert issubclass(UnknownModel, ConfigurationError)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "deepseek", "gemini"])
def test_no_cache_reads_more_than_one_that_loses_nothing(provider: str) -> None:
    model = ScriptedModel([*[Call("look", {"at": "sky"})] * 6, "Blue."])
    Agent(model=model, name="desk", rules="Be brief. " * 2_000, tools=[look]).run_sync("Go.")
    with pytest.raises(AssertionError) as failed:
        assert_cache(model.calls, hit_ratio=1.0, provider=provider)
    reads, best = (
        float(share)
        for share in re.findall(r"would read (\d+\.\d)%", str(failed.value).splitlines()[0])
    )
    assert 50 < reads <= best < 100
