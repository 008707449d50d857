"""Limits of whole runs: on turns, calls, tokens and money, over subagents and over resumes."""

from __future__ import annotations

import asyncio
import itertools
from decimal import Decimal
from typing import Any

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    CompactionRule,
    LimitReached,
    Limits,
    MemoryJournal,
    ModelError,
    PriceUnknown,
    Settings,
    ToolContext,
    fan_out,
    tool,
)
from agentkit.blocks import ToolMessage
from agentkit.fake import Ask
from agentkit.fake import Call as FakeCall
from agentkit.fake import Reply as FakeReply
from agentkit.models.base import ModelRequest
from agentkit.testing import Call, Reply, Say, ScriptedModel
from agentkit.usage import Usage
from tests.agentkit.digger import Digger, is_summary_request
from tests.agentkit.hosted_world import HostedWorld
from tests.agentkit.priced import PricedModel, UnpricedModel

SHORT = Settings(max_tokens=100)


@tool
def look() -> str:
    """Look."""
    return "nothing"


def forever(request: ModelRequest) -> Call:
    return Call("look")


def lead(
    model: Any, limits: Limits | None, *, n: int = 2, own: Limits | None = None
) -> Agent[Any, Any]:
    """An agent whose one tool sends `n` searchers out, who all look for ever."""

    class Lead(Agent):
        """Lead."""

        @tool
        async def search(self, ctx: ToolContext[Any]) -> str:
            """Search."""
            found = await fan_out(self, [("searcher", f"{i}") for i in range(n)], within=ctx)
            return " ".join(type(outcome.error).__name__ for outcome in found.failed)

    searcher = Agent(
        model=model,
        name="searcher",
        instructions="Search.",
        tools=[look],
        settings=SHORT,
        limits=own,
    )
    return Lead(model=model, subagents=[searcher], limits=limits, settings=SHORT)


def by_agent(request: ModelRequest) -> Any:
    if request.agent == "lead" and not request.context.messages[1:]:
        return Call("search")
    return forever(request) if request.agent == "searcher" else "done"


def spent(error: LimitReached) -> Decimal:
    assert error.partial is not None
    assert error.partial.cost is not None
    assert not error.partial.context.open_calls
    return error.partial.cost.known


async def test_a_turn_limit_holds_for_parallel_subagents_to_the_last_turn() -> None:
    model = ScriptedModel(by_agent)
    with pytest.raises(LimitReached, match="turns=9 is reached: 9 used") as caught:
        await lead(model, Limits(turns=9), n=4).run("Go.")
    assert len(model.calls) == 9
    assert caught.value.partial is not None
    assert len(caught.value.partial.requests) == 9


async def test_money_is_shared_by_parallel_subagents_and_passed_by_one_request_at_most() -> None:
    """C79 in a run: parent and children have 1.00 together."""
    model = PricedModel(by_agent, usd="0.15")
    with pytest.raises(LimitReached, match=r"usd=1 is reached: 1\.05 used") as caught:
        await lead(model, Limits(usd=1), n=5).run("Go.")
    assert spent(caught.value) == Decimal("1.05")


async def test_a_subagent_out_of_budget_is_a_result_for_its_parent_which_then_stops_too() -> None:
    model = PricedModel(by_agent)
    with pytest.raises(LimitReached) as caught:
        await lead(model, Limits(usd=0.5)).run("Go.")
    assert caught.value.partial is not None
    (answer,) = [
        message for message in caught.value.partial.messages if isinstance(message, ToolMessage)
    ]
    assert answer.results[0].content == "LimitReached LimitReached"
    assert {child.kind for child in caught.value.partial.children} == {"failed"}


async def test_after_a_limit_the_conversation_goes_on_from_its_context() -> None:
    model = ScriptedModel([Call("look"), Call("look"), "done"])
    agent = Agent(model=model, instructions="Look.", tools=[look])
    with pytest.raises(LimitReached) as caught:
        await agent.run("Go.", limits=Limits(turns=2))
    assert caught.value.partial is not None
    result = await agent.run(None, context=caught.value.partial.context)
    assert result.output == "done"
    wires = [call.wire for call in model.calls]
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(wires))


async def test_a_subagents_own_limits_hold_for_each_of_its_runs() -> None:
    model = PricedModel(by_agent)
    result = await lead(model, Limits(usd=5), n=3, own=Limits(usd=0.3)).run("Go.")
    assert result.output == "done"
    by_run = [len(child.record.requests) for child in result.children if child.kind == "failed"]
    assert by_run == [3, 3, 3]


async def test_calls_beyond_the_limit_are_not_run_and_the_model_can_be_told_so() -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note."""
        ran.append(text)
        return "noted"

    calls = [[Call("note", {"text": "a"}), Call("note", {"text": "b"})]] * 2
    agent = Agent(model=ScriptedModel([*calls, "done"]), instructions="Note.", tools=[note])
    with pytest.raises(LimitReached, match="tool_calls=3") as caught:
        await agent.run("Go.", limits=Limits(tool_calls=3))
    assert ran == ["a", "b"]
    assert caught.value.partial is not None
    last = caught.value.partial.messages[-1]
    assert isinstance(last, ToolMessage)
    assert all("more calls than this run may make" in each.content for each in last.results)


async def test_a_model_without_a_known_price_is_not_asked_under_a_limit_on_money() -> None:
    model = UnpricedModel(["never"], label="who:knows")
    agent = Agent(model=model, instructions="Say.")
    with pytest.raises(PriceUnknown, match=r"the price of 'who:knows' is not known.*allow_unpric"):
        await agent.run("Go.", limits=Limits(usd=1))
    assert model.calls == ()


async def test_an_unpriced_model_may_be_allowed_and_what_it_costs_is_said_to_be_unknown() -> None:
    model = UnpricedModel([Call("look"), Call("look"), "done"])
    agent = Agent(model=model, instructions="Look.", tools=[look])
    with pytest.raises(LimitReached) as caught:
        await agent.run("Go.", limits=Limits(usd=1, tokens=1, allow_unpriced=True))
    assert caught.value.limit == "tokens"
    result = await agent.run("Go.", limits=Limits(usd=1, allow_unpriced=True))
    (use,) = result.limits
    assert (use.name, str(use.used), use.n_unknown) == ("usd", "0", 2)
    assert use.note == "0 of it estimated, for 2 requests of unknown use"


async def test_a_model_of_this_machine_costs_nothing() -> None:
    result = await Agent(model=ScriptedModel(["hi"]), instructions="x").run(
        "Go.", limits=Limits(usd=0.01)
    )
    assert [(use.left, use.n_unknown) for use in result.limits] == [(Decimal("0.01"), 0)]


async def test_what_was_used_before_a_pause_counts_after_it() -> None:
    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def agent(script: list[Any]) -> Agent[Any, Any]:
        return Agent(
            model=PricedModel(script, usd="0.40"),
            name="payer",
            instructions="Pay.",
            tools=[pay, look],
            limits=Limits(usd=1, turns=10, tool_calls=3),
            settings=SHORT,
        )

    with pytest.raises(ApprovalRequired) as caught:
        await agent([Call("look"), Call("pay")]).run("Go.")
    pending = caught.value.paused.pending[0]
    with pytest.raises(LimitReached, match=r"usd=1 is reached: 1\.20 used") as ended:
        await agent([Call("look")]).resume(caught.value.paused, {pending.id: Approve()})
    assert ended.value.partial is not None
    results = [m for m in ended.value.partial.messages if isinstance(m, ToolMessage)]
    contents = [result.content for message in results for result in message.results]
    assert contents == ["nothing", "paid", "nothing"]
    left = {use.name: use.left for use in ended.value.partial.limits}
    assert left == {"turns": 7, "tool_calls": 0, "usd": 0}


async def test_a_subagents_own_limits_hold_for_its_run_after_a_resume_too() -> None:
    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def agent(script: dict[str, list[Any]]) -> Agent[Any, Any]:
        model = PricedModel(script, usd="0.40")
        payer = Agent(
            model=model,
            name="payer",
            instructions="Pay.",
            tools=[pay, look],
            limits=Limits(usd=0.7),
            settings=SHORT,
        )
        return Agent(model=model, name="boss", instructions="Ask.", subagents=[payer])

    journal = MemoryJournal()
    with pytest.raises(ApprovalRequired) as caught:
        await agent(
            {"boss": [Call("delegate_to_payer", {"task": "Pay."})], "payer": [Call("pay")]}
        ).run("Go.", journal=journal)
    pending = caught.value.paused.pending[0]
    result = await agent({"boss": ["sorry"], "payer": [Call("look")]}).resume(
        caught.value.paused.run_id, {pending.id: Approve()}, journal=journal
    )
    (child,) = result.children
    assert child.kind == "failed"
    assert "usd=0.7 is reached: 0.80 used" in child.reason


async def test_summaries_cost_tokens_but_are_no_turns() -> None:
    digger = Digger(12)
    rule = CompactionRule(trigger_tokens=500, limit_tokens=600)
    result = await digger.agent(compaction=rule).run("Dig.", limits=Limits(turns=99, tokens=10**6))
    n_summaries = len(digger.asked_for_summaries)
    assert n_summaries
    turns, tokens = result.limits
    assert turns.used == len(result.requests) - n_summaries
    used = [r.usage for r in result.requests]
    assert tokens.used == sum((u.input_tokens or 0) + (u.output_tokens or 0) for u in used)


async def test_a_summary_waits_and_counts_like_any_request() -> None:
    digger = Digger(12)
    rule = CompactionRule(trigger_tokens=500, limit_tokens=600)
    seen: list[int] = []

    class Watching(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if is_summary_request(request):
                seen.append(1)
            async for event in super().stream(request):
                yield event

    digger.model = Watching(digger.step)
    with pytest.raises(LimitReached):
        await digger.agent(compaction=rule).run("Dig.", limits=Limits(input_tokens=1))
    assert seen == []


def test_what_keeps_a_prefix_alive_counts_and_ends_where_a_limit_is_reached() -> None:
    def respond(ask: Ask) -> FakeReply:
        return FakeReply(text="done") if ask.n_turns else FakeReply(calls=(FakeCall("wait"),))

    world = HostedWorld(respond)

    @tool
    async def wait() -> str:
        """Wait."""
        await world.time.sleep(3_000)
        return "waited"

    agent = Agent(model=world.model, instructions="Wait. " * 3_000, tools=[wait])
    free = world.run(lambda: agent.run("Go."))
    n_pings = len(free.requests) - 2
    assert n_pings > 2

    world = HostedWorld(respond)
    agent = Agent(model=world.model, instructions="Wait. " * 3_000, tools=[wait])
    n_tokens = free.requests[0].usage.input_tokens
    assert n_tokens is not None
    with pytest.raises(LimitReached, match="input_tokens") as caught:
        world.run(lambda: agent.run("Go.", limits=Limits(input_tokens=2 * n_tokens)))
    assert caught.value.partial is not None
    assert len(caught.value.partial.requests) == 2
    assert isinstance(caught.value.partial.messages[-1], ToolMessage)


async def test_an_answer_that_broke_off_is_estimated_from_what_it_had_said() -> None:
    """Its provider wants to be paid, and says nothing: unknown is not zero."""

    class Breaks(PricedModel):
        async def stream(self, request: ModelRequest) -> Any:
            n_events = 0
            async for event in super().stream(request):
                yield event
                n_events += 1
                if n_events == 20:
                    raise ModelError("the connection broke")

    model = Breaks([Say("word " * 400)])
    agent = Agent(model=model, instructions="x" * 4_000)
    with pytest.raises(ModelError) as caught:
        await agent.run("Go.", limits=Limits(usd=1, input_tokens=10**6, output_tokens=10**6))
    assert caught.value.partial is not None
    uses = {use.name: use for use in caught.value.partial.limits}
    assert {use.n_unknown for use in uses.values()} == {1}
    assert uses["output_tokens"].used == -(-20 * 7 // 4)
    assert 1_000 < uses["input_tokens"].used < 1_200
    tokens = uses["input_tokens"].used * 3 + uses["output_tokens"].used * 5_000
    assert uses["usd"].used == tokens / 10**6


async def test_a_refusal_before_the_answer_begins_uses_nothing_up() -> None:
    model = ScriptedModel([ModelError("busy", retryable=True, retry_after_s=0.0), "done"])
    result = await Agent(model=model, instructions="x").run(
        "Go.", limits=Limits(turns=1, tokens=10**6)
    )
    assert [(use.n_unknown, use.name) for use in result.limits] == [(0, "turns"), (0, "tokens")]


async def test_what_is_reserved_is_free_again_after_a_failure_and_after_a_cancel() -> None:
    """Siblings are let in one at a time here; one fails, one is cut off, the third still goes."""
    hangs = asyncio.Event()

    class Model(PricedModel):
        async def stream(self, request: ModelRequest) -> Any:
            if request.agent == "b":
                hangs.set()
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event

    model = Model({"a": [ModelError("no")], "b": [], "c": ["fine"], "top": []}, usd="0.10")
    agents = [Agent(model=model, name=name, instructions="x") for name in "abc"]
    delayed: list[Any] = []

    class Top(Agent):
        """Top."""

        @tool
        async def go(self, ctx: ToolContext[Any]) -> str:
            """Go."""
            tasks = [
                asyncio.create_task(fan_out(self, [(name, "x")], within=ctx)) for name in "abc"
            ]
            await hangs.wait()
            tasks[1].cancel()
            delayed.extend(await asyncio.gather(*tasks, return_exceptions=True))
            return "went"

    top = Top(model=ScriptedModel([Call("go"), "end"]), subagents=agents, limits=Limits(usd=0.2))
    result = await asyncio.wait_for(top.run("Go."), timeout=10)
    assert result.output == "end"
    assert delayed[2].ok[0].output == "fine"


async def test_known_usage_of_a_reply_is_what_counts() -> None:
    usage = Usage(input_tokens=700, output_tokens=30)
    model = ScriptedModel([Reply(parts=(Say("hi"),), usage=usage)])
    result = await Agent(model=model, instructions="x").run(
        "Go.", limits=Limits(input_tokens=701, output_tokens=31, tokens=731)
    )
    assert [use.left for use in result.limits] == [1, 1, 1]
