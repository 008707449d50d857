"""What is said of a server's words, in bounded room, however deep, long or many they are."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from agentkit.toolset import Toolset
from agentkit.toolset.mcp.lists import words
from agentkit.toolset.mcp.lists.listing import Listing, Selection, list_tools
from agentkit.toolset.mcp.lists.words import excerpt

pytestmark = pytest.mark.usefixtures("quick")

GOOD = {"name": "good", "inputSchema": {"type": "object"}}


def deep(depth: int, inner: object) -> object:
    """As Python's JSON parser takes it, but deeper than Python writes a value itself."""
    for _ in range(depth):
        inner = [inner]
    return inner


async def listing_of(*tools: object) -> Listing:
    async def request(method: str, params: dict[str, object]) -> Mapping[str, object]:
        return {"tools": list(tools)}

    return await list_tools("s", Selection(), request)


@pytest.mark.parametrize("depth", [5, 980, 5_000])
@pytest.mark.parametrize(
    "bad",
    [
        lambda value: {"description": value},
        lambda value: value,
        lambda value: {"name": "bad", "inputSchema": value},
        lambda value: {"name": "bad", "inputSchema": {"type": "object", "default": value}},
        lambda value: {"name": "bad", "inputSchema": {"type": value}, "description": value},
        lambda value: {"name": value, "inputSchema": {"type": "object"}},
    ],
    ids=["no-name", "no-object", "schema-is-a-list", "deep-default", "deep-type", "name-is-a-list"],
)
@pytest.mark.parametrize("inner", ["x", {"a": 10**5_000}], ids=["text", "digits"])
async def test_an_entry_that_is_nested_too_deeply_costs_that_entry(depth, bad, inner):
    listing = await listing_of(bad(deep(depth, inner)), GOOD)
    taken = [tool.original for tool in listing.tools]
    assert taken in (["good"], ["bad", "good"])
    if taken == ["good"]:
        (warning,) = listing.warnings
        assert "was left out" in warning
        assert len(warning) < 300


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, deep(980, 0), {"a": deep(5_000, 0)}, 10**5_000, [["y" * 999] * 999] * 9],
    ids=["long", "deep", "deeper", "digits", "many"],
)
def test_an_excerpt_of_anything_is_short(value):
    assert 0 < len(excerpt(value)) <= 100


async def test_notes_of_a_connection_end_however_often_its_list_changes(tool_file, monkeypatch):
    monkeypatch.setattr(words, "_MOST_NOTES", 3)
    async with tool_file.server().connect() as connection:
        first = Toolset(connection.tools)
        for n in range(6):
            tool_file.set("announce", f"tool_{n}")
            await connection.call("announce", {})
            await connection.recheck()
        now = Toolset(connection.tools)
        warnings = connection.warnings
    assert first.names != now.names == ("s__announce", "s__tool_5")
    assert len([each for each in warnings if "the tools have changed" in each]) == 3


async def test_notes_of_a_connection_end_however_often_it_is_started_again(tool_file, monkeypatch):
    monkeypatch.setattr(words, "_MOST_NOTES", 2)
    async with tool_file.server().connect() as connection:
        for n in range(4):
            tool_file.write(last_words=f"crash {n}")
            assert (await connection.call("crash", {})).is_error
        warnings = connection.warnings
    restarts = [each for each in warnings if "was restarted" in each]
    assert len(restarts) == 2
    assert restarts[0] != restarts[1]


async def test_a_changed_tool_is_told_of_within_the_limit_of_a_result(tool_file, context):
    tool_file.set("announce", "echo")
    async with tool_file.server(max_result_chars=6_000).connect() as connection:
        shown = {tool.spec.name: tool for tool in connection.tools}["s__echo"]
        unchanged = await shown.call({"must": "fail"}, context)
        tool_file.set("announce", echo="New words. " * 1_000)
        await connection.call("announce", {})
        await connection.recheck()
        told = await shown.call({"must": "fail"}, context)
        long = await shown.call({"must": "fail" * 2_000}, context)
        fine = await shown.call({"text": "fine"}, context)

    assert unchanged.is_error
    assert "has changed this tool" not in unchanged.content
    assert told.is_error
    before, _, new = told.content.partition("As it is now: ")
    assert json.loads(before.partition("\n\n")[0])["arguments"] == {"must": "fail"}
    assert new.startswith('{"description":"New words. ')
    assert new.endswith("... (cut)")
    assert len(new) < 4_020
    assert long.is_error
    assert len(long.content) <= 6_000
    assert "the middle was cut" in long.content
    assert not fine.is_error
    assert "has changed this tool" not in fine.content
