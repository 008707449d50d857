"""The sorted, pinned, hashed toolset."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset import ToolNameConflict, ToolOutput, Toolset, ToolSpec


class Plain:
    """The smallest tool: a spec and a label."""

    def __init__(self, name: str, description: str = "", label: str = "") -> None:
        self.spec = ToolSpec(
            name=name, description=description, parameters={}, source=f"shop {label}"
        )
        self.label = label

    async def call(self, arguments, context) -> ToolOutput:
        return ToolOutput(content=self.label)


NAMES = st.lists(st.from_regex(r"[a-zA-Z0-9_-]{1,6}", fullmatch=True), unique=True, max_size=8)


@given(NAMES, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(names, source):
    tools = [Plain(name) for name in names]
    expected = Toolset(tools)
    source.shuffle(tools)
    half = len(tools) // 2
    for other in (Toolset(tools), Toolset(tools[half:]).union(Toolset(tools[:half]))):
        assert (other.bytes, other.digest, other.names) == (
            expected.bytes,
            expected.digest,
            tuple(sorted(names)),
        )
        assert other == expected


def test_names_are_sorted_by_code_point_and_not_by_locale():
    assert Toolset([Plain("b"), Plain("a"), Plain("Z"), Plain("_"), Plain("a-")]).names == (
        *("Z", "_", "a", "a-", "b"),
    )


def test_digest_is_tagged_and_bytes_are_the_array_of_specs():
    toolset = Toolset([Plain("b"), Plain("a")])
    assert toolset.bytes == b"[" + toolset.specs[0].bytes + b"," + toolset.specs[1].bytes + b"]"
    assert toolset.digest.startswith("sha256:")
    assert len(toolset.digest) == len("sha256:") + 64
    assert Toolset().bytes == b"[]"
    assert Toolset([Plain("b")]).digest != toolset.digest


def test_two_different_tools_of_one_name_are_refused_with_both_sources():
    with pytest.raises(ToolNameConflict, match="two different tools are named 'a'") as caught:
        Toolset([Plain("a", "one", "north")]).union(Toolset([Plain("a", "two", "south")]))
    assert caught.value.sources == ("shop north", "shop south")
    assert "rename one" in str(caught.value)


async def test_of_equal_tools_the_left_one_answers(context):
    child, team = (
        Toolset([Plain("a", label="child")]),
        Toolset([Plain("a", label="team"), Plain("b")]),
    )
    merged = child.union(team)
    assert merged == team
    assert (await merged.get("a").call({}, context)).content == "child"


def test_a_toolset_is_a_read_only_collection():
    toolset = Toolset([Plain("b"), Plain("a")])
    assert (len(toolset), "a" in toolset, "c" in toolset) == (2, True, False)
    assert toolset.get("c") is None
    assert [tool.spec.name for tool in toolset] == ["a", "b"]
    with pytest.raises(AttributeError):
        toolset.names = ()


BUILD = """
import enum, sys
from typing import Literal
from agentkit.toolset import Toolset, tool
from pydantic import BaseModel

class Place(BaseModel):
    name: str
    kind: Literal["city", "sea"] = "city"

def go(place: Place, speed: float = 1.0) -> str:
    '''Go.

    Args:
        place: where to
    '''
    return ""

def stay(tags: set[str] = {"a", "b", "c"}, minutes: int | None = None) -> str:
    '''Stay.'''
    return ""

functions = [go, stay] if sys.argv[1] == "forward" else [stay, go]
toolset = Toolset(tool(function) for function in functions)
print(toolset.digest, toolset.bytes.decode())
"""


def test_bytes_are_the_same_in_every_process_order_and_hash_seed():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", BUILD, order],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        ).stdout
        for seed, order in (("0", "forward"), ("7", "backward"), ("random", "forward"))
    }
    assert len(outputs) == 1


def test_importing_the_toolset_loads_no_sdk():
    check = (
        "import sys, agentkit.toolset\n"
        "heavy = {'mcp', 'pydantic', 'torch', 'openai', 'anthropic', 'docstring_parser', 'anyio'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": "."},
    )
    assert (done.returncode, done.stderr) == (0, "")
