"""Tools that come and go under teams, handoffs, forks, and runs that wait for a person."""

from __future__ import annotations

import json

import pytest

from agentkit import (
    Agent,
    ApprovalRequired,
    Approve,
    CompactionRule,
    ContextMismatch,
    MemoryJournal,
    PausedRun,
    subagent,
)
from agentkit.blocks import ToolsMessage
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset import ToolPolicy
from agentkit.warn import PinnedToolsWarning
from tests.agentkit.tool_results import result_texts

pytestmark = pytest.mark.usefixtures("quick")


def added(context):
    return [message.names for message in context.messages if isinstance(message, ToolsMessage)]


def set_then(tool_file, names, step):
    def respond(request):
        tool_file.set(*names)
        return step

    return respond


ANNOUNCE = Call("s__announce", {"text": "x"})
MORE = ("announce", "crash", "echo", "alpha")


async def test_only_those_that_may_call_a_server_are_shown_what_it_adds(tool_file):
    reader = Agent(name="reader", instructions="You read.", tools=[tool_file.server()])
    model = ScriptedModel(
        {
            "boss": [
                Call("delegate_to_reader", {"task": "one"}),
                Call("delegate_to_reader", {"task": "two"}),
                Call("s__alpha", {"text": "not mine"}),
                "done",
            ],
            "reader": [
                set_then(tool_file, MORE, ANNOUNCE),
                Call("s__alpha", {"text": "1"}),
                "ok",
                Call("s__alpha", {"text": "2"}),
                "ok",
            ],
        },
        takes_tools=True,
    )
    result = await Agent(model=model, name="boss", subagents=[reader]).run("x")

    assert added(result.context) == []
    assert "There is no tool named 's__alpha'" in result_texts(result)[2]
    # The second begins with the front that the first has in the cache, and gets the tool behind it.
    for child in result.children:
        assert added(child.result.context) == [("s__alpha",)]
        assert json.loads(result_texts(child.result)[-1])["name"] == "alpha"
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert_prefix_stable(model.calls)


async def test_a_fork_has_what_came_later_and_calls_it_if_it_may(tool_file):
    server = tool_file.server()
    helper = Agent(name="helper", instructions="You help.", tools=[server])
    stranger = Agent(name="stranger", instructions="You look on.")
    model = ScriptedModel(
        {
            "boss": [
                set_then(tool_file, MORE, ANNOUNCE),
                [
                    Call("delegate_to_helper", {"task": "one"}),
                    Call("delegate_to_stranger", {"task": "two"}),
                ],
                "done",
            ],
            "helper": [Call("s__alpha", {"text": "1"}), "ok"],
            "stranger": [Call("s__alpha", {"text": "2"}), "ok"],
        },
        takes_tools=True,
    )
    subagents = [subagent(each, context="fork") for each in (helper, stranger)]
    boss = Agent(model=model, name="boss", tools=[server], subagents=subagents)
    result = await boss.run("x")

    first, second = result.children
    assert json.loads(result_texts(first.result)[-1])["name"] == "alpha"
    assert "may not be called" in result_texts(second.result)[-1]
    for child in (first, second):
        assert added(child.result.context) == [("s__alpha",)]
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    users = [m.text for m in first.result.context.messages if m.kind == "user"]
    assert any("only: s__alpha, s__announce, s__crash, s__echo." in text for text in users)


async def test_after_a_handoff_the_other_calls_what_came_later_if_it_may(tool_file):
    server = tool_file.server()
    second = Agent(name="second", instructions="You go on.", tools=[server])
    model = ScriptedModel(
        {
            "first": [set_then(tool_file, MORE, ANNOUNCE), Call("handoff_to_second")],
            "second": [Call("s__alpha", {"text": "1"}), "done"],
        },
        takes_tools=True,
    )
    first = Agent(
        model=model, name="first", instructions="You begin.", tools=[server], handoffs=[second]
    )
    result = await first.run("x")
    assert json.loads(result_texts(result)[-1])["name"] == "alpha"
    assert added(result.context) == [("s__alpha",)]
    assert_prefix_stable(model.calls)


async def test_after_a_handoff_the_other_is_told_what_it_may_call_of_what_came_later(tool_file):
    """Also when the conversation comes back, and its role is not said twice for that."""
    server = tool_file.server()
    second = Agent(
        name="second", instructions="You go on.", tools=[server], handoffs=["first", "third"]
    )
    third = Agent(name="third", instructions="You only look on.", handoffs=["second"])
    model = ScriptedModel(
        {
            "first": [set_then(tool_file, MORE, ANNOUNCE), Call("handoff_to_second"), "done"],
            "second": [
                set_then(tool_file, (*MORE, "beta"), ANNOUNCE),
                Call("handoff_to_third"),
                Call("handoff_to_first"),
            ],
            "third": [Call("handoff_to_second")],
        },
        takes_tools=True,
    )
    agents = (second, third)
    first = Agent(
        model=model, name="first", instructions="You begin.", tools=[server], handoffs=agents
    )
    result = await first.run("x")

    told = [
        (message.text.split("'")[1], message.text.rpartition("\n\n")[2].partition(": ")[2])
        for message in result.context.messages
        if message.kind == "user" and "From here on" in message.text
    ]
    of_server = "s__announce, s__crash, s__echo."
    with_alpha = of_server.replace("s__announce", "s__alpha, s__announce")
    with_beta = with_alpha.replace("s__crash", "s__beta, s__crash")
    assert told == [
        ("second", f"handoff_to_first, handoff_to_third, {with_alpha}"),
        ("third", "handoff_to_second."),
        ("second", f"handoff_to_first, handoff_to_third, {with_beta}"),
        ("first", f"handoff_to_second, handoff_to_third, {with_beta}"),
    ]
    assert sum("You go on." in m.text for m in result.context.messages if m.kind == "user") == 1
    assert_prefix_stable(model.calls)


async def test_a_role_of_before_a_summary_is_said_again_with_the_tools_of_now(tool_file):
    server = tool_file.server()
    second = Agent(
        name="second",
        instructions="You go on.",
        tools=[server],
        handoffs=["first"],
        compaction=CompactionRule(trigger_tokens=1_000, keep_turns=1, summary_tokens=50),
    )
    model = ScriptedModel(
        {
            "first": [Call("handoff_to_second")],
            "second": [set_then(tool_file, MORE, ANNOUNCE), "word " * 3_000, "summary", "done"],
        },
        takes_tools=True,
    )
    first = Agent(
        model=model, name="first", instructions="You begin.", tools=[server], handoffs=[second]
    )
    one = await first.run("x")
    two = await first.run("y", context=one.context)

    roles = [m for m in two.context.messages if m.kind == "user" and "You go on." in m.text]
    assert len(roles) == 1
    assert "only: handoff_to_first, s__alpha, s__announce, s__crash, s__echo." in roles[0].text


async def test_a_run_that_waited_goes_on_in_another_process_with_what_came_later(tool_file):
    policies = {"echo": ToolPolicy(requires_approval=True)}

    def agent(*steps):
        model = ScriptedModel(list(steps), takes_tools=True)
        return Agent(model=model, name="a", tools=[tool_file.server(policies=policies)]), model

    before, model_1 = agent(
        set_then(tool_file, MORE, ANNOUNCE), Call("s__echo", {"text": "please"})
    )
    with pytest.raises(ApprovalRequired) as waits:
        await before.run("x")
    paused = PausedRun.from_json(waits.value.paused.to_json())
    tool_file.set("announce", "echo", "alpha", "zeta")
    after, model_2 = agent(Call("s__alpha", {"text": "1"}), Call("s__zeta", {"text": "2"}), "done")
    result = await after.resume(paused, {paused.pending[0].id: Approve()})

    assert added(result.context) == [("s__alpha",), ("s__zeta",)]
    names = [json.loads(text)["name"] for text in result_texts(result)[1:]]
    assert names == ["echo", "alpha", "zeta"]
    assert_prefix_stable([*model_1.calls, *model_2.calls])


class Watched(MemoryJournal):
    """A journal of which a test sees what was kept last."""

    def __init__(self):
        super().__init__()
        self.last = None

    async def save(self, run):
        await super().save(run)
        self.last = run


async def test_what_came_later_is_in_the_journal_before_it_is_sent(tool_file):
    """A process that ends between the two must not leave a conversation that never had it."""
    journal = Watched()
    kept = []

    def look(request):
        kept.append(added(journal.last.context))
        return "done"

    def agent(*steps):
        model = ScriptedModel(list(steps), takes_tools=True)
        return Agent(model=model, name="a", tools=[tool_file.server()], journal=journal)

    await agent(set_then(tool_file, MORE, ANNOUNCE), look).run("x", session="s")
    assert kept == [[("s__alpha",)]]
    second = await agent(Call("s__alpha", {"text": "1"}), "done").run("y", session="s")
    assert json.loads(result_texts(second)[0])["name"] == "alpha"
    assert added(second.context) == [("s__alpha",)]


async def test_a_conversation_goes_on_without_a_server_that_the_agent_has_no_more(tool_file):
    first = ScriptedModel([Call("s__echo", {"text": "1"}), "one"])
    begun = await Agent(name="a", model=first, tools=[tool_file.server()]).run("x")
    later = ScriptedModel([Call("s__echo", {"text": "2"}), "two"])
    without = Agent(name="a", model=later)
    with pytest.warns(PinnedToolsWarning, match=r"tools of the MCP servers \['s'\]"):
        result = await without.run("y", context=begun.context)
    assert result_texts(result)[-1].startswith("There is no tool 's__echo' any more")
    assert_prefix_stable([*first.calls, *later.calls])


async def test_a_run_that_waits_goes_on_without_a_server_that_the_agent_has_no_more(tool_file):
    policies = {"echo": ToolPolicy(requires_approval=True)}
    model = ScriptedModel([Call("s__echo", {"text": "1"}), "done"])
    asking = Agent(name="a", model=model, tools=[tool_file.server(policies=policies)])
    with pytest.raises(ApprovalRequired) as caught:
        await asking.run("x")
    (pending,) = caught.value.paused.pending
    with pytest.warns(PinnedToolsWarning):
        result = await Agent(name="a", model=model).resume(
            caught.value.paused, {pending.id: Approve()}
        )
    assert result_texts(result)[-1].startswith("There is no tool 's__echo' any more")


async def test_a_tool_of_the_agents_own_is_missed(tool_file):
    async def look() -> str:
        """Look."""
        return "seen"

    tools = [look, tool_file.server()]
    begun = await Agent(name="a", model=ScriptedModel(["one"]), tools=tools).run("x")
    with pytest.raises(ContextMismatch, match="-look"):
        await Agent(name="a", model=ScriptedModel([])).run("y", context=begun.context)
