"""Compaction in the loop: asked of the cached context, seldom, and never at the run's cost."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import Agent, CompactionRule, ConfigurationError, Context, Settings, ToolName
from agentkit.blocks import ToolMessage, UserMessage
from agentkit.caching.policy import Provider, anthropic_policy
from agentkit.caching.policy.edits import ContextEdit, context_edits
from agentkit.compacting import fitted
from agentkit.context.prices import Prices
from agentkit.context.turns import is_summary
from agentkit.events import (
    ContextCompacted,
    SubagentEvent,
    TurnEnd,
    UsageEvent,
)
from agentkit.models import ModelRequest
from agentkit.testing import Call, ScriptedModel, assert_extends, assert_prefix_stable
from tests.agentkit.context.conversations import NOON
from tests.agentkit.digger import (
    RULE,
    RULES,
    SUMMARY,
    Digger,
    compactions,
    dig,
    holes,
    is_summary_request,
    run_all,
)


def test_the_request_for_a_summary_extends_the_last_request_and_changes_nothing_else() -> None:
    """C59: flattened history without system and tools made 90 % of compaction's cost avoidable."""
    digger = Digger(12)
    run_all(digger.agent())

    calls = [call.request for call in digger.model.calls]
    at = next(n for n, each in enumerate(calls) if is_summary_request(each))
    before, asked = calls[at - 1], calls[at]
    assert_extends(before.wire, asked.wire)
    assert asked.toolset is before.toolset
    assert (asked.tool_choice, asked.allowed_tools) == (before.tool_choice, before.allowed_tools)
    assert asked.settings == before.settings
    assert asked.epoch == before.epoch == 0
    assert not asked.reuse.again


def test_the_run_goes_on_in_a_new_epoch_behind_the_same_front() -> None:
    digger = Digger(12)
    result, events = run_all(digger.agent())

    (compaction,) = compactions(events)
    calls = digger.model.calls
    at = next(n for n, each in enumerate(calls) if is_summary_request(each.request))
    after = calls[at + 1].request
    assert after.epoch == 1
    assert after.context.front == calls[0].request.context.front
    assert is_summary(after.context.messages[0])
    assert SUMMARY in after.context.messages[0].text  # type: ignore[union-attr]
    assert_prefix_stable(calls)
    assert result.context.starts_with(after.context)
    assert result.output == "Only sand."
    assert compaction.tokens_after < RULE.target_tokens < compaction.tokens_before
    assert compaction.turn == at
    assert compaction.advice is None
    assert "fewer are read" in compaction.reason


def test_the_length_told_by_the_event_is_about_what_the_next_request_reports() -> None:
    digger = Digger(12)
    result, events = run_all(digger.agent())

    (compaction,) = compactions(events)
    n_input = result.requests[compaction.turn + 1].usage.input_tokens
    assert abs(n_input / compaction.tokens_after - 1) < 0.1


def test_messages_are_all_that_was_said_once_and_without_the_summarys_exchange() -> None:
    """The kept turns are in both epochs, and in the record once."""
    digger = Digger(30)
    result, events = run_all(digger.agent())

    assert len(compactions(events)) >= 2
    assert holes(result.messages) == list(range(1, 30))
    assert len(holes(result.context.messages)) < 29
    assert not any(is_summary(message) for message in result.messages)
    texts = [m.text for m in result.messages if isinstance(m, UserMessage)]
    assert texts == ["Dig."]


def test_the_summary_is_a_request_of_the_run() -> None:
    digger = Digger(12)
    result, events = run_all(digger.agent())

    assert len(result.requests) == len(digger.model.calls) == 13
    assert [each.epoch for each in result.requests].count(1) == 12 - compactions(events)[0].turn
    assert result.cache.total.requests == 13
    assert len([e for e in events if isinstance(e, TurnEnd)]) == 12


def test_ten_turns_at_the_threshold_rewrite_once() -> None:
    """C64: with the target at the trigger each request near the limit broke the prefix."""
    sizes = itertools.chain([4_800], itertools.repeat(60))

    def sift(n: int) -> str:
        """Sift sand."""
        return "sand" * next(sizes)

    def step(request: ModelRequest) -> Any:
        if is_summary_request(request):
            return "A summary that does not end. " * 700  # about the whole target
        turn = len([c for c in model.calls if not is_summary_request(c.request)])
        return "Done." if turn == 12 else Call("sift", {"n": turn})

    model = ScriptedModel(step)
    agent: Agent[Any, Any] = Agent(model=model, tools=[sift], rules=RULES, compaction=RULE)
    result, events = run_all(agent)

    lengths = [each.usage.input_tokens or 0 for each in result.requests]
    assert len(lengths) == 13
    assert min(lengths[1:]) > RULE.trigger_tokens * 0.75
    assert len(compactions(events)) == 1


def test_without_a_rule_nothing_is_ever_summarised() -> None:
    class Never(Agent):
        """You dig."""

        compaction = None

    for agent in (Digger(20).agent(compaction=None), Never(model=Digger(20).model, tools=[dig])):
        _, events = run_all(agent)
        assert not compactions(events)


def test_a_keyword_of_none_beats_the_class_and_no_keyword_leaves_it() -> None:
    class Small(Agent):
        """You dig."""

        compaction = RULE

    assert Small().compaction is RULE
    assert Small(compaction=None).compaction is None
    assert Agent().compaction == CompactionRule()
    with pytest.raises(ConfigurationError, match="compaction must be CompactionRule"):
        Agent(compaction=8_000)  # type: ignore[arg-type]


class Finding(BaseModel):
    what: str


def test_a_form_of_the_answer_or_a_forced_call_does_not_bind_the_summary() -> None:
    """The summary has to be free text, or the new epoch would know nothing."""

    class Forced(Agent[None, Finding]):
        """You dig."""

        def tool_choice(self, turn: int) -> Any:
            return ToolName("dig") if turn < 11 else "none"

    def step(request: ModelRequest) -> Any:
        answer = digger.step(request)
        return '{"what": "sand"}' if answer == "Only sand." else answer

    digger = Digger(12)
    digger.model = ScriptedModel(step)
    result, _ = run_all(
        Forced(
            model=digger.model,
            tools=[dig],
            rules=RULES,
            compaction=RULE,
            settings=Settings(max_tokens=100, stop=("\n\n",)),
        )
    )

    (asked,) = digger.asked_for_summaries
    assert result.output == Finding(what="sand")
    assert asked.output_schema is None
    assert asked.tool_choice == "auto"
    assert asked.settings == Settings(max_tokens=600)


async def test_a_conversation_that_goes_on_is_summarised_before_its_first_request() -> None:
    """Also where each run has one turn only: the length of the last request is remembered."""
    asked: list[ModelRequest] = []

    def step(request: ModelRequest) -> Any:
        asked.append(request)
        return SUMMARY if is_summary_request(request) else "Words. " * 700

    model = ScriptedModel(step)
    agent: Agent[Any, Any] = Agent(model=model, rules=RULES, compaction=RULE)
    result = await agent.run("Question 0?")
    n_summaries = []
    for number in range(1, 8):
        before = len([each for each in asked if is_summary_request(each)])
        result = await agent.run(f"Question {number}?", context=result.context)
        assert result.messages[0] == UserMessage.of(f"Question {number}?")
        n_summaries.append(len([each for each in asked if is_summary_request(each)]) - before)

    assert 1 <= sum(n_summaries) <= 3
    first = next(n for n, each in enumerate(asked) if is_summary_request(each))
    assert_extends(asked[first - 1].wire, asked[first].wire)
    question = asked[first + 1].context.messages[-1]
    assert question in asked[first].context.messages


def test_of_many_requests_within_a_turn_the_length_is_that_of_one() -> None:
    """A provider that searches the web asks its model again and again, and reports the sum."""

    class Searching(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            async for event in super().stream(request):
                if isinstance(event, UsageEvent):
                    total = event.usage + event.usage + event.usage
                    event = replace(event, usage=total, first=event.usage)
                yield event

    digger = Digger(8)
    digger.model = Searching(digger.step)
    result, events = run_all(digger.agent())

    assert max(each.usage.input_tokens for each in result.requests) > 2 * RULE.trigger_tokens
    assert not compactions(events)


def test_subagents_summarise_their_own_conversations() -> None:
    def step(request: ModelRequest) -> Any:
        if request.agent == "boss":
            done = any(isinstance(m, ToolMessage) for m in request.context.messages)
            return "Done." if done else Call("delegate_to_digger", {"task": "Dig."})
        return digger.step(request)

    digger = Digger(14)
    model = ScriptedModel(step)
    child: Agent[Any, Any] = Agent(
        name="digger", instructions="You dig.", tools=[dig], compaction=RULE
    )
    boss: Agent[Any, Any] = Agent(model=model, name="boss", rules=RULES, subagents=[child])
    result, events = run_all(boss)

    assert not compactions(events)
    below = [e for e in events if isinstance(e, SubagentEvent)]
    (event,) = [e for e in below if isinstance(e.event, ContextCompacted)]
    assert event.path == ("boss", "digger")
    assert {r.epoch for r in result.requests if r.path == ("boss",)} == {0}
    assert {r.epoch for r in result.requests if r.path == ("boss", "digger")} == {0, 1}
    assert_prefix_stable(model.calls)
    assert holes(result.children[0].result.messages) == list(range(1, 14))


def test_a_subagent_about_to_end_is_not_summarised() -> None:
    """With one request left, a summary would cost more than it saves."""

    def step(request: ModelRequest) -> Any:
        if request.agent == "boss":
            done = any(isinstance(m, ToolMessage) for m in request.context.messages)
            return "Done." if done else Call("delegate_to_digger", {"task": "Dig."})
        return digger.step(request)

    digger = Digger(10)
    child: Agent[Any, Any] = Agent(
        name="digger", instructions="You dig.", tools=[dig], compaction=RULE, max_turns=10
    )
    boss: Agent[Any, Any] = Agent(
        model=ScriptedModel(step), name="boss", rules=RULES, subagents=[child]
    )
    result, _ = run_all(boss)

    lengths = [r.usage.input_tokens or 0 for r in result.requests if r.path[-1] == "digger"]
    assert max(lengths) > RULE.trigger_tokens
    assert len(lengths) == 10


def test_a_trigger_alone_is_enough_and_what_speaks_against_a_summary_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "agentkit.context")
    rule = CompactionRule(trigger_tokens=6_000)
    _, events = run_all(Digger(30).agent(compaction=rule))

    assert compactions(events)
    assert all(event.tokens_before < rule.limit + 1_000 for event in compactions(events))
    caplog.clear()
    dear = CompactionRule(trigger_tokens=6_000, limit_tokens=60_000, turns_left=1)
    _, events = run_all(Digger(14).agent(compaction=dear))
    assert not compactions(events)
    reasons = [each.message for each in caplog.records if "no summary yet" in each.message]
    assert reasons
    assert all("agent 'digger'" in each and "limit_tokens=60000" in each for each in reasons)


async def test_the_epoch_goes_on_with_the_conversation() -> None:
    digger = Digger(14)
    agent = digger.agent()
    result = await agent.run("Dig.")
    assert result.requests[-1].epoch == 1
    more = await agent.run("And now?", context=result.context)
    assert [record.epoch for record in more.requests] == [1]
    assert [record.epoch for record in (await agent.run("Dig anew.")).requests] == [0]

    # Another agent cannot know it, and counts from here on.
    elsewhere = await digger.agent().run("And now?", context=Context.load(more.context.dump()))
    assert [record.epoch for record in elsewhere.requests] == [0]


@dataclass
class Limits:
    """What a model may say of itself."""

    context_tokens: int | None


def test_a_rule_is_cut_to_what_the_model_can_read() -> None:
    def of(window: int | None, rule: CompactionRule = CompactionRule()) -> CompactionRule:  # noqa: B008
        return fitted(rule, Limits(window))  # type: ignore[arg-type]

    assert of(None) == of(1_000_000) == of(200_000) == CompactionRule()
    small = of(8_192)
    assert (small.trigger_tokens, small.limit) == (4_096, 6_553)
    assert small.summary < small.target_tokens < small.trigger_tokens
    assert of(8_192, RULE).trigger_tokens == 4_096
    assert fitted(RULE, ScriptedModel([])) is RULE


def test_an_agent_on_a_small_model_is_summarised_without_any_setting() -> None:
    class Small(ScriptedModel):
        context_tokens = 8_192

    digger = Digger(12)
    digger.model = Small(digger.step)
    result, events = run_all(digger.agent(compaction=CompactionRule()))

    assert compactions(events)
    assert max(each.usage.input_tokens for each in result.requests) < 8_192


class Priced(ScriptedModel):
    """A model with Sonnet's prices and Anthropic's own ways to shorten a conversation."""

    def prices(self) -> Prices:
        row = anthropic_policy("claude-sonnet-5-5", date(2026, 11, 27)).prices
        return Prices(row=row, at=NOON)

    def context_edits(self) -> tuple[ContextEdit, ...]:
        return context_edits(Provider.ANTHROPIC)


def test_a_cheaper_way_of_the_provider_is_told_and_not_taken() -> None:
    """Huge results near the end, small ones behind: little is written again without them."""
    sizes = iter([100, 8_000, 8_000, 100, 100, 100, 1_500])

    def sift(n: int) -> str:
        """Sift sand."""
        return "sand" * next(sizes)

    def step(request: ModelRequest) -> Any:
        if is_summary_request(request):
            return SUMMARY
        turn = len([c for c in model.calls if not is_summary_request(c.request)])
        return "Done." if turn == 8 else Call("sift", {"n": turn})

    model = Priced(step)
    rule = CompactionRule(trigger_tokens=19_000, limit_tokens=30_000, summary_tokens=500)
    agent: Agent[Any, Any] = Agent(model=model, tools=[sift], rules=RULES, compaction=rule)
    _, events = run_all(agent)

    (compaction,) = compactions(events)
    assert compaction.advice is not None
    assert "clear_tool_uses_20250919" in compaction.advice
