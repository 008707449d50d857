"""Which methods of an agent's class are tools, and which are refused when it is defined."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from agentkit import Agent, tool
from agentkit.blocks import ToolMessage
from agentkit.testing import Call, ScriptedModel
from agentkit.toolset import FunctionTool, ToolDefinitionError


def test_a_static_method_may_be_a_tool_with_the_decorators_in_either_order() -> None:
    class Adder(Agent):
        """You add."""

        @staticmethod
        @tool
        def above(a: int) -> int:
            """Add one."""
            return a + 1

        @tool
        @staticmethod
        def below(a: int) -> int:
            """Add two."""
            return a + 2

    model = ScriptedModel([[Call("above", {"a": 1}), Call("below", {"a": 1})], "done"])
    result = Adder(model=model).run_sync("x")

    (message,) = [each for each in result.messages if isinstance(each, ToolMessage)]
    assert [each.content for each in message.results] == ["2", "3"]


def test_an_override_without_tool_removes_a_static_tool() -> None:
    class Adder(Agent):
        """You add."""

        @staticmethod
        @tool
        def add(a: int) -> int:
            """Add one."""
            return a + 1

    class Plain(Adder):
        """You do not."""

        @staticmethod
        def add(a: int) -> int:  # type: ignore[override]
            return a

    assert Plain().method_tools == ()


@pytest.mark.parametrize("hide", [classmethod, property, functools.cached_property])
def test_a_tool_that_something_hides_is_refused(hide: Callable[[object], object]) -> None:
    @tool
    def look(self: object) -> str:
        """Look."""
        return "seen"

    with pytest.raises(ToolDefinitionError, match=r"tool Desk\.look is hidden by "):
        type("Desk", (Agent,), {"look": hide(look)})


def test_a_static_tool_that_takes_self_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match=r"Desk\.look takes self, and is static"):

        class Desk(Agent):
            """You look."""

            @staticmethod
            @tool
            def look(self: object) -> str:
                """Look."""
                return "seen"


@pytest.mark.parametrize(
    "name", ["examples", "knowledge", "run", "deps", "name", "volatile", "_plan", "stream"]
)
def test_a_tool_may_not_replace_what_agents_need(name: str) -> None:
    with pytest.raises(ToolDefinitionError, match=rf"Desk\.{name} replaces Agent\.{name}, "):
        type("Desk", (Agent,), {name: _lookup()})


def test_a_tool_of_a_mixin_may_not_replace_what_agents_need_either() -> None:
    class Mixin:
        @tool
        def run(self) -> str:
            """Run."""
            return "far"

    with pytest.raises(ToolDefinitionError, match=r"Mixin\.run replaces Agent\.run"):
        type("Desk", (Mixin, Agent), {})


def test_the_model_may_see_a_tool_under_a_name_that_agents_need() -> None:
    class Desk(Agent):
        """You run."""

        @tool(name="run")
        def go(self) -> str:
            """Run."""
            return "far"

    assert [each.spec.name for each in Desk().method_tools] == ["run"]


def _lookup() -> FunctionTool[[object], str]:
    @tool
    def look(self: object) -> str:
        """Look."""
        return "seen"

    return look
