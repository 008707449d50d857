"""How two lists of a server differ."""

from __future__ import annotations

import pytest

from agentkit.toolset.mcp.lists.changes import compare, describe
from agentkit.toolset.mcp.lists.listing import ListedTool, Listing
from agentkit.toolset.mcp.lists.offered import OfferedTools
from agentkit.toolset.tool import ToolDefinitionError, ToolSpec


def spec(name: str = "s__a", description: str = "", **properties: object) -> ToolSpec:
    return ToolSpec(name=name, description=description, parameters={"properties": properties})


def listing(*specs: ToolSpec) -> Listing:
    tools = tuple(ListedTool(original=each.name[3:], spec=each) for each in specs)
    return Listing(tools=tools, warnings=())


def by_name(*specs: ToolSpec) -> dict[str, ToolSpec]:
    return {each.name: each for each in specs}


def test_what_is_added_removed_and_changed_is_named_in_order():
    before = by_name(spec("s__a"), spec("s__b"), spec("s__c"))
    after = by_name(spec("s__c", "new"), spec("s__z"), spec("s__y"), spec("s__a"))
    changes = compare(before, after)
    assert (changes.added, changes.removed, changes.changed) == (
        ("s__y", "s__z"),
        ("s__b",),
        ("s__c",),
    )
    assert str(changes) == "added: s__y, s__z; removed: s__b; changed: s__c"
    assert not compare(before, before)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"default": "north, east, south"}, {"default": "south, north, east"}),
        ({"default": "id,*all,a.b"}, {"default": "*all,a.b,id"}),
        ({"items": {"default": "a,b"}}, {"items": {"default": "b,a"}}),
    ],
)
def test_a_default_with_the_same_words_in_another_order_is_no_change(one, other):
    """A server that builds a default from a set lists other bytes at each start."""
    changes = compare(by_name(spec(way=one)), by_name(spec(way=other)))
    assert changes.reordered == ("s__a",)
    assert not changes


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"description": "Do not read, write."}, {"description": "Do not write, read."}),
        ({"description": "{'id', 'name'}"}, {"description": "{'name', 'id'}"}),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
        ({"pattern": "^[a-z]{1,3}$"}, {"pattern": "^[a-z]{3,1}$"}),
        ({"prefixItems": [{"title": "a"}, {}]}, {"prefixItems": [{}, {"default": "a"}]}),
        ({"prefixItems": [{"default": "a"}, {}]}, {"prefixItems": [{}, {"default": "a"}]}),
        ({"default": ["a", "b"]}, {"default": ["b", "a"]}),
        ({"default": "a,b"}, {"default": ["a", "b"]}),
        ({"default": "send it, ask first"}, {"default": "ask first, send it"}),
        ({"default": "a,b,b"}, {"default": "a,a,b"}),
        ({"default": "a, b,c"}, {"default": "a,c"}),
        ({"default": True}, {"default": 1}),
    ],
)
def test_where_order_may_say_something_another_one_is_a_change(one, other):
    assert compare(by_name(spec(way=one)), by_name(spec(way=other))).changed == ("s__a",)


def test_words_of_a_description_in_another_order_are_a_change():
    before, after = spec(description="first, second"), spec(description="second, first")
    assert compare(by_name(before), by_name(after)).changed == ("s__a",)


def test_another_word_is_a_change_also_in_another_order():
    changes = compare(by_name(spec(way={"enum": ["a", "b"]})), by_name(spec(way={"enum": ["b"]})))
    assert changes.changed == ("s__a",)


def test_a_reordered_list_keeps_the_bytes_of_before_beside_real_changes():
    first, second = spec(way={"default": "a,b"}), spec(way={"default": "b,a"})
    offered = OfferedTools()
    offered.take(listing(first))
    offered.take(listing(second))
    assert offered.revision == 1
    assert list(offered.notes) == ["only the order of words differs in s__a"]
    offered.take(listing(second, spec("s__b")))
    assert offered.revision == 2
    assert offered.specs["s__a"].bytes == first.bytes


def test_a_server_that_changes_for_ever_fills_no_memory_with_notes():
    offered = OfferedTools()
    for number in range(200):
        offered.take(listing(spec(f"s__t{number}")))
    assert len(list(offered.notes)) == 50


def test_the_description_of_a_change_is_bounded():
    before, after = spec(description="Old."), spec(description="x\n" * 100_000)
    text = describe(by_name(before), by_name(after), ["s__a"])
    assert "-Old." in text
    assert len(text) < 21_000


def test_a_pinned_spec_has_the_bytes_that_it_was_made_of():
    made = spec(description="é", way={"default": 1.0, "enum": ["a"]})
    again = ToolSpec.pinned(made.bytes)
    assert again == made
    assert again.bytes == made.bytes
    assert hash(again) == hash(made)
    with pytest.raises(TypeError, match="cannot be changed"):
        again.parameters["properties"]["way"]["enum"].append("b")
    # Also bytes that no spec would have today: a later rule must not move them.
    odd = b'{"description":"","name":"s__a","parameters":{"title":"T","type":"object"}}'
    assert ToolSpec.pinned(odd).bytes == odd
    assert ToolSpec.pinned(odd).parameters["title"] == "T"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"name":"a"}',
        b'{"name":"a b","description":"","parameters":{}}',
        b'{"name":"a","description":1,"parameters":{}}',
        b'{"name":"a","description":"","parameters":1}',
    ],
)
def test_bytes_of_no_spec_are_refused(data):
    with pytest.raises(ToolDefinitionError):
        ToolSpec.pinned(data)
