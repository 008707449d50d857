"""Final names of MCP tools."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset import McpServer
from agentkit.toolset.mcp.lists.names import alias_of, final_names

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
HASH_LIKE = st.from_regex(r"[ab]_[01]{8}([01]{8})?([01]{8})?", fullmatch=True)
ORIGINALS = st.lists(
    st.text("ab._-ü ", min_size=1, max_size=6)
    | st.text("x.", min_size=50, max_size=80)
    | HASH_LIKE,
    max_size=8,
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


@given(ORIGINALS)
def test_no_tool_can_be_named_like_another_is_shown(originals):
    """A tool called like the hashed name of another took that name, and its approval."""
    shown = final_names("s", originals)
    taking = [name.removeprefix("s__") for name in shown.values()]
    both = final_names("s", [*originals, *taking])
    assert {name: both[name] for name in originals} == shown
    assert len(set(both.values())) == len(both)


def test_a_name_that_ends_like_a_hash_gets_one():
    names = final_names("s", ["pay_deadbeef", "pay_0123456789abcdef", "pay_deadbee", "deadbeef"])
    assert re.fullmatch(r"s__pay_deadbeef_[0-9a-f]{8}", names["pay_deadbeef"])
    assert re.fullmatch(r"s__pay_0123456789abcdef_[0-9a-f]{8}", names["pay_0123456789abcdef"])
    assert names["pay_deadbee"] == "s__pay_deadbee"
    assert names["deadbeef"] == "s__deadbeef"


def test_of_equal_short_hashes_none_is_used(monkeypatch):
    """Else the tool that was listed first would decide which of them a shown name means."""
    real = hashlib.sha256

    class Weak:
        def __init__(self, data: bytes) -> None:
            self.hexdigest = lambda: "0" * 8 + real(data).hexdigest()[8:]

    monkeypatch.setattr("agentkit.toolset.mcp.lists.names.hashlib.sha256", Weak)
    alone = final_names("a" * 32, ["pay.now"])["pay.now"]
    both = final_names("a" * 32, ["pay.now", "pay now"])
    assert alone.endswith("__pay_now_00000000")
    assert alone not in both.values()
    assert len(set(both.values())) == 2
    assert all(LEGAL.fullmatch(name) and alias_of(name) == "a" * 32 for name in both.values())


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


@pytest.mark.parametrize(
    "alias", ["", "a.b", "a b", "-a", "_", "x" * 33, "ä", None, "a__b", "a_", "2a"]
)
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
