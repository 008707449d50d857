"""Handoffs and forks on the providers' wires: what was sent is a prefix, and is read."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

from agentkit import Agent, Task, ToolContext, fan_out, subagent, tool
from agentkit.fake import Ask, Call, Reply
from agentkit.team.subagent import Beginning
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld, hit

HOUSE = "The house sells lamps. Be kind, be brief, and promise nothing. " * 300


class Refunds(Agent):
    """You pay money back."""

    handoffs = ("triage",)

    @tool
    def refund(self, order: str) -> str:
        """Pay back."""
        return f"paid for {order}"


class Triage(Agent):
    """You find out what a customer wants. Then you hand over."""

    rules = HOUSE
    handoffs = (Refunds,)

    @tool
    def order(self, number: str) -> str:
        """Look up an order."""
        return f"order {number}: " + "a lamp of brass with a shade of linen, paid in May. " * 20


def world_of(script: list[Call | str], provider: str) -> HostedWorld:
    steps = iter(script)

    def respond(ask: Ask) -> Reply:
        step = next(steps)
        if isinstance(step, str):
            return Reply(text=step, first_byte_s=1.0, seconds=2.0)
        return Reply(text="", calls=(step,), first_byte_s=1.0, seconds=2.0)

    return HostedWorld(respond, provider)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_across_handoffs_every_request_begins_with_the_one_before(provider: str) -> None:
    world = world_of(
        [
            Call("order", '{"number": "7"}'),
            Call("handoff_to_refunds", '{"note": "angry"}'),
            Call("refund", '{"order": "7"}'),
            Call("handoff_to_triage", "{}"),
            "Your money is on its way.",
            "You are welcome.",
        ],
        provider,
    )
    agent = Triage(model=world.model)

    async def runs() -> Any:
        first = await agent.run("My lamp is broken.")
        return first, await agent.run("Thanks!", context=first.context)

    first, second = world.run(runs)
    assert first.output == "Your money is on its way."
    for before, after in itertools.pairwise(world.sent):
        assert after[: len(before)] == before
        assert len(after) > len(before)
    if provider == "deepseek":  # reads whole units, and only some seconds after they were sent
        return
    for earlier, served in itertools.pairwise(world.served):
        assert served.read >= earlier.split.total * 0.9
    for record in (*first.requests, *second.requests):
        assert record.verdict is not None
        assert record.verdict.shortfall is None or not record.verdict.shortfall.lost_tokens


@pytest.mark.parametrize(("first", "second"), [("anthropic", "openai"), ("openai", "anthropic")])
def test_a_handoff_to_another_providers_model_is_paid_and_nothing_of_the_first_one_is_sent(
    first: str, second: str
) -> None:
    """XPR: a vendor's own fields survived the switch. What it costs stands in the report."""
    script = [Call("handoff_to_refunds", "{}"), Call("refund", '{"order": "7"}'), "It is paid."]
    world = world_of([*script], first)
    theirs = world.another_model(second)
    agent = Triage(model=world.model, handoffs=[Refunds(model=theirs)])
    result = world.run(lambda: agent.run("My lamp is broken."))

    before, cold, warm = result.requests
    assert [each.model.split(":")[0] for each in result.requests] == [first, second, second]
    assert (cold.usage.cache_read_tokens, cold.agent) == (0, "refunds")
    assert (warm.usage.hit_ratio or 0) > 0.9
    assert len(world.served) == 3  # none was refused
    rows = {row.label: row.money for row in result.cache.rows}
    assert rows.keys() == {"triage", "triage (refunds)"}
    paid = [None if money is None else money.cost.exact for money in rows.values()]
    assert all(usd is not None and usd > 0 for usd in paid)
    assert before.verdict is not None
    assert cold.verdict is not None


class Checker(Agent):
    """You check one claim."""


class Author(Agent):
    """You write, and have your claims checked."""

    rules = HOUSE
    subagents = (subagent(Checker, context="fork"),)

    @tool
    async def check_all(self, claims: list[str], context: ToolContext[None]) -> list[str]:
        """Have claims checked."""
        tasks = [Task(agent=Checker, prompt=claim) for claim in claims]
        done = await fan_out(self, tasks, within=context)
        return [str(outcome.output) for outcome in done.ok]


CONTEXTS: tuple[Beginning, ...] = ("fork", "fresh")
DELEGATE = Call("delegate_to_checker", '{"task": "Is brass an alloy?"}')
CHECK_ALL = Call("check_all", '{"claims": ["Brass is an alloy.", "Linen burns.", "It is May."]}')


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("step", "n_checks"), [(DELEGATE, 1), (CHECK_ALL, 3)])
def test_a_fork_begins_with_what_its_parent_has_sent_and_reads_it(
    provider: str, step: Call, n_checks: int
) -> None:
    world = world_of([step, *["Yes."] * n_checks, "All is true."], provider)
    author = Author(model=world.model)
    question = "Here is my text. " + "The lamp is of brass, and its shade is of linen. " * 60
    result = world.run(lambda: author.run(question))

    parents, *forks = world.sent[: n_checks + 1]
    front = len(result.context.front)
    assert len(parents) > front
    for sent in forks:
        assert sent[: len(parents)] == parents
    assert world.sent[-1][: len(parents)] == parents
    if provider != "deepseek":
        first, *served = world.served[: n_checks + 1]
        for each in served:
            assert each.read >= first.split.total * 0.95  # the question too, and not just the front
            assert hit(each) > 0.9


def test_a_fresh_subagent_reads_the_shared_front_only() -> None:
    """What a fork saves, and what it does not carry."""
    reads: dict[str, int] = {}
    for context in CONTEXTS:
        world = world_of([DELEGATE, "Yes.", "True."], "anthropic")
        author = Author(model=world.model, subagents=[subagent(Checker, context=context)])
        world.run(functools.partial(author.run, "The lamp is of brass. " * 150))
        reads[context] = world.served[1].read
    assert 0 < reads["fresh"] < reads["fork"]
