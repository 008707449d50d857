"""Final names of MCP tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset import McpServer
from agentkit.toolset.mcp.names import final_names

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ORIGINALS = st.lists(
    st.text("ab._-ü ", min_size=1, max_size=6) | st.text("x.", min_size=50, max_size=80), max_size=8
)


def test_names_lead_with_the_alias_and_are_made_legal():
    assert final_names("files", ["read", "a.b", "größe"]) == {
        "read": "files__read",
        "a.b": "files__a_b",
        "größe": "files__gr__e",
    }


def test_of_names_that_meet_the_one_that_is_legal_by_itself_keeps_its_own():
    names = final_names("s", ["a.b", "a_b", "a b"])
    assert names["a_b"] == "s__a_b"
    assert re.fullmatch(r"s__a_b_[0-9a-f]{8}", names["a.b"])
    assert len(set(names.values())) == 3


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


@pytest.mark.parametrize("alias", ["", "a.b", "a b", "-a", "_", "x" * 33, "ä", None])
def test_an_alias_that_cannot_lead_a_name_is_refused(alias):
    with pytest.raises(ValueError, match="cannot lead a tool name"):
        McpServer(alias=alias, command=["true"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": "python server.py"}, "must be a list of program and arguments"),
        ({"command": []}, "must be a list of program and arguments"),
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
