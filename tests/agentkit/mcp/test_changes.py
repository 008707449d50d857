"""What becomes of a conversation when the tools of its MCP servers change."""

from __future__ import annotations

import contextlib
import json

import pytest

from agentkit import Agent, CompactionRule, Context, ModelError
from agentkit.blocks import ToolsMessage
from agentkit.context.segment import tool_names
from agentkit.events import ContextCompacted, ServerFailed, ToolsChanged
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from agentkit.toolset import McpConnectError, McpServer, ToolPolicy
from tests.agentkit.tool_results import result_texts

pytestmark = pytest.mark.usefixtures("quick")


def added(context: Context) -> list[tuple[str, ...]]:
    return [message.names for message in context.messages if isinstance(message, ToolsMessage)]


async def events_of(agent, prompt, **options):
    async with agent.stream(prompt, **options) as stream:
        events = [event async for event in stream]
    return stream.result, [e for e in events if isinstance(e, ToolsChanged | ServerFailed)]


def changing(tool_file, *steps, takes_tools=True, **options):
    """An agent whose script may hold functions: they change the file and then say a step."""
    model = ScriptedModel(list(steps), takes_tools=takes_tools)
    return Agent(model=model, tools=[tool_file.server(**options)]), model


def then(change, step):
    def respond(request):
        change()
        return step

    return respond


async def test_an_added_tool_comes_behind_what_was_sent_and_is_called(tool_file):
    """M14: each tool that was discovered rewrote the system prompt."""
    agent, model = changing(
        tool_file,
        then(
            lambda: tool_file.set("announce", "crash", "echo", "alpha"),
            Call("s__announce", {"text": "x"}),
        ),
        Call("s__alpha", {"text": "hello"}),
        "done",
    )
    result, events = await events_of(agent, "x")

    assert json.loads(result_texts(result)[1]) == {"name": "alpha", "arguments": {"text": "hello"}}
    assert [message.kind for message in result.messages][:5] == [
        "user", "assistant", "tool", "tools", "assistant",
    ]  # fmt: skip
    (event,) = events
    assert (event.added, event.removed, event.changed) == (("s__alpha",), (), ())
    assert event.is_shown
    assert event.tokens > 0
    assert event.turn == 1
    assert_prefix_stable(model.calls)
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert [spec.name for spec in model.calls[1].request.later_tools] == ["s__alpha"]


async def test_a_tool_that_was_not_shown_cannot_be_called(tool_file):
    """A model that takes no tools in between gets them with the next epoch."""
    agent, model = changing(
        tool_file,
        then(
            lambda: tool_file.set("announce", "crash", "echo", "alpha"),
            Call("s__announce", {"text": "x"}),
        ),
        Call("s__alpha", {"text": "hello"}),
        "done",
        takes_tools=False,
    )
    result, (event,) = await events_of(agent, "x")

    assert "There is no tool named 's__alpha'" in result_texts(result)[1]
    assert event.added == ("s__alpha",)
    assert not event.is_shown
    assert not added(result.context)
    assert_prefix_stable(model.calls)


async def test_new_conversations_of_an_open_agent_begin_with_the_tools_of_now(tool_file):
    agent, model = changing(tool_file, Call("s__announce", {"text": "x"}), "done", "again", "new")
    async with agent:
        old, _ = await events_of(agent, "x")
        tool_file.set("announce", "crash", "echo", "alpha")
        model_calls = len(model.calls)
        # Nobody has said that it has changed: it is asked with the next announcement only.
        going_on, events = await events_of(agent, "y", context=old.context)
        assert events == []
        assert model_calls == 2
        new = await agent.run("z")

    assert going_on.context.starts_with(old.context)
    assert "s__alpha" not in tool_names(next(s for s in new.context if s.tier == "tools"))


async def test_after_an_announcement_new_conversations_have_it_in_front_and_old_ones_behind(
    tool_file,
):
    agent, model = changing(tool_file, Call("s__echo", {"text": "x"}), "done", "old", "new")
    async with agent:
        old = await agent.run("x")
        tool_file.set("announce", "crash", "echo", "alpha")
        connection = next(agent._session.team.root.served.of({"s"}))
        await connection.call("announce", {})
        going_on, events = await events_of(agent, "y", context=old.context)
        new, no_events = await events_of(agent, "z")

    assert added(going_on.context) == [("s__alpha",)]
    assert [event.is_shown for event in events] == [True]
    assert no_events == []
    assert added(new.context) == []
    assert "s__alpha" in model.calls[-1].request.toolset.names
    assert_prefix_stable(model.calls[:3])


async def test_a_removed_tool_stays_in_the_list_and_its_calls_say_so(tool_file):
    agent, model = changing(
        tool_file,
        then(lambda: tool_file.set("announce", "crash"), Call("s__announce", {"text": "x"})),
        Call("s__echo", {"text": "hello"}),
        "done",
    )
    result, (event,) = await events_of(agent, "x")

    assert "no longer offers 's__echo'" in result_texts(result)[1]
    assert event.removed == ("s__echo",)
    assert len({call.request.toolset.bytes for call in model.calls}) == 1
    assert_prefix_stable(model.calls)


async def test_a_tool_that_is_back_is_called_again_after_one_answer_that_says_so(tool_file):
    """Who may call a tool is asked before the call, so it must be known by then."""
    agent, _ = changing(
        tool_file,
        then(lambda: tool_file.set("announce"), Call("s__announce", {"text": "x"})),
        then(lambda: tool_file.set("announce", "echo"), Call("s__echo", {"text": "1"})),
        Call("s__echo", {"text": "2"}),
        "done",
    )
    result, _ = await events_of(agent, "x")
    _, first, second = result_texts(result)
    assert "offers 's__echo' again" in first
    assert json.loads(second)["arguments"] == {"text": "2"}


async def test_a_changed_tool_keeps_its_bytes_is_called_and_tells_how_it_is_now(tool_file):
    agent, model = changing(
        tool_file,
        then(
            lambda: tool_file.set("announce", "crash", echo='Echoes, but only "must".'),
            Call("s__announce", {"text": "x"}),
        ),
        [Call("s__echo", {"text": "fine"}), Call("s__echo", {"must": "be refused"})],
        "done",
    )
    result, (event,) = await events_of(agent, "x")

    _, fine, refused = result_texts(result)
    assert json.loads(fine)["arguments"] == {"text": "fine"}
    assert "has changed this tool" in refused
    assert 'only \\"must\\"' in refused
    assert event.changed == ("s__echo",)
    assert "+Echoes, but only" in event.details
    assert "-Does echo." in event.details
    assert_prefix_stable(model.calls)


async def test_a_burst_of_announcements_behind_the_start_moves_nothing(tool_file):
    """`server-everything` announces five changes that are none."""
    tool_file.write(noise=5)
    agent, model = changing(tool_file, Call("s__announce", {"text": "x"}), "done")
    result, events = await events_of(agent, "x")
    assert events == []
    assert added(result.context) == []
    assert_prefix_stable(model.calls)


async def test_order_of_tools_and_keys_is_at_random_and_bytes_are_not(tool_file):
    """M10, M11, M13, M17: connect order, completion order and key order moved the tools."""
    tool_file.set("b", "a", "Z", "ä", "a.b", "a_b", "é")
    seen = set()
    for turn in range(4):
        second = McpServer(alias="t", command=tool_file.server().command, protocol="legacy")
        servers = [tool_file.server(), second]
        model = ScriptedModel(["done"])
        agent = Agent(model=model, tools=servers if turn % 2 else servers[::-1])
        await agent.run("x")
        seen.add(model.calls[0].request.toolset.bytes)
        names = model.calls[0].request.toolset.names
        assert list(names) == sorted(names)
    assert len(seen) == 1


async def test_a_churning_server_does_not_move_the_functions_of_the_agent(tool_file):
    """M16: a mark behind the last tool only let a server's churn void the built-in ones, too."""

    def builtin(text: str) -> str:
        """Do what is always there."""
        return text

    model = ScriptedModel(
        [
            then(lambda: tool_file.set("announce", "new"), Call("s__announce", {"text": "x"})),
            Call("builtin", {"text": "still here"}),
            "done",
        ],
        takes_tools=True,
    )
    result = await Agent(model=model, tools=[builtin, tool_file.server()]).run("x")
    assert result_texts(result)[1] == "still here"
    assert_prefix_stable(model.calls)


async def test_a_list_is_asked_for_again_after_an_announcement_and_after_a_restart(tool_file):
    """M19: a list that was cached once made dynamic servers useless."""
    agent, model = changing(
        tool_file,
        then(lambda: tool_file.set("announce", "crash", "one"), Call("s__crash", {"text": "x"})),
        Call("s__echo", {"text": "starts it again"}),
        then(
            lambda: tool_file.set("announce", "crash", "one", "two"),
            Call("s__announce", {"text": "x"}),
        ),
        "done",
    )
    result, events = await events_of(agent, "x")
    assert [(event.added, event.removed) for event in events] == [
        (("s__one",), ("s__echo",)),
        (("s__two",), ("s__echo",)),
    ]
    assert added(result.context) == [("s__one",), ("s__two",)]
    assert_prefix_stable(model.calls)


async def test_a_change_that_is_announced_just_behind_the_result_is_seen_in_the_next_turn(
    tool_file, monkeypatch
):
    """M20: the notification came after the tool's answer, and the refresh missed it."""
    from agentkit.toolset.mcp.lists import relisting

    monkeypatch.setattr(relisting, "_GRACE_S", 5.0)
    tool_file.set("later", "echo")
    agent, _ = changing(
        tool_file,
        then(lambda: tool_file.set("later", "echo", "new"), Call("s__later", {"text": "x"})),
        then(
            lambda: monkeypatch.setattr(relisting, "_GRACE_S", 0.0), Call("s__new", {"text": "x"})
        ),
        "done",
    )
    result, _ = await events_of(agent, "x")
    assert added(result.context) == [("s__new",)]
    assert json.loads(result_texts(result)[1])["name"] == "new"


async def test_all_pages_of_a_list_are_followed_at_each_listing(tool_file):
    """M23: only the first page was used."""
    tool_file.write(page=2)
    agent, _ = changing(
        tool_file,
        then(
            lambda: tool_file.set("announce", "crash", "echo", "a", "b", "c", "d"),
            Call("s__announce", {"text": "x"}),
        ),
        "done",
    )
    result, (event,) = await events_of(agent, "x")
    assert event.added == ("s__a", "s__b", "s__c", "s__d")
    assert added(result.context) == [event.added]


async def test_a_pinned_server_is_reported_and_moves_nothing_at_all(tool_file):
    agent, model = changing(
        tool_file,
        then(lambda: tool_file.set("announce", "echo", "new"), Call("s__announce", {"text": "x"})),
        "done",
        "new",
        on_change="pin",
    )
    async with agent:
        result, (event,) = await events_of(agent, "x")
        await agent.run("y")
    assert (event.added, event.removed, event.is_shown) == (("s__new",), ("s__crash",), False)
    assert added(result.context) == []
    assert len({call.request.toolset.bytes for call in model.calls}) == 1


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_answer_without_a_list_takes_no_tool_away(tool_file, restarts):
    async with tool_file.server().connect() as connection:
        shown = [tool.spec.bytes for tool in connection.tools]
        tool_file.write(no_list=True)
        if restarts:
            assert (await connection.call("crash", {"text": "x"})).is_error
        else:
            await connection.call("announce", {"text": "x"})
            await connection.recheck()
        (echo,) = [tool for tool in connection.tools if tool.original_name == "echo"]
        assert not (await connection.call("echo", {"text": "x"})).is_error
        assert await connection.problem_with(echo.name) is None
        assert [tool.spec.bytes for tool in connection.tools] == shown
        assert "answered tools/list without a list; the list before holds" in connection.warnings

        tool_file.settings["no_list"] = False
        tool_file.set("announce", "new")
        await connection.call("announce", {"text": "x"})
        await connection.recheck()
        assert [tool.original_name for tool in connection.tools] == ["announce", "new"]


@pytest.mark.parametrize("is_open", [True, False])
async def test_each_conversation_is_told_once_of_each_list(tool_file, is_open):
    agent, _ = changing(tool_file, *["said"] * 8, on_change="pin")

    async def told(**options):
        result, events = await events_of(agent, "x", **options)
        return result.context, [event.added for event in events]

    async with agent if is_open else contextlib.nullcontext():
        first, events = await told()
        assert events == []
        if is_open:
            connection = agent.mcp_connection("s")
            tool_file.set("announce", "crash", "echo", "one")
            await connection.call("announce", {"text": "x"})
        tool_file.set("announce", "crash", "echo", "one")
        second, events = await told(context=first)
        assert events == [("s__one",)]
        third, events = await told(context=second)
        assert events == []
        if is_open:
            # As it was before it was told.
            assert (await told(context=first))[1] == [("s__one",)]
            tool_file.set("announce", "crash", "echo", "one", "two")
            await connection.call("announce", {"text": "x"})
        tool_file.set("announce", "crash", "echo", "one", "two")
        fourth, events = await told(context=third)
        assert events == [("s__one", "s__two")]
        assert (await told(context=fourth))[1] == []


async def test_a_conversation_of_before_goes_on_with_the_tools_that_it_was_shown(tool_file):
    """C55: tools were rebuilt from the live registry at a cold resume, and all computed anew."""
    agent, model = changing(tool_file, Call("s__echo", {"text": "1"}), "done")
    first = await agent.run("x")
    saved = Context.load(first.context.dump())

    tool_file.set("zeta", "announce", "alpha", echo="Now something else.")
    later, model_2 = changing(
        tool_file, Call("s__echo", {"text": "2"}), Call("s__crash", {"text": "3"}), "done"
    )
    second, (event,) = await events_of(later, "y", context=saved)

    assert_prefix_stable([*model.calls, *model_2.calls])
    assert len({call.request.toolset.bytes for call in (*model.calls, *model_2.calls)}) == 1
    assert event.added == ("s__alpha", "s__zeta")
    assert event.removed == ("s__crash",)
    assert event.changed == ("s__echo",)
    assert json.loads(result_texts(second)[0])["arguments"] == {"text": "2"}
    assert "no longer offers" in result_texts(second)[1]

    # A second resume finds what came later where it was, and has it once.
    third_agent, model_3 = changing(tool_file, Call("s__zeta", {"text": "4"}), "done")
    third, (event,) = await events_of(third_agent, "z", context=second.context)
    assert event.added == ()
    assert added(third.context) == [("s__alpha", "s__zeta")]
    assert json.loads(result_texts(third)[0])["name"] == "zeta"
    assert_prefix_stable([*model_2.calls, *model_3.calls])


async def test_what_came_later_may_be_called_where_only_the_conversation_knows_it(tool_file):
    """A server that is gone from the agent: its later tools stay in the text and answer so."""
    agent, model = changing(
        tool_file,
        then(lambda: tool_file.set("announce", "new"), Call("s__announce", {"text": "x"})),
        "done",
    )
    first = await agent.run("x")
    tool_file.set("announce")
    again, model_2 = changing(tool_file, Call("s__new", {"text": "x"}), "done")
    second, (event,) = await events_of(again, "y", context=first.context)
    assert event.removed == ("s__crash", "s__echo", "s__new")
    assert "no longer offers" in result_texts(second)[0]
    assert_prefix_stable([*model.calls, *model_2.calls])


async def test_a_summary_begins_an_epoch_with_the_tools_of_now_in_front(tool_file):
    filler = "word " * 2_000
    model = ScriptedModel(
        [
            then(
                lambda: tool_file.set("announce", "alpha"),
                Call("s__announce", {"text": filler}),
            ),
            "the summary",
            Call("s__alpha", {"text": "x"}),
            "done",
        ],
    )
    rule = CompactionRule(trigger_tokens=1_500, limit_tokens=1_500, keep_turns=0)
    agent = Agent(model=model, tools=[tool_file.server()], compaction=rule)
    async with agent.stream("x") as stream:
        events = [event async for event in stream]
    kinds = [type(e) for e in events if isinstance(e, ContextCompacted | ToolsChanged)]
    assert kinds[-1] is ContextCompacted or ContextCompacted in kinds
    assert "s__alpha" in model.calls[-1].request.toolset.names
    assert "s__echo" not in model.calls[-1].request.toolset.names
    assert json.loads(result_texts(stream.result)[-1])["name"] == "alpha"


async def test_behind_tools_that_nobody_has_answered_to_none_are_added(tool_file):
    """Tools come behind what a user or a tool says: providers take them at no other place."""

    def fail(request):
        tool_file.set("announce", "crash", "echo", "alpha", "beta")
        return ModelError("busy")

    agent, model = changing(
        tool_file,
        then(
            lambda: tool_file.set("announce", "crash", "echo", "alpha"),
            Call("s__announce", {"text": "x"}),
        ),
        fail,
        Call("s__announce", {"text": "x"}),
        "done",
    )
    async with agent:
        with pytest.raises(ModelError) as failed:
            await agent.run("x")
        stopped = failed.value.partial.context
        assert isinstance(stopped.messages[-1], ToolsMessage)
        (connection,) = agent._session.team.root.served.of({"s"})
        await connection.call("announce", {})
        result = await agent.run(None, context=stopped)
    assert added(result.context) == [("s__alpha",), ("s__beta",)]
    kinds = [message.kind for message in result.context.messages]
    assert kinds == [
        "user",
        "assistant",
        "tool",
        "tools",
        "assistant",
        "tool",
        "tools",
        "assistant",
    ]
    assert_prefix_stable(model.calls)


async def test_a_policy_holds_for_a_tool_that_is_not_listed_now(tool_file):
    """A call must not run without the approval that is meant for it, whenever its tool is back."""
    policy = ToolPolicy(requires_approval=True)
    server = tool_file.server(policies={"echo": policy})
    async with server.connect() as connection:
        echo = next(tool for tool in connection.tools if tool.original_name == "echo")
        tool_file.set("announce")
        await connection.call("announce", {})
        await connection.recheck()
        assert connection.offered.get("s__echo") is None
        assert echo.policy == policy
        assert echo.original_name == "echo"


async def test_a_server_that_is_not_required_is_reported_and_the_run_goes_on(tool_file):
    broken = McpServer(alias="broken", command=["false"], required=False)
    model = ScriptedModel([Call("s__echo", {"text": "x"}), "done"])
    result, events = await events_of(Agent(model=model, tools=[broken, tool_file.server()]), "x")
    assert [(event.kind, event.server) for event in events] == [("server_failed", "broken")]
    assert "exit code 1" in events[0].problem
    assert json.loads(result_texts(result)[0])["name"] == "echo"


async def test_a_server_that_is_required_ends_the_run_at_once_by_name(tool_file):
    slow = McpServer(alias="slow", command=["sleep", "60"], connect_timeout_s=60)
    broken = McpServer(alias="broken", command=["sh", "-c", "echo no key >&2; exit 3"])
    agent = Agent(model=ScriptedModel([]), tools=[slow, broken])
    with pytest.raises(McpConnectError, match=r"'broken' ended with exit code 3.*no key"):
        await agent.run("x")


async def test_a_server_that_comes_up_later_is_tried_again_while_nobody_waits(tool_file, tmp_path):
    switch = tmp_path / "is_there"
    script = f'[ -e {switch} ] || exit 1; exec "$@"'
    command = ["sh", "-c", script, "sh", *tool_file.server().command]
    server = McpServer(alias="s", command=command, protocol="legacy", required=False)
    steps = ["without", "still without", Call("s__echo", {"text": "x"}), "done"]
    model = ScriptedModel(steps, takes_tools=True)
    async with Agent(model=model, tools=[server]) as agent:
        first, (failed,) = await events_of(agent, "x")
        assert failed.kind == "server_failed"
        (connection,) = agent._session.team.root.served.of({"s"})
        switch.write_text("")
        connection.starter.backoff.reset()
        second, (failed,) = await events_of(agent, "y", context=first.context)
        assert failed.kind == "server_failed"  # it is tried beside this run
        await connection._retry
        third, (changed,) = await events_of(agent, "z", context=second.context)
    assert changed.added == ("s__announce", "s__crash", "s__echo")
    assert json.loads(result_texts(third)[0])["name"] == "echo"
    assert_prefix_stable(model.calls)


async def test_an_added_tool_takes_nobodys_name(tool_file):
    """M4: a tool took the place of another by its name alone, and its approval with it."""

    def s__alpha(text: str) -> str:
        """Ours."""
        return "ours"

    model = ScriptedModel(
        [
            then(lambda: tool_file.set("announce", "alpha"), Call("s__announce", {"text": "x"})),
            Call("s__alpha", {"text": "x"}),
            "done",
        ],
        takes_tools=True,
    )
    async with Agent(model=model, tools=[s__alpha, tool_file.server()]) as agent:
        result, (event,) = await events_of(agent, "x")
        assert "s__alpha" in agent._session.team.toolset.names
    assert event.added == ()
    assert result_texts(result)[1] == "ours"
    assert added(result.context) == []
