"""Final names of MCP tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset import McpServer
from agentkit.toolset.mcp.lists.names import alias_of, final_names

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ORIGINALS = st.lists(
    st.text("ab._-ü ", min_size=1, max_size=6) | st.text("x.", min_size=50, max_size=80), max_size=8
)


def test_names_lead_with_the_alias_and_are_made_legal():
    names = final_names("files", ["read", "a.b", "größe"])
    assert names["read"] == "files__read"
    assert re.fullmatch(r"files__a_b_[0-9a-f]{8}", names["a.b"])
    assert re.fullmatch(r"files__gr__e_[0-9a-f]{8}", names["größe"])


def test_names_that_would_meet_are_told_apart_and_the_legal_one_keeps_its_own():
    """M2: two tools of one server became the same name, and both were sent."""
    names = final_names("s", ["a.b", "a_b", "a b"])
    assert names["a_b"] == "s__a_b"
    assert len(set(names.values())) == 3
    assert all(LEGAL.fullmatch(name) for name in names.values())


@given(ORIGINALS, ORIGINALS)
def test_a_name_does_not_depend_on_what_else_is_listed(some, more):
    """A list that changes must not make a pinned name mean another tool."""
    alone, together = final_names("s", some), final_names("s", [*some, *more])
    assert {name: together[name] for name in some} == alone


def test_names_of_two_servers_never_meet_and_say_whose_they_are():
    """M1, M4: one tool took the place of another server's."""
    for alias in ("a", "a-b", "a_b", "a_-"):
        for original in ("b__c", "_c", "__c", "c"):
            (name,) = final_names(alias, [original]).values()
            assert alias_of(name) == alias
    assert alias_of("python_tool") == ""


def test_dots_and_long_names_behind_a_long_alias_stay_legal():
    """M5: dots, or more than 64 characters behind the prefix, were a 400 for the whole request."""
    alias = "a" * 32
    originals = ["docx.builtin.import", "x" * 40, "x" * 41, "im.v1.message.create" * 3]
    names = final_names(alias, originals)
    assert all(LEGAL.fullmatch(name) and alias_of(name) == alias for name in names.values())
    assert len(set(names.values())) == len(originals)


def test_long_names_are_cut_and_told_apart_by_a_hash():
    long = "x" * 70
    names = final_names("server", [long + "1", long + "2", "y" * 56])
    assert all(len(name) == 64 for name in names.values())
    assert names["y" * 56] == "server__" + "y" * 56
    assert len(set(names.values())) == 3


@given(ORIGINALS, st.randoms(use_true_random=False))
def test_names_are_legal_unique_and_independent_of_order(originals, source):
    names = final_names("alias-1", originals)
    assert set(names) == set(originals)
    assert len(set(names.values())) == len(names)
    assert all(LEGAL.fullmatch(name) and name.startswith("alias-1__") for name in names.values())
    source.shuffle(originals)
    assert final_names("alias-1", originals) == names


@pytest.mark.parametrize("alias", ["", "a.b", "a b", "-a", "_", "x" * 33, "ä", None, "a__b", "a_"])
def test_an_alias_that_cannot_lead_a_name_is_refused(alias):
    with pytest.raises(ValueError, match="cannot lead a tool name"):
        McpServer(alias=alias, command=["true"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": "python server.py"}, "must be a list of program and arguments"),
        ({"command": []}, "cannot be reached; give one of command, url, server"),
        ({"call_timeout_s": 0}, "call_timeout_s must be above 0, not 0"),
        ({"max_result_chars": -1}, "max_result_chars must be above 0"),
    ],
)
def test_other_settings_are_checked_too(changes, words):
    with pytest.raises(ValueError, match=words):
        McpServer(**({"alias": "a", "command": ["true"]} | changes))


def test_a_server_is_a_value_and_keeps_its_environment_out_of_its_repr():
    env = {"TOKEN": "secret"}
    server = McpServer(alias="a", command=["true"], env=env)
    env["TOKEN"] = "other"
    assert server.env["TOKEN"] == "secret"
    assert "secret" not in repr(server)
    assert server == McpServer(alias="a", command=("true",), env={"TOKEN": "secret"})
    assert len({server, McpServer(alias="a", command=["true"], env={"TOKEN": "secret"})}) == 1
