"""HostedModel: real adapters and SDKs against the fake provider, in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal as D
from typing import Any, TypeVar

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from agentkit import Agent, tool
from agentkit.blocks import Text, UserMessage
from agentkit.caching.options import CacheOptions
from agentkit.caching.simulate.served import Refused, Served
from agentkit.caching.times import RealTime, VirtualTime
from agentkit.caching.verdict import Cause
from agentkit.errors import ModelError
from agentkit.events import TextDelta
from agentkit.fake import Ask, Call, Failure, FakeProvider, Reply
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.warn import LostMarkWarning

T = TypeVar("T")
RULES = "Always be brief and never guess. " * 120  # about a thousand tokens
ROLE = "You look things up before you answer. " * 120


def calls_then_answers(turns: int) -> Callable[[Ask], Reply]:
    def respond(ask: Ask) -> Reply:
        timing = {"first_byte_s": 2.0, "seconds": 3.0}
        if ask.n_turns + 1 < turns:
            return Reply(text="Looking.", calls=(Call("look", '{"what": "it"}'),), **timing)
        return Reply(text="Done.", **timing)

    return respond


class World:
    """A fake provider in virtual time, and models that talk to it."""

    def __init__(self, respond: Callable[[Ask], Any] | None = None) -> None:
        self.time = VirtualTime()
        respond = respond or calls_then_answers(4)
        self.fake = FakeProvider(time=self.time, respond=respond)
        self.tool_s = 5.0
        self.on_tool: Callable[[int], None] = lambda n: None
        self.n_tools = 0
        self._http: list[httpx2.AsyncClient] = []

    def http(self) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(transport=self.fake.transport(), timeout=None)
        self._http.append(client)
        return client

    def anthropic(self, **cache: Any) -> HostedModel[Any]:
        client = AsyncAnthropic(api_key="k", base_url="http://fake", http_client=self.http())
        adapter = AnthropicAdapter("claude-sonnet-5-5", client=client)
        return HostedModel(adapter, cache=CacheOptions(**cache), time=self.time)

    def openai(self, **cache: Any) -> HostedModel[Any]:
        client = AsyncOpenAI(api_key="k", base_url="http://fake/v1", http_client=self.http())
        adapter = ResponsesAdapter("gpt-6.1-sol", client=client)
        return HostedModel(adapter, cache=CacheOptions(**cache), time=self.time)

    def agent(self, model: HostedModel[Any], **more: Any) -> Agent[None, str]:
        @tool
        async def look(what: str) -> str:
            """Look something up."""
            await self.time.sleep(self.tool_s)
            self.n_tools += 1
            self.on_tool(self.n_tools)
            return f"{what} is there. " * 60

        return Agent(
            model=model, name="clerk", rules=RULES, instructions=ROLE, tools=[look], **more
        )

    @property
    def served(self) -> list[Served]:
        assert not [each for each in self.fake.served if isinstance(each, Refused)]
        return [each for each in self.fake.served if isinstance(each, Served)]

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for client in self._http:
                await client.aclose()

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        async def all_of_it() -> T:
            async with self.closed():
                return await work()

        async def driven() -> T:
            return await self.time.drive(all_of_it())

        return asyncio.run(driven())


PROVIDERS = pytest.mark.parametrize("provider", ["anthropic", "openai"])


@PROVIDERS
def test_the_bill_of_a_run_is_the_providers_to_the_last_digit(provider: str) -> None:
    world = World()
    model = getattr(world, provider)()

    result = world.run(lambda: world.agent(model).run("Where is it?"))

    paid = sum((each.cost.total for each in world.served if each.cost), D(0))
    costs = [each.verdict.cost.total for each in result.requests if each.verdict.cost]
    assert len(costs) == len(world.served) == 4
    assert sum(costs, D(0)) == paid


@PROVIDERS
def test_what_the_plan_foresaw_is_what_the_provider_did(provider: str) -> None:
    world = World()
    model = getattr(world, provider)()

    result = world.run(lambda: world.agent(model).run("Where is it?"))

    for request, served in zip(result.requests, world.served, strict=True):
        assert request.verdict is not None
        assert request.verdict.actual == served.split
        assert request.verdict.shortfall is None or not request.verdict.shortfall.lost_tokens
    # Before anything was counted lengths are estimates; after that they are nearly exact.
    for request, served in zip(result.requests[1:], world.served[1:], strict=True):
        assert request.verdict is not None
        assert request.verdict.planned_cost is not None
        assert served.cost is not None
        off = request.verdict.planned_cost / served.cost.total - 1
        assert abs(off) < D("0.02")


@PROVIDERS
def test_of_many_runs_that_start_together_one_writes_the_front(provider: str) -> None:
    world = World(calls_then_answers(2))
    model = getattr(world, provider)()
    agent = world.agent(model)

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(6):
                group.create_task(agent.run(f"Question {n}?"))

    world.run(together)
    cold = [each for each in world.served if not each.read]
    assert len(world.served) == 12
    assert len(cold) == 1


def test_siblings_wait_also_where_a_provider_has_no_marks() -> None:
    world = World(calls_then_answers(2))
    client = AsyncOpenAI(api_key="k", base_url="http://fake/v1", http_client=world.http())
    model = HostedModel(ResponsesAdapter("gpt-5.5", client=client), time=world.time)
    agent = world.agent(model, examples="A good answer is short. " * 300)

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                group.create_task(agent.run(f"Question {n}?"))

    world.run(together)
    assert len([each for each in world.served if not each.read]) == 1


@PROVIDERS
def test_a_front_that_changes_between_two_agents_is_found_to_the_byte(provider: str) -> None:
    world = World(calls_then_answers(1))
    model = getattr(world, provider)()

    async def both() -> Any:
        for minute in (41, 42):
            role = f"Edition {minute}. " + ROLE
            agent = Agent(model=model, name="clerk", instructions=role)
            result = await agent.run("Where is it?")
        return result

    shortfall = world.run(both).requests[0].verdict.shortfall
    assert shortfall.cause is Cause.SEGMENT_CHANGED
    assert shortfall.difference.segment == "system/role"
    assert "Edition 41" in shortfall.difference.before
    assert "Edition 42" in shortfall.difference.after


def test_one_model_serves_several_event_loops_and_threads() -> None:
    world = World(calls_then_answers(2))
    fake, results = world.fake, []

    def client() -> AsyncAnthropic:
        http = httpx2.AsyncClient(transport=fake.transport(), timeout=None)
        return AsyncAnthropic(api_key="k", base_url="http://fake", http_client=http)

    class Fresh(AnthropicAdapter):
        """Its SDK client belongs to the loop that asks, as one that the adapter makes itself."""

        async def stream(self, body: Any) -> Any:
            made = client()
            inner = AnthropicAdapter("claude-sonnet-5-5", client=made)
            async with made:
                async for event in inner.stream(body):
                    yield event

    fake.time = RealTime()
    fake.respond = lambda ask: Reply(text="Done.")
    model = HostedModel(Fresh("claude-sonnet-5-5"))

    def many() -> None:
        for n in range(5):
            agent = Agent(model=model, name="clerk", rules=RULES, instructions=ROLE)
            results.append(agent.run_sync(f"Question {n}?"))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    assert all(result.requests[0].verdict is not None for result in results)


def test_without_waiting_all_siblings_pay_for_the_front() -> None:
    world = World(calls_then_answers(2))
    agent = world.agent(world.anthropic(wait_for_siblings=False))

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(6):
                group.create_task(agent.run(f"Question {n}?"))

    world.run(together)
    assert len([each for each in world.served if not each.read]) == 6


def test_when_the_leader_fails_another_goes_ahead() -> None:
    asked: list[Ask] = []

    def respond(ask: Ask) -> Reply | Failure:
        asked.append(ask)
        if len(asked) == 1:
            return Failure(status=400, after_s=2.0)
        return Reply(text="Done.", first_byte_s=2.0)

    world = World(respond)
    agent = world.agent(world.anthropic())

    async def together() -> list[Any]:
        runs = (agent.run(f"Question {n}?") for n in range(4))
        return await asyncio.gather(*runs, return_exceptions=True)

    outcomes = world.run(together)
    assert [isinstance(each, ModelError) for each in outcomes].count(True) == 1
    assert len([each for each in world.served if not each.read]) == 1


def test_in_an_outage_siblings_do_not_fail_one_after_the_other() -> None:
    world = World(lambda ask: Failure(status=503, after_s=20.0))
    agent = world.agent(world.anthropic(), max_retries=0)

    async def together() -> list[Any]:
        runs = (agent.run(f"Question {n}?") for n in range(8))
        return await asyncio.gather(*runs, return_exceptions=True)

    start = world.time.now()
    outcomes = world.run(together)
    assert all(isinstance(each, ModelError) for each in outcomes)
    assert (world.time.now() - start).total_seconds() < 60


def test_what_a_broken_answer_has_used_is_on_the_bill() -> None:
    def respond(ask: Ask) -> Reply:
        breaks = None if len(world.fake.records) > 1 else 1
        return Reply(text="A long answer. " * 50, breaks_after=breaks)

    world = World(respond)
    agent = world.agent(world.anthropic())

    result = world.run(lambda: agent.run("Where is it?"))

    assert len(result.requests) == 2
    assert all(each.verdict is not None for each in result.requests)
    assert result.requests[0].verdict.actual.written > 1_000


@PROVIDERS
def test_a_run_that_is_left_early_still_counts_what_it_has_used(provider: str) -> None:
    world = World(lambda ask: Reply(text="A long answer. " * 50, first_byte_s=1.0, seconds=60.0))
    model = getattr(world, provider)()
    agent = world.agent(model)

    async def left_early() -> Any:
        async with agent.stream("Where is it?") as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        return events.record

    record = world.run(left_early)
    assert len(record.requests) == 1
    # OpenAI says what was used at the end only.
    assert (record.usage.input_tokens is None) == (provider == "openai")
    assert record.cost is None or record.cost.exact is None


def test_a_provider_that_asks_for_hours_is_not_waited_for() -> None:
    world = World(lambda ask: Failure(status=429, retry_after_s=86_400.0))
    agent = world.agent(world.anthropic())
    start = world.time.now()

    with pytest.raises(ModelError) as caught:
        world.run(lambda: agent.run("Where is it?"))

    assert caught.value.retry_after_s == 86_400
    assert len(world.fake.records) == 1
    assert (world.time.now() - start).total_seconds() < 60


def test_a_ping_that_fails_once_is_tried_again() -> None:
    pings: list[Ask] = []

    def respond(ask: Ask) -> Reply | Failure:
        if ask.body.get("max_tokens") == 0:
            pings.append(ask)
            if len(pings) == 1:
                return Failure(status=529)
        return calls_then_answers(2)(ask)

    world = World(respond)
    world.tool_s = 500.0
    result = world.run(lambda: world.agent(world.anthropic()).run("Where is it?"))

    assert len(pings) >= 2
    assert result.requests[-1].verdict.actual.read > 1_000


def test_the_leader_is_not_blamed_for_what_its_siblings_read_before_it_ended() -> None:
    def respond(ask: Ask) -> Reply:
        slow = "first" in ask.user_text
        return Reply(text="Done.", first_byte_s=1.0, seconds=60.0 if slow else 1.0)

    world = World(respond)
    agent = world.agent(world.anthropic())

    async def together() -> list[Any]:
        leader = asyncio.create_task(agent.run("The first question"))
        await world.time.sleep(0.5)
        others = [asyncio.create_task(agent.run(f"Another question, {n}")) for n in range(3)]
        return [await task for task in (leader, *others)]

    for result in world.run(together):
        assert result.requests[0].verdict.shortfall is None


def test_agents_without_a_name_are_not_compared_with_each_other() -> None:
    world = World(calls_then_answers(1))
    model = world.anthropic()

    async def both() -> list[Any]:
        first = await Agent(model=model, instructions="You add. " * 400).run("1 + 1?")
        second = await Agent(model=model, instructions="You divide. " * 400).run("1 / 1?")
        return [first, second]

    for result in world.run(both):
        assert result.requests[0].verdict.shortfall is None


def test_the_user_is_warned_of_a_mark_that_gives_way_and_the_run_goes_on() -> None:
    world = World(calls_then_answers(1))
    marked = [Text(f"Part {n}. " * 900, breakpoint="default") for n in range(5)]
    agent = world.agent(world.anthropic())

    with pytest.warns(LostMarkWarning, match="older ones give way"):
        result = world.run(lambda: agent.run(UserMessage(tuple(marked))))

    assert result.output == "Done."
    assert world.fake.requests[0].count(b"cache_control") == 4


def test_a_cancelled_leader_holds_nobody_up() -> None:
    world = World(calls_then_answers(1))
    agent = world.agent(world.anthropic())

    async def together() -> list[Any]:
        leader = asyncio.create_task(agent.run("first"))
        await world.time.sleep(1.0)
        others = [asyncio.create_task(agent.run(f"other {n}")) for n in range(3)]
        await world.time.sleep(0.5)
        leader.cancel()
        return await asyncio.gather(*others)

    assert [each.output for each in world.run(together)] == ["Done."] * 3


def test_a_prefix_is_kept_alive_while_a_tool_takes_longer_than_its_lifetime() -> None:
    world = World(calls_then_answers(3))
    world.tool_s = 700.0
    agent = world.agent(world.anthropic())

    result = world.run(lambda: agent.run("Where is it?"))

    turns = [each for each in world.served if each.output_tokens]
    pings = [each for each in world.served if not each.output_tokens]
    assert pings
    assert all(each.read and not each.uncached for each in pings)
    assert all(each.read for each in turns[1:])
    assert len(result.requests) == len(world.served)
    assert result.usage.output_tokens == sum(each.output_tokens for each in turns)


def test_without_a_budget_nothing_is_kept_alive_and_the_loss_is_explained() -> None:
    world = World(calls_then_answers(2))
    world.tool_s = 700.0
    agent = world.agent(world.anthropic(keep_alive_usd=D(0)))

    result = world.run(lambda: agent.run("Where is it?"))

    verdict = result.requests[1].verdict
    assert len(world.served) == 2
    assert verdict is not None
    assert verdict.shortfall is not None
    assert verdict.shortfall.cause is Cause.EXPIRED
    assert verdict.shortfall.lost_tokens > 1_000


def test_a_conversation_that_goes_on_later_is_compared_with_its_last_request() -> None:
    world = World(calls_then_answers(2))
    model = world.anthropic()

    async def twice() -> Any:
        first = await world.agent(model).run("Where is it?")
        await world.time.sleep(900)
        return await world.agent(model).run("And now?", context=first.context)

    result = world.run(twice)
    shortfall = result.requests[0].verdict.shortfall
    assert shortfall.cause is Cause.EXPIRED
    assert "900" in shortfall.detail or "90" in shortfall.detail


def test_fronts_of_runs_far_apart_are_written_for_longer_once_that_is_seen() -> None:
    world = World(calls_then_answers(2))
    model = world.anthropic()

    async def thrice() -> None:
        for n in range(3):
            await world.agent(model).run(f"Question {n}?")
            await world.time.sleep(600)

    world.run(thrice)
    firsts = world.served[::2]
    assert [bool(each.read) for each in firsts] == [False, False, True]
    assert any(ttl.value == "1h" for ttl, _ in firsts[1].split.writes)


def test_a_retry_after_a_failure_is_compared_with_what_was_answered() -> None:
    asked: list[Ask] = []

    def respond(ask: Ask) -> Reply | Failure:
        asked.append(ask)
        return Failure(status=529, retry_after_s=0.0) if len(asked) == 2 else answer(ask)

    answer = calls_then_answers(3)
    world = World(respond)
    result = world.run(lambda: world.agent(world.anthropic()).run("Where is it?"))

    shortfalls = [each.verdict.shortfall for each in result.requests if each.verdict]
    assert shortfalls == [None] * 3


def test_an_entry_that_the_provider_dropped_is_nobodys_fault_and_is_written_again() -> None:
    world = World(calls_then_answers(4))
    agent = world.agent(world.anthropic())
    entries = world.fake.caches.anthropic._store._entries
    world.on_tool = lambda n: entries.clear() if n == 2 else None

    result = world.run(lambda: agent.run("Where is it?"))

    causes = [each.verdict.shortfall and each.verdict.shortfall.cause for each in result.requests]
    assert causes == [None, None, Cause.EVICTED, None]
    assert world.served[3].read > world.served[1].read


@PROVIDERS
def test_caching_can_be_switched_off(provider: str) -> None:
    world = World(calls_then_answers(3))
    agent = world.agent(getattr(world, provider)(enabled=False))

    result = world.run(lambda: agent.run("Where is it?"))

    assert all(b"cache_control" not in body for body in world.fake.requests)
    assert all(b"breakpoint" not in body for body in world.fake.requests)
    assert all(not each.read and not each.split.written for each in world.served)
    assert all(each.verdict for each in result.requests)


def test_the_report_names_money_and_what_it_would_have_been_without_a_cache() -> None:
    world = World(calls_then_answers(4))
    result = world.run(lambda: world.agent(world.anthropic()).run("Where is it?"))

    row = result.cache.total.to_json()
    uncached = [each.verdict.uncached_cost for each in result.requests if each.verdict]
    paid = [each.cost.total for each in world.served if each.cost]
    assert sum(uncached, D(0)) > sum(paid, D(0)) * 2
    assert str(sum(paid, D(0)).normalize())[:6] in str(row)
    assert result.cost is not None
    assert result.cost.exact == sum(paid, D(0))
    # The fake answers after two seconds of its own time.
    assert {each.timing.ttft_s for each in result.requests} == {2.0}
