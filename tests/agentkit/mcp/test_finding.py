"""Servers with many tools: they are found, shown and called without moving what was sent."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp.server import MCPServer

from agentkit import Agent, ApprovalRequired, CompactionRule, Context, McpServer, tool
from agentkit.blocks import ToolsMessage
from agentkit.errors import ConfigurationError
from agentkit.fake import Ask, Reply
from agentkit.fake import Call as FakeCall
from agentkit.finding import CALL_FOUND_TOOL, FIND_TOOLS
from agentkit.saved import Approve, PausedRun
from agentkit.store import open_journal
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset import ToolPolicy
from tests.agentkit.hosted_world import PROVIDERS, HostedWorld, hit
from tests.agentkit.tool_results import result_texts, tool_results

pytestmark = pytest.mark.usefixtures("quick")

NOUNS = ("issue", "invoice", "ticket", "calendar", "contact", "branch", "release", "webhook")
VERBS = ("create", "delete", "list", "update")


def tracker(calls: list[str], prefix: str = "") -> MCPServer:
    server = MCPServer("tracker")
    for verb in VERBS:
        for noun in NOUNS:
            server.add_tool(*_made(calls, verb, prefix + noun))
    return server


def _made(calls: list[str], verb: str, noun: str) -> tuple[Callable[..., str], str, None, str]:
    def act(title: str) -> str:
        calls.append(f"{verb} {noun}: {title}")
        return f"{verb}d {noun} {title}"

    return act, f"{verb}_{noun}", None, f"{verb.capitalize()} one {noun} of a project."


class World:
    """An agent whose server has 32 tools to be found."""

    def __init__(self, *steps: Any, takes_tools: bool = True, **options: Any) -> None:
        self.calls: list[str] = []
        self.model = ScriptedModel(list(steps), takes_tools=takes_tools)
        self.server = McpServer(
            alias="big",
            server=tracker(self.calls),
            defer_loading=True,
            policies=options.pop("policies", {}),
        )
        self.options = options

    def agent(self, **more: Any) -> Agent[None, str]:
        return Agent(model=self.model, tools=[self.server], **{**self.options, **more})


def shown(context: Context) -> list[str]:
    messages = (each for each in context.messages if isinstance(each, ToolsMessage))
    return [name for message in messages for name in message.names]


def find(query: str) -> Call:
    return Call(FIND_TOOLS, {"query": query})


def call_found(name: str, **arguments: object) -> Call:
    return Call(CALL_FOUND_TOOL, {"name": name, "parameters": arguments})


async def test_found_tools_come_behind_what_was_sent_and_are_called():
    world = World(find("create an issue"), Call("big__create_issue", {"title": "a"}), "done")
    result = await world.agent().run("x")

    assert world.calls == ["create issue: a"]
    assert world.model.calls[0].request.toolset.names == (FIND_TOOLS,)
    assert "big__create_issue" in shown(result.context)
    assert "1. big__create_issue: Create one issue of a project." in result_texts(result)[0]
    assert_prefix_stable(world.model.calls)


async def test_a_model_that_takes_no_tools_in_between_reads_them_and_calls_them_by_another():
    world = World(
        find("create an issue"), call_found("big__create_issue", title="a"), "done",
        takes_tools=False,
    )  # fmt: skip
    result = await world.agent().run("x")

    assert world.calls == ["create issue: a"]
    assert world.model.calls[0].request.toolset.names == (CALL_FOUND_TOOL, FIND_TOOLS)
    found, called = tool_results(result)
    assert '"title": {"type": "string"}' in found.content
    assert (called.name, called.content) == (CALL_FOUND_TOOL, "created issue a")
    assert not shown(result.context)
    assert_prefix_stable(world.model.calls)


@pytest.mark.parametrize("takes_tools", [True, False])
async def test_what_was_not_found_yet_may_be_called_by_its_name(takes_tools):
    """After a summary, say, which names it."""
    step = Call("big__delete_branch", {"title": "old"})
    world = World(step, "done", takes_tools=takes_tools)
    await world.agent().run("x")
    assert world.calls == ["delete branch: old"]


@pytest.mark.parametrize("wrapped", [True, False])
async def test_approval_is_asked_for_the_tool_that_is_meant(wrapped, tmp_path):
    call = (
        call_found("big__delete_branch", title="old")
        if wrapped
        else Call("big__delete_branch", {"title": "old"})
    )
    world = World(
        find("delete branch"),
        call,
        "done",
        takes_tools=not wrapped,
        policies={"delete_branch": ToolPolicy(requires_approval=True)},
    )
    with open_journal(tmp_path / "runs.db") as journal:
        agent = world.agent(journal=journal)
        with pytest.raises(ApprovalRequired) as paused:
            await agent.run("x", run_id="r")
        assert world.calls == []
        (pending,) = PausedRun.from_json(paused.value.paused.to_json()).pending
        assert (pending.call.name, json.loads(pending.call.arguments)) == (
            "big__delete_branch",
            {"title": "old"},
        )
        answers = {pending.id: Approve('{"title": "older"}')}
        result = await world.agent(journal=journal).resume("r", answers)
    assert result.output == "done"
    assert world.calls == ["delete branch: older"]
    assert_prefix_stable(world.model.calls)


async def test_hooks_of_the_agent_are_asked_about_the_tool_that_is_meant():
    seen: list[str] = []

    class Careful(Agent[None, str]):
        """You are careful."""

        async def approve(self, call, context):
            seen.append(call.name)
            return Approve()

    world = World(
        call_found("big__delete_branch", title="x"), "done",
        takes_tools=False, policies={"*": ToolPolicy(requires_approval=True)},
    )  # fmt: skip
    await Careful(model=world.model, tools=[world.server]).run("x")
    assert seen == ["big__delete_branch"]


async def test_a_tool_that_does_not_exist_is_an_answer():
    world = World(
        call_found("big__fly", title="x"),
        Call(CALL_FOUND_TOOL, {"parameters": {}}),
        Call(CALL_FOUND_TOOL, '{"name": "big__create_issue", "parameters": {"title": '),
        Call("big__fly", {}),
        find("zzz qqq"),
        "done",
        takes_tools=False,
    )
    texts = result_texts(await world.agent().run("x"))
    assert "There is no tool 'big__fly' to call. Find one with find_tools first." in texts[0]
    assert "name" in texts[1]
    assert "no valid JSON" in texts[2]
    assert "There is no tool named 'big__fly'" in texts[3]
    assert "No tool has any of these words. There are 32: big__create_branch, " in texts[4]
    assert world.calls == []


async def test_the_mask_of_a_turn_holds_for_tools_that_could_be_found():
    class Shy(Agent[None, str]):
        """You may look, and then do nothing."""

        def allowed_tools(self, turn):
            return frozenset({FIND_TOOLS}) if turn == 0 else frozenset()

    world = World(
        find("create issue"), call_found("big__create_issue", title="x"), "done", takes_tools=False
    )
    result = await Shy(model=world.model, tools=[world.server]).run("x")
    assert world.calls == []
    assert tool_results(result)[1].is_error


async def test_an_agent_finds_only_what_its_own_servers_offer():
    calls: list[str] = []
    other = McpServer(alias="other", server=tracker(calls, "secret_"), defer_loading=True)
    world = World(find("create secret issue"), Call("other__create_secret_issue", {}), "done")
    child = Agent(name="child", instructions="You keep secrets.", tools=[other])
    result = await world.agent(subagents=[child]).run("x")
    found, called = result_texts(result)
    assert "secret" not in found
    assert "There is no tool named 'other__create_secret_issue'" in called
    assert calls == []


async def test_a_found_tool_is_given_once_and_a_conversation_goes_on_with_it():
    world = World(
        find("create issue"), find("create issue"), "first",
        Call("big__create_issue", {"title": "later"}), "second",
    )  # fmt: skip
    first = await world.agent().run("x")
    names = shown(first.context)
    assert len(names) == len(set(names)) > 0
    saved = Context.load(first.context.dump())
    await world.agent().run("y", context=saved)
    assert world.calls == ["create issue: later"]
    assert_prefix_stable(world.model.calls)


async def test_a_run_that_lost_its_process_behind_a_search_is_shown_what_was_found(tmp_path):
    def dies(request):
        raise KeyboardInterrupt

    world = World(find("create issue"), dies)
    with open_journal(tmp_path / "runs.db") as journal:
        with pytest.raises(KeyboardInterrupt):
            await world.agent(journal=journal).run("x", run_id="r")
        again = World(Call("big__create_issue", {"title": "a"}), "done")
        result = await again.agent(journal=journal).resume("r")
    assert again.calls == ["create issue: a"]
    assert "big__create_issue" in shown(result.context)


async def test_behind_a_summary_tools_are_found_anew_and_the_front_is_the_same():
    world = World(
        find("create issue"),
        Call("big__create_issue", {"title": "word " * 2_000}),
        "The summary.",
        Call("big__create_issue", {"title": "by its name"}),
        find("delete branch"),
        "done",
    )
    rule = CompactionRule(trigger_tokens=1_500, limit_tokens=1_500, keep_turns=0)
    result = await world.agent(compaction=rule).run("x")
    assert world.calls[-1] == "create issue: by its name"
    assert "big__delete_branch" in shown(result.context)
    assert "big__create_issue" not in shown(result.context)
    assert len({call.request.toolset.bytes for call in world.model.calls}) == 1


async def test_some_tools_of_a_server_may_be_shown_and_the_rest_found():
    calls: list[str] = []
    policies = {"*": ToolPolicy(defer_loading=True), "list_issue": ToolPolicy()}
    server = McpServer(alias="big", server=tracker(calls), policies=policies)
    model = ScriptedModel(
        [find("create issue"), Call("big__create_issue", {"title": "a"}), "done"], takes_tools=True
    )
    result = await Agent(model=model, tools=[server]).run("x")
    assert model.calls[0].request.toolset.names == ("big__list_issue", FIND_TOOLS)
    assert "big__list_issue" not in shown(result.context)
    assert calls == ["create issue: a"]
    assert_prefix_stable(model.calls)


@tool(defer_loading=True)
def archive(box: str) -> str:
    """Put a box into the archive."""
    return f"archived {box}"


@tool
def lend(box: str) -> str:
    """Lend a box to somebody."""
    return f"lent {box}"


@pytest.mark.parametrize("takes_tools", [True, False])
async def test_functions_are_found_too(takes_tools):
    call = Call("archive", {"box": "7"}) if takes_tools else call_found("archive", box="7")
    model = ScriptedModel([find("archive"), call, "done"], takes_tools=takes_tools)
    result = await Agent(model=model, tools=[archive, lend]).run("x")
    first = (FIND_TOOLS, "lend") if takes_tools else (CALL_FOUND_TOOL, FIND_TOOLS, "lend")
    assert model.calls[0].request.toolset.names == first
    assert result_texts(result)[1] == "archived 7"
    assert shown(result.context) == (["archive"] if takes_tools else [])
    assert_prefix_stable(model.calls)


async def test_a_found_function_that_has_changed_keeps_its_bytes_and_is_called_as_it_is_now():
    model = ScriptedModel([find("archive"), "found"], takes_tools=True)
    found = await Agent(model=model, tools=[archive]).run("x")

    @tool(name="archive", defer_loading=True)
    def newer(box: str, shelf: str = "A") -> str:
        """Put a box on a shelf of the archive."""
        return f"archived {box} on {shelf}"

    again = ScriptedModel([Call("archive", {"box": "7"}), "done"], takes_tools=True)
    result = await Agent(model=again, tools=[newer]).run("y", context=found.context)
    assert result_texts(result) == ["archived 7 on A"]
    assert result.context.starts_with(found.context)


async def test_a_found_function_that_the_agent_has_no_more_answers_that():
    model = ScriptedModel([find("archive"), "found"], takes_tools=True)
    found = await Agent(model=model, tools=[archive, keep]).run("x")
    again = ScriptedModel([Call("archive", {"box": "7"}), "done"], takes_tools=True)
    result = await Agent(model=again, tools=[keep]).run("y", context=found.context)
    assert "There is no tool 'archive' any more" in result_texts(result)[0]


@tool(defer_loading=True)
def keep(box: str) -> str:
    """Keep a box."""
    return f"kept {box}"


async def test_subagents_find_their_own_behind_the_prefix_that_all_share():
    model = ScriptedModel(
        {
            "agent": [Call("delegate_to_child", {"task": "archive box 7"}), "done"],
            "child": [find("archive"), Call("archive", {"box": "7"}), "archived"],
        },
        takes_tools=True,
    )
    child = Agent(name="child", instructions="You archive.", tools=[archive])
    await Agent(name="agent", model=model, tools=[lend], subagents=[child]).run("x")
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    parent = next(call.request for call in model.calls if call.request.agent == "agent")
    assert FIND_TOOLS not in parent.allowed_tools


def test_two_tools_of_one_name_are_refused_also_where_one_is_hidden():
    @tool(name="lend", defer_loading=True)
    def other(box: str) -> str:
        """Do something else."""
        return box

    agent = Agent(model=ScriptedModel([]), tools=[lend, other])
    with pytest.raises(ConfigurationError, match="lend"):
        agent.run_sync("x")


def asks(ask: Ask) -> Reply:
    """What a model does that knows its tools: it finds one, calls it, and ends."""
    given = {"title": "a"}
    if ask.n_turns == 0:
        return Reply(calls=(FakeCall(FIND_TOOLS, json.dumps({"query": "create an issue"})),))
    if ask.n_turns == 1 and CALL_FOUND_TOOL in ask.tools:
        wrapped = {"name": "big__create_issue", "parameters": given}
        return Reply(calls=(FakeCall(CALL_FOUND_TOOL, json.dumps(wrapped)),))
    if ask.n_turns == 1:
        assert "big__create_issue" in ask.tools
        return Reply(calls=(FakeCall("big__create_issue", json.dumps(given)),))
    return Reply(text="done")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_on_every_providers_wire_a_search_moves_no_byte_of_what_was_sent(provider):
    calls: list[str] = []
    world = HostedWorld(asks, provider)
    server = McpServer(alias="big", server=tracker(calls), defer_loading=True)
    agent = Agent(
        name="a", instructions="You keep a tracker. " * 800, model=world.model, tools=[server]
    )
    world.run(lambda: agent.run("x"))

    assert calls == ["create issue: a"]
    assert len(world.sent) >= 3  # and pings, since time flies while a tool is called
    for before, after in itertools.pairwise(world.sent):
        assert after[: len(before)] == before
    if provider != "deepseek":  # which reads some seconds later what was sent
        assert all(hit(each) > 0.9 for each in world.served[1:])
