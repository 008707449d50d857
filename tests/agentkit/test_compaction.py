"""Compaction in the loop: asked of the cached context, seldom, and never at the run's cost."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import Agent, CompactionRule, ConfigurationError, ModelError, Settings, ToolName
from agentkit.blocks import AssistantMessage, ToolMessage, UserMessage
from agentkit.caching.policy import Provider, anthropic_policy
from agentkit.caching.policy.edits import ContextEdit, context_edits
from agentkit.compacting import fitted
from agentkit.context import Context
from agentkit.context.compaction_rule import SUMMARY_INSTRUCTION
from agentkit.context.prices import Prices
from agentkit.context.turns import is_summary
from agentkit.events import (
    ContextCompacted,
    Event,
    RunPaused,
    SubagentEvent,
    TurnEnd,
    UsageEvent,
)
from agentkit.fake import Ask
from agentkit.fake import Call as FakeCall
from agentkit.fake import Reply as FakeReply
from agentkit.models import ModelRequest
from agentkit.testing import Call, Reply, Say, ScriptedModel, assert_extends, assert_prefix_stable
from tests.agentkit.context.conversations import NOON
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld, hit

RULE = CompactionRule(trigger_tokens=6_000, limit_tokens=9_000, summary_tokens=300)
RULES = "Be exact and never guess. " * 200  # about 1,300 tokens
SUMMARY = "Holes 1 to 9 were dug, and there was only sand."


def dig(hole: int) -> str:
    """Dig a hole."""
    return f"Sand in hole {hole}. " * 120  # about 600 tokens


def is_summary_request(request: ModelRequest) -> bool:
    return any(
        isinstance(message, UserMessage) and message.text == SUMMARY_INSTRUCTION
        for message in request.context.messages
    )


class Digger:
    """A model that digs for some turns, then answers; summaries are scripted, or well made."""

    def __init__(self, turns: int, *summaries: Any) -> None:
        self.turns = turns
        self.n_turns = 0
        self.summaries = iter(summaries)
        self.model = ScriptedModel(self.step)

    def step(self, request: ModelRequest) -> Any:
        if is_summary_request(request):
            return next(self.summaries, SUMMARY)
        self.n_turns += 1
        if self.n_turns >= self.turns:
            return "Only sand."
        return [Say("Next."), Call("dig", {"hole": self.n_turns})]

    @property
    def asked_for_summaries(self) -> list[ModelRequest]:
        return [c.request for c in self.model.calls if is_summary_request(c.request)]

    def agent(self, **more: Any) -> Agent[Any, Any]:
        values = {"rules": RULES, "compaction": RULE, "max_turns": 100} | more
        return Agent(model=self.model, name="digger", tools=[dig], **values)


def run_all(agent: Agent[Any, Any], prompt: str = "Dig.") -> tuple[Any, list[Event]]:
    async def main() -> tuple[Any, list[Event]]:
        async with agent.stream(prompt) as stream:
            events = [event async for event in stream]
        return stream.result, events

    return asyncio.run(main())


def compactions(events: Sequence[Event]) -> list[ContextCompacted]:
    return [event for event in events if isinstance(event, ContextCompacted)]


def holes(messages: Sequence[Any]) -> list[int]:
    return [
        json.loads(call.arguments)["hole"]
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    ]


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


def test_a_model_that_calls_a_tool_instead_is_asked_once_more_behind_the_same_prefix() -> None:
    digger = Digger(12, Call("dig", {"hole": 99}))
    result, events = run_all(digger.agent())

    first, second = digger.asked_for_summaries
    assert_extends(first.wire, second.wire)
    assert isinstance(second.context.messages[-2], ToolMessage)
    assert second.context.messages[-2].results[0].is_error
    assert len(compactions(events)) == 1
    assert 99 not in holes(result.messages)
    assert 99 not in holes(result.context.messages)


@pytest.mark.parametrize(
    "failure",
    [
        "",
        Call("dig", {"hole": 99}),
        Reply(parts=(Say("cut"),), finish="length"),
    ],
)
def test_a_run_goes_on_without_a_summary_and_does_not_ask_for_one_at_each_turn(
    failure: Any,
) -> None:
    digger = Digger(20, *itertools.repeat(failure, 100))
    result, events = run_all(digger.agent())

    assert result.output == "Only sand."
    assert not compactions(events)
    assert holes(result.context.messages) == list(range(1, 20))
    assert {each.epoch for each in result.requests} == {0}
    # 11 turns above the trigger; asked after 0, 4 and 8 more turns, at most twice each time
    assert len(digger.asked_for_summaries) <= 6
    assert_extends(digger.asked_for_summaries[0].wire, digger.asked_for_summaries[1].wire)


@pytest.mark.parametrize("retryable", [True, False])
def test_a_model_that_fails_at_the_summary_does_not_fail_the_run(retryable: bool) -> None:
    digger = Digger(12, ModelError("overloaded", retryable=retryable))
    result, events = run_all(digger.agent())

    assert result.output == "Only sand."
    assert len(result.requests) == len(digger.model.calls)
    first = next(n for n, c in enumerate(digger.model.calls) if is_summary_request(c.request))
    assert not is_summary_request(digger.model.calls[first + 1].request)
    assert len(compactions(events)) <= 1


async def test_cancelled_while_the_summary_is_written_the_context_is_the_old_one() -> None:
    digger = Digger(12)
    waiting = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if is_summary_request(request):
                waiting.set()
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event

    digger.model = Slow(digger.step)
    stream = digger.agent().stream("Dig.")

    async def consume() -> None:
        async with stream as events:
            async for _ in events:
                pass

    task = asyncio.create_task(consume())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert stream.context is not None
    assert not stream.context.open_calls
    assert holes(stream.context.messages) == list(range(1, digger.n_turns + 1))
    assert stream.record is not None
    assert len(stream.record.requests) == digger.n_turns
    later = Digger(1)
    assert (await later.agent().run(None, context=stream.context)).output == "Only sand."


async def test_a_pause_during_the_summary_pauses_behind_it_and_the_run_goes_on_from_there() -> None:
    digger = Digger(12)

    def step(request: ModelRequest) -> Any:
        if is_summary_request(request):
            stream.pause()
        return digger.step(request)

    digger.model = ScriptedModel(step)
    agent = digger.agent()
    stream = agent.stream("Dig.")
    async with stream as events:
        seen = [event async for event in events]

    assert isinstance(seen[-1], RunPaused)
    assert isinstance(seen[-2], ContextCompacted)
    assert stream.context is not None
    assert is_summary(stream.context.messages[0])
    assert stream.record is not None
    dug = holes(stream.record.messages)
    assert dug == list(range(1, seen[-1].turns + 1))
    result = await agent.run(None, context=Context.load(stream.context.dump()))
    assert result.output == "Only sand."
    assert holes(result.messages) == list(range(dug[-1] + 1, 12))


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


@dataclass
class Limits:
    """What a model may say of itself."""

    context_tokens: int | None


def test_a_rule_is_cut_to_what_the_model_can_read() -> None:
    def of(window: int | None, rule: CompactionRule = CompactionRule()) -> CompactionRule:  # noqa: B008
        return fitted(rule, Limits(window))  # type: ignore[arg-type]

    assert of(None) == of(1_000_000) == of(200_000) == CompactionRule()
    small = of(8_192)
    assert (small.trigger_tokens, small.limit_tokens) == (4_096, 6_553)
    assert small.summary_tokens < small.target_tokens < small.trigger_tokens
    assert of(8_192, RULE).trigger_tokens == 4_096
    assert fitted(RULE, ScriptedModel([])) is RULE


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


def hosted(turns: int, provider: str = "anthropic") -> HostedWorld:
    said = itertools.count(1)

    def respond(ask: Ask) -> FakeReply:
        if SUMMARY_INSTRUCTION in ask.user_text:
            return FakeReply(text=SUMMARY, thinking="Short.", first_byte_s=1.0, seconds=2.0)
        number = next(said)
        calls = (FakeCall("dig", f'{{ "hole": {number} }}'),) if number < turns else ()
        return FakeReply(
            text="Next.", calls=calls, thinking="Deeper.", first_byte_s=1.0, seconds=2.0
        )

    return HostedWorld(respond, provider)


def hosted_run(turns: int, provider: str = "anthropic", **more: Any) -> tuple[HostedWorld, Any]:
    world = hosted(turns, provider)
    values = {"rules": RULES, "compaction": RULE, "max_turns": 100} | more
    agent: Agent[Any, Any] = Agent(model=world.model, name="digger", tools=[dig], **values)
    return world, world.run(lambda: agent.run("Dig."))


def front_of(sent: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(itertools.takewhile(lambda piece: b"Dig." not in piece, sent))


def summary_at(world: HostedWorld) -> int:
    return next(n for n, body in enumerate(world.fake.requests) if b"Write that summary" in body)


def test_on_the_wire_the_summarys_request_extends_what_was_sent() -> None:
    """C59: at the last byte, in the provider's order of tools, system and messages."""
    world, _ = hosted_run(16)

    wires = world.wires
    at = summary_at(world)
    assert wires[at][: len(wires[at - 1])] == wires[at - 1]
    head = [json.loads(world.fake.requests[n]) for n in (at - 1, at)]
    for name in ("model", "max_tokens", "tool_choice", "thinking", "output_config"):
        assert head[0].get(name) == head[1].get(name)


def test_the_summarys_request_is_read_from_the_cache() -> None:
    """C61: the compaction call had a hit ratio of 0 %."""
    rule = CompactionRule(trigger_tokens=30_000, limit_tokens=30_000)
    world, result = hosted_run(70, compaction=rule)

    at = summary_at(world)
    assert hit(world.served[at]) > 0.95
    assert not world.served[at].split.written
    verdict = result.requests[at].verdict
    assert verdict is not None
    assert verdict.shortfall is None or not verdict.shortfall.lost_tokens


def test_the_new_epoch_reads_its_front_from_the_cache_and_no_change_is_reported_as_a_fault() -> (
    None
):
    world, result = hosted_run(16)

    at = next(n for n, r in enumerate(result.requests) if r.epoch == 1)
    front = [piece for piece in world.wires[0] if piece[0] in ("tools", "system")]
    assert world.wires[at][: len(front)] == front
    assert world.served[at].read > 1_000
    for record in result.requests:
        assert record.verdict is not None
        shortfall = record.verdict.shortfall
        assert shortfall is None or not shortfall.lost_tokens, shortfall


def test_a_long_run_costs_less_than_without_summaries() -> None:
    bills = []
    for rule in (RULE, None):
        world, _ = hosted_run(60, compaction=rule)
        bills.append(sum((s.cost.total for s in world.served if s.cost), Decimal(0)))

    assert bills[0] < bills[1]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_within_an_epoch_every_request_extends_the_one_before_at_all_providers(
    provider: str,
) -> None:
    """C59: also the summary's; and every API takes what the loop sends."""
    world, result = hosted_run(24, provider)

    assert result.output == "Next."
    epochs = [record.epoch for record in result.requests]
    assert len(world.served) == len(epochs)
    assert max(epochs) >= 1
    assert front_of(world.sent[0])
    for n, (first, second) in enumerate(itertools.pairwise(epochs)):
        n_same = len(world.sent[n]) if first == second else len(front_of(world.sent[0]))
        assert world.sent[n + 1][:n_same] == world.sent[n][:n_same]
