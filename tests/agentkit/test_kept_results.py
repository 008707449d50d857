"""Results that are too long: what the model sees of them, and how it reads the rest."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit import Agent, ConfigurationError, JournalError, McpServer, tool
from agentkit.errors import ApprovalRequired
from agentkit.hooks import Hooks
from agentkit.journal import Journal, MemoryJournal
from agentkit.kept import READ_RESULT, _with, handle_of, head_and_tail, without_oldest
from agentkit.saved import Approve, Memory, PausedRun
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset.policy import LEAST_RESULT_CHARS
from tests.agentkit.lost_runs import LosingJournal
from tests.agentkit.tool_results import tool_results

LOG = "".join(f"{n:05d} the line with the number {n} of the log\n" for n in range(20_000))
HANDLE = handle_of(LOG)


@tool
def read_log() -> str:
    """Read the log."""
    return LOG


@tool(requires_approval=True)
def restart() -> str:
    """Restart."""
    return "restarted"


@tool(max_result_chars=1_000)
def short() -> str:
    """Read the log in short."""
    return LOG


def read(**arguments: object) -> Call:
    return Call(READ_RESULT, {"handle": HANDLE, **arguments})


def reader(*script: Any, tools: Sequence[Any] = (read_log,), **options: Any) -> Agent:
    return Agent(
        model=ScriptedModel([*script, "done"]),
        instructions="You read.",
        tools=tools,
        **({"name": "reader", "max_result_chars": 4_000} | options),
    )


def test_a_long_result_is_head_and_tail_with_a_handle_and_is_never_longer_than_the_limit() -> None:
    (result,) = tool_results(reader([Call("read_log", {})]).run_sync("x"))
    assert len(result.content) <= 4_000
    assert result.content.startswith("00000 the line")
    assert result.content.endswith("number 19999 of the log\n")
    head, note, _ = re.split(r"(\[\.\.\. .* \.\.\.\]\n)", result.content)
    assert f"of {len(LOG):,} characters (lines " in note
    assert f'read_result(handle="{HANDLE}", offset={len(head)}) goes on from here' in note


def test_pages_and_searches_bring_back_the_rest_byte_by_byte() -> None:
    agent = reader(
        [Call("read_log", {})],
        [read(offset=5_000), read(offset=5_000, limit=100), read(find="NUMBER 777 ", offset=100)],
    )
    _, page, small, places = tool_results(agent.run_sync("x"))
    header, text = page.content.split("\n", 1)
    assert len(page.content) <= 4_000
    assert text == LOG[5_000 : 5_000 + len(text)]
    assert text.endswith("\n")
    expected = f"[characters 5,000 to {5_000 + len(text):,} of {len(LOG):,}, lines "
    assert header.startswith(expected)
    assert header.endswith(f"; go on with offset={5_000 + len(text)}]")
    assert len(small.content.split("\n", 1)[1]) <= 100
    at = LOG.index("number 777 ")
    assert places.content == f"offset {at}, line 778: 00777 the line with the number 777 of the log"


def test_many_places_are_cut_and_say_where_to_go_on() -> None:
    agent = reader([Call("read_log", {})], [read(find="the line")], [read(find="no such text")])
    _, many, none = tool_results(agent.run_sync("x"))
    *places, more = many.content.splitlines()
    assert len(places) == 20
    assert more == f"[there are more; go on with offset={LOG.index('00020') + 6}]"
    assert none.content == "['no such text' is not in the result, from the offset 0 on]"


def test_the_last_page_says_that_it_is_the_end() -> None:
    agent = reader([Call("read_log", {})], [read(offset=len(LOG) - 10)])
    assert (
        tool_results(agent.run_sync("x"))[1].content.split("\n")[0].endswith("; this is the end]")
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"handle": "r_0"}, f"There is no kept result 'r_0'. Kept are: {HANDLE}."),
        ({"handle": HANDLE, "offset": len(LOG)}, "Give an offset from 0 to"),
        ({"handle": HANDLE, "offset": -1}, "Give an offset from 0 to"),
        ({"handle": HANDLE, "limit": 0}, "a limit of at least 1"),
        ({"handle": HANDLE, "page": 1}, "page: is not an argument"),
    ],
)
def test_wrong_questions_are_answered_with_what_to_ask(
    arguments: dict[str, object], words: str
) -> None:
    agent = reader([Call("read_log", {})], [Call(READ_RESULT, arguments)])
    answer = tool_results(agent.run_sync("x"))[1]
    assert answer.is_error
    assert words in answer.content


def test_a_short_result_stays_as_it_is_and_nothing_is_kept() -> None:
    @tool
    def exact() -> str:
        """Exact."""
        return "x" * 4_000

    agent = reader([Call("exact", {})], tools=[exact])
    result = agent.run_sync("x")
    assert tool_results(result)[0].content == "x" * 4_000
    memory = agent.memory_of(result.context)
    assert memory is not None
    assert memory.kept == {}


def test_without_a_setting_there_is_no_tool_and_a_huge_result_is_cut_with_advice() -> None:
    model = ScriptedModel([[Call("read_log", {})], "done"])
    agent = Agent(model=model, instructions="You read.", tools=[read_log])
    (result,) = tool_results(agent.run_sync("x"))
    assert model.calls[0].request.toolset.names == ("read_log",)
    assert len(result.content) <= 50_000
    assert "They are not kept: if you need them, call the tool again so that it gives" in (
        result.content
    )


def test_one_tools_own_limit_counts_before_the_agents_and_brings_the_reader() -> None:
    agent = reader([Call("short", {}), Call("read_log", {})], tools=[short, read_log])
    assert [len(each.content) // 1_000 for each in tool_results(agent.run_sync("x"))] == [0, 3]
    agent = reader([Call("short", {})], [read(offset=70)], tools=[short], max_result_chars=None)
    cut, page = tool_results(agent.run_sync("x"))
    assert len(cut.content) <= 1_000
    assert LOG[70:1_000] in page.content


def test_hooks_see_the_whole_and_a_changed_answer_is_what_is_kept() -> None:
    class Upper(Hooks):
        async def after_tool(self, place: Any, call: Any, output: Any) -> Any:
            seen.append(len(output.content))
            return replace(output, content=output.content.upper())

    seen: list[int] = []
    (result,) = tool_results(reader([Call("read_log", {})], hooks=[Upper()]).run_sync("x"))
    assert seen == [len(LOG)]
    assert handle_of(LOG.upper()) in result.content


def test_a_conversation_goes_on_with_what_it_has_kept() -> None:
    model = ScriptedModel([[Call("read_log", {})], "done", [read(limit=50)], "done"])
    agent = Agent(model=model, name="r", tools=[read_log], max_result_chars=4_000)
    first = agent.run_sync("x")
    second = agent.run_sync("y", context=first.context)
    assert LOG[:40] in tool_results(second)[0].content


def test_a_session_goes_on_in_another_process_with_what_it_has_kept() -> None:
    journal = MemoryJournal()
    reader([Call("read_log", {})], journal=journal).run_sync("x", session="s")
    second = reader([read(limit=50)], journal=journal).run_sync("y", session="s")
    assert LOG[:40] in tool_results(second)[0].content


def test_a_paused_run_has_what_it_has_kept_in_its_json() -> None:
    first = reader([Call("read_log", {})], [Call("restart", {})], tools=[read_log, restart])
    with pytest.raises(ApprovalRequired) as caught:
        first.run_sync("x")
    paused = PausedRun.from_json(caught.value.paused.to_json())
    second = reader([read(limit=50)], tools=[read_log, restart])
    result = second.resume_sync(paused, {paused.pending[0].id: Approve()})
    assert LOG[:40] in tool_results(result)[-1].content


def test_a_subagent_can_read_what_its_parent_has_kept() -> None:
    child = Agent(
        model=ScriptedModel([[read(limit=50)], "done"]),
        instructions="You look.",
        name="child",
        tools=[read_log],
        max_result_chars=4_000,
    )
    agent = reader(
        [Call("read_log", {})],
        [Call("delegate_to_child", {"task": f"Look at {HANDLE}"})],
        subagents=[child],
    )
    result = agent.run_sync("x")
    assert LOG[:40] in tool_results(result.children[0].result)[0].content  # type: ignore[union-attr]


def clerk(answer: str) -> Agent:
    """A subagent that reads the log, and answers."""
    return reader([Call("read_log", {})], answer, name="clerk")


@pytest.mark.parametrize("answer", [f"All of it is in {HANDLE}.", f"r_0 {HANDLE}, {HANDLE}"])
def test_who_asked_a_subagent_reads_what_its_answer_names(answer: str) -> None:
    agent = reader(
        [Call("delegate_to_clerk", {"task": "Read the log."})],
        [read(limit=50)],
        subagents=[clerk(answer)],
    )
    result = agent.run_sync("x")
    assert LOG[:40] in tool_results(result)[-1].content
    memory = agent.memory_of(result.context)
    assert memory is not None
    assert list(memory.kept) == [HANDLE]


@pytest.mark.parametrize("answer", ["All is well.", f"x{HANDLE}0", "r_0123456789abcdef"])
def test_what_a_subagents_answer_does_not_name_is_not_kept_above(answer: str) -> None:
    agent = reader(
        [Call("delegate_to_clerk", {"task": "Read the log."})],
        [read(limit=50)],
        subagents=[clerk(answer)],
    )
    result = agent.run_sync("x")
    assert "Kept are: none" in tool_results(result)[-1].content


def test_what_is_named_goes_up_through_an_agent_that_cannot_read_it() -> None:
    middle = Agent(
        model=ScriptedModel(
            [[Call("delegate_to_clerk", {"task": "Read."})], f"It is kept: {HANDLE}"]
        ),
        instructions="You pass on.",
        name="middle",
        subagents=[clerk(f"It is in {HANDLE}.")],
    )
    agent = reader(
        [Call("delegate_to_middle", {"task": "Have it read."})],
        [read(limit=50)],
        subagents=[middle],
    )
    assert LOG[:40] in tool_results(agent.run_sync("x"))[-1].content


async def test_what_a_subagent_has_named_is_read_after_a_process_was_lost_at_any_save() -> None:
    lead = by_turn([Call("delegate_to_clerk", {"task": "Read."})], [read(limit=50)], "done")
    below = by_turn([Call("read_log", {})], f"It is in {HANDLE}.")

    def agent(journal: Journal) -> Agent:
        role: Any = {"instructions": "You read.", "max_result_chars": 4_000}
        child = Agent(name="clerk", model=below, tools=[log_again], **role)
        return Agent(name="lead", model=lead, subagents=[child], journal=journal, **role)

    for lost_at in itertools.count(1):
        kept = MemoryJournal()
        losing = LosingJournal(kept, lost_at, after=True)
        try:
            result = await agent(losing).run("x", run_id="r")
        except JournalError:
            result = await agent(kept).resume("r")
        assert LOG[:40] in tool_results(result)[-1].content
        if losing.n_saves < lost_at:
            break
    assert lost_at > 8


@tool(idempotent=True, name="read_log")
def log_again() -> str:
    """Read the log."""
    return LOG


def by_turn(*script: Any) -> ScriptedModel:
    """A model whose answer follows from the conversation, in whichever process."""
    return ScriptedModel(
        lambda request: script[sum(m.kind == "assistant" for m in request.context.messages)]
    )


def test_what_was_sent_stays_as_it_was() -> None:
    model = ScriptedModel([[Call("read_log", {})], [read()], "done"])
    Agent(model=model, tools=[read_log], max_result_chars=1_000).run_sync("x")
    wires = [call.request.wire for call in model.calls]
    assert all(later.startswith(before) for before, later in itertools.pairwise(wires))
    assert {call.request.toolset.names for call in model.calls} == {("read_log", READ_RESULT)}


def test_the_oldest_make_room_and_the_newest_is_always_kept() -> None:
    kept: Any = {}
    for n in range(3):
        kept = _with(kept, f"r_{n}", "x" * 9_000_000)
    assert list(kept) == ["r_1", "r_2"]
    assert list(_with(kept, "r_1", kept["r_1"])) == ["r_2", "r_1"]
    assert list(_with(kept, "huge", "x" * 30_000_000)) == ["huge"]


@given(
    line=st.text(alphabet="ab, \u00e9😀", max_size=300),
    n=st.integers(1, 3_000),
    limit=st.integers(LEAST_RESULT_CHARS, 3_000),
    is_kept=st.booleans(),
)
def test_what_is_shown_never_exceeds_the_limit(
    line: str, n: int, limit: int, is_kept: bool
) -> None:
    text = f"{line}\n" * n + "x" * 3_000
    shown = head_and_tail(text, limit, handle_of(text) if is_kept else None)
    assert len(shown) <= limit
    assert len(shown) > limit * 0.5
    head, tail = re.split(r"\n?\[\.\.\. .* \.\.\.\]\n", shown)
    assert text.startswith(head)
    assert text.endswith(tail)


def test_an_agent_forgets_what_its_oldest_conversations_have_kept() -> None:
    memories = {
        f"c{n}": Memory(length=None, epoch=n, version=None, seen=frozenset(), kept=kept)
        for n, kept in enumerate(
            ({"r_a": "a" * 60_000_000}, {"r_b": "b" * 50_000_000}, {}, {"r_b": "b" * 50_000_000})
        )
    }
    found = without_oldest(memories)
    assert list(found) == ["c0", "c1", "c2", "c3"]
    assert [list(each.kept) for each in found.values()] == [[], ["r_b"], [], ["r_b"]]
    assert [each.epoch for each in found.values()] == [0, 1, 2, 3]


SERVER = """
from mcp.server import MCPServer
server = MCPServer("logs")
@server.tool()
def tail(n: int) -> str:
    "Tail."
    return "line\\n" * n + "end"
server.run()
"""


async def test_results_of_servers_are_cut_and_kept_too() -> None:
    server = McpServer(command=[sys.executable, "-c", SERVER], connect_timeout_s=60, alias="logs")
    text = "line\n" * 10_000 + "end"
    call = Call(READ_RESULT, {"handle": handle_of(text), "offset": 45_000})
    agent = reader([Call("logs__tail", {"n": 10_000})], [call], tools=[server])
    cut, page = tool_results(await agent.run("x"))
    assert len(cut.content) <= 4_000
    assert "of 50,003 characters" in cut.content
    assert page.content.split("\n", 1)[1].startswith("line\nline\n")


@pytest.mark.parametrize("value", [0, 499, "4000", True, 1e6])
def test_limits_of_no_use_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_result_chars must be an int of at least 500"):
        Agent(model="local:x", max_result_chars=value)
