"""Tools that are found: odd calls, masks, handoffs, and agents that have changed since."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from agentkit import Agent, tool
from agentkit.finding import CALL_FOUND_TOOL, FIND_TOOLS, MOST_LATER
from agentkit.models import ToolName
from agentkit.testing import Call, ScriptedModel, assert_prefix_stable
from tests.agentkit.mcp.test_finding import archive, call_found, find, keep, lend, shown
from tests.agentkit.tool_results import result_texts

pytestmark = pytest.mark.usefixtures("quick")


@tool(defer_loading=True)
def wipe(box: str = "all") -> str:
    """Wipe a box."""
    return f"wiped {box}"


@tool(name="archive")
def shown_archive(box: str) -> str:
    """Put a box into the archive."""
    return f"archived {box}"


async def answers(
    *steps: Any, takes_tools: bool, kind: type[Agent[None, str]] = Agent
) -> tuple[list[str], ScriptedModel]:
    model = ScriptedModel([*steps, "done"], takes_tools=takes_tools)
    result = await kind(model=model, tools=[archive, wipe, lend]).run("x")
    assert_prefix_stable(model.calls)
    return result_texts(result), model


async def test_values_under_another_key_are_refused_and_no_tool_runs_without_them():
    texts, _ = await answers(
        Call(CALL_FOUND_TOOL, {"name": "wipe", "arguments": {"box": "1"}}),
        Call(CALL_FOUND_TOOL, {"name": "wipe", "parameters": {}, "box": "1"}),
        Call(CALL_FOUND_TOOL, {"name": "wipe", "parameters": {"box": "1"}}),
        takes_tools=False,
    )
    assert [text.startswith("wiped") for text in texts] == [False, False, True]
    assert "arguments: is not an argument" in texts[0]


@pytest.mark.parametrize("value", ["1e999", '{"a":' * 400 + "1" + "}" * 400])
async def test_values_without_a_canonical_form_are_an_answer_and_no_end_of_the_run(value):
    wrapped = f'{{"name": "wipe", "parameters": {{"box": {value}}}}}'
    (text,), _ = await answers(Call(CALL_FOUND_TOOL, wrapped), takes_tools=False)
    assert "not a JSON number" in text or "do not fit" in text


async def test_a_mask_with_the_search_holds_for_what_it_has_found():
    class Searching(Agent[None, str]):
        """You search."""

        def allowed_tools(self, turn):
            return frozenset({FIND_TOOLS})

    texts, model = await answers(
        find("archive"), Call("archive", {"box": "1"}), Call("lend", {"box": "1"}),
        takes_tools=True, kind=Searching,
    )  # fmt: skip
    assert texts[1] == "archived 1"
    assert "may not be called now" in texts[2]
    masks = [call.request.allowed_tools for call in model.calls]
    assert masks[:2] == [{FIND_TOOLS}, {FIND_TOOLS, "archive"}]


async def test_who_must_call_what_was_found_can():
    class Forced(Agent[None, str]):
        """You call what you have found."""

        def tool_choice(self, turn):
            return ToolName(CALL_FOUND_TOOL) if turn == 1 else "auto"

    steps = (find("archive"), call_found("archive", box="1"))
    texts, _ = await answers(*steps, takes_tools=False, kind=Forced)
    assert texts[1] == "archived 1"


async def test_a_handoff_is_no_found_tool():
    other = Agent(name="other", instructions="You lend.", tools=[lend])
    steps = {
        "agent": [call_found("handoff_to_other"), Call("handoff_to_other", {}), "mine"],
        "other": ["theirs"],
    }
    agent = Agent(model=ScriptedModel(steps), tools=[archive], handoffs=[other])
    result = await agent.run("x")
    assert result.output == "theirs"
    assert "Call 'handoff_to_other' by itself" in result_texts(result)[0]


async def test_who_takes_over_may_not_call_what_the_other_has_found_and_is_not_told_it_is_gone():
    other = Agent(name="other", instructions="You lend.", tools=[lend])
    steps = {
        "agent": [find("archive"), Call("handoff_to_other", {})],
        "other": [Call("archive", {"box": "1"}), "theirs"],
    }
    model = ScriptedModel(steps, takes_tools=True)
    result = await Agent(model=model, tools=[archive], handoffs=[other]).run("x")
    assert "may not be called now" in result_texts(result)[2]
    assert "archive" not in model.calls[-1].request.allowed_tools
    assert_prefix_stable(model.calls)


async def test_searches_at_once_give_no_more_than_a_conversation_takes():
    made = [_numbered(each) for each in range(MOST_LATER + 10)]
    names = [each.spec.name for each in made]
    batches = [find(" ".join(names[first : first + 5])) for first in range(0, MOST_LATER + 5, 5)]
    model = ScriptedModel([batches, "done"], takes_tools=True)
    result = await Agent(model=model, tools=made).run("x")
    assert len(shown(result.context)) == MOST_LATER


def _numbered(number: int) -> Any:
    @tool(name=f"tool{number}", defer_loading=True)
    def act() -> str:
        """Do it."""
        return "done"

    return act


async def test_an_answer_names_all_that_is_shown_also_where_results_are_short():
    made = [_wordy(name) for name in ("draw", "paint", "sketch", "trace", "x" * 64)]
    model = ScriptedModel([find("pictures"), "done"], takes_tools=True)
    result = await Agent(model=model, tools=made, max_result_chars=500).run("x")
    (text,) = result_texts(result)
    assert len(text) <= 500
    assert set(shown(result.context)) == {each.spec.name for each in made}
    assert all(f". {each.spec.name}: " in text for each in made)


def _wordy(name: str) -> Any:
    @tool(name=name, description="Pictures. " * 200, defer_loading=True)
    def act() -> str:
        return "done"

    return act


@pytest.mark.parametrize(
    ("before", "now"),
    [([shown_archive, lend], [archive, lend]), ([archive, keep], [shown_archive, keep])],
)
async def test_a_conversation_keeps_a_function_that_is_deferred_since_or_no_more(before, now):
    model = ScriptedModel([find("archive") if archive in before else "x", "y"], takes_tools=True)
    first = await Agent(model=model, tools=before).run("x")
    again = ScriptedModel([Call("archive", {"box": "7"}), "done"], takes_tools=True)
    with pytest.warns(match="goes on with the tools") if archive in now else nullcontext():
        result = await Agent(model=again, tools=now).run("y", context=first.context)
    assert result_texts(result) == ["archived 7"]
    assert result.context.starts_with(first.context)


@pytest.mark.parametrize("takes_tools", [True, False])
async def test_what_another_of_the_team_shows_in_front_may_be_called_by_who_defers_it(takes_tools):
    @tool(name="archive")
    def of_child(box: str) -> str:
        """Put a box into the archive."""
        return f"the child archived {box}"

    call = Call("archive", {"box": "1"}) if takes_tools else call_found("archive", box="1")
    steps = [find("archive"), call, "done"]
    model = ScriptedModel(steps, takes_tools=takes_tools)
    child = Agent(name="child", instructions="You archive.", tools=[of_child])
    result = await Agent(model=model, tools=[archive], subagents=[child]).run("x")
    assert result_texts(result)[1] == "archived 1"
    assert shown(result.context) == []


async def test_a_conversation_goes_on_with_a_model_that_takes_tools_and_with_one_that_does_not():
    first = ScriptedModel([find("archive"), "found"], takes_tools=False)
    result = await Agent(model=first, tools=[archive, lend]).run("x")
    second = ScriptedModel([find("archive"), Call("archive", {"box": "1"}), "y"], takes_tools=True)
    later = await Agent(model=second, tools=[archive, lend]).run("y", context=result.context)
    assert result_texts(later)[-1] == "archived 1"
    assert later.context.starts_with(result.context)
    assert CALL_FOUND_TOOL not in second.calls[0].request.allowed_tools


async def test_who_has_no_call_found_tool_in_front_is_told_to_call_by_name():
    first = ScriptedModel([find("archive"), "found"], takes_tools=True)
    result = await Agent(model=first, tools=[archive, wipe]).run("x")
    second = ScriptedModel([find("wipe"), Call("wipe", {"box": "1"}), "y"], takes_tools=False)
    with pytest.warns(match="without \\['call_found_tool'\\]"):
        later = await Agent(model=second, tools=[archive, wipe]).run("y", context=result.context)
    assert "Call one by its name, with parameters" in result_texts(later)[0]
    assert result_texts(later)[1] == "wiped 1"


async def test_a_conversation_outlives_that_nothing_is_deferred_any_more():
    first = ScriptedModel([find("archive"), "found"], takes_tools=True)
    result = await Agent(model=first, tools=[archive]).run("x")
    second = ScriptedModel([Call("archive", {"box": "1"}), "y"], takes_tools=True)
    later = await Agent(model=second, tools=[shown_archive]).run("y", context=result.context)
    assert result_texts(later) == ["archived 1"]
    assert second.calls[0].request.allowed_tools == {"archive"}
