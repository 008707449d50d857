"""What can be a tool: functions, methods, partials, objects and classes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pytest
from pydantic import BaseModel

from agentkit.toolset import Tool, ToolContext, ToolDefinitionError, tool
from agentkit.toolset.sources import tools_from

Function = TypeVar("Function", bound=Callable[..., object])


class Counter:
    """Count up. Keeps its number.

    Args:
        by: how far
    """

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, by: int = 1) -> int:
        self.n += by
        return self.n


class AsyncEcho:
    async def __call__(self, text: str, context: ToolContext[None]) -> str:
        """Echo.

        :param text: what to say
        """
        return f"{text} by {context.agent}"


class Desk:
    """A desk with two tools and a rate."""

    rate = 2.0

    def __init__(self, name: str = "desk") -> None:
        self.name = name

    @tool
    def convert(self, usd: float) -> float:
        """Convert."""
        return usd * self.rate

    @tool
    @classmethod
    def owner(cls) -> str:
        """Who."""
        return cls.__name__

    @tool
    @staticmethod
    def twice(x: int) -> int:
        """Twice."""
        return 2 * x

    def plain(self, x: int) -> str:
        """Plain."""
        return f"{self.name} {x}"

    @classmethod
    def made(cls, x: int) -> str:
        """Made."""
        return f"{cls.__name__} {x}"

    @staticmethod
    def still(x: int) -> str:
        """Still."""
        return str(x)


class Branch(Desk):
    """Overrides one of them without making it a tool."""

    def convert(self, usd: float) -> float:  # type: ignore[override]
        return usd


def scaled(amount: float, *, factor: float, note: str = "") -> float:
    """Scale.

    Parameters
    ----------
    amount : float
        how much
    factor : float
        times
    """
    return amount * factor


def only(source: object) -> Tool:
    (made,) = tools_from(source)
    return made


def properties(made: Tool) -> dict[str, dict[str, object]]:
    return made.spec.parameters["properties"]  # type: ignore[return-value]


async def answer(made: Tool, context: ToolContext[None], **arguments: object) -> str:
    output = await made.call(arguments, context)
    assert not output.is_error, output.content
    return output.content


async def test_an_object_with_call_is_a_tool_that_keeps_its_state(
    context: ToolContext[None],
) -> None:
    made = only(Counter())
    assert (made.spec.name, made.spec.description) == ("counter", "Count up. Keeps its number.\n")
    assert properties(made)["by"]["description"] == "how far"
    assert [await answer(made, context), await answer(made, context, by=2)] == ["1", "3"]


async def test_an_async_call_is_awaited_and_gets_the_context(context: ToolContext[None]) -> None:
    made = only(AsyncEcho())
    assert made.spec.name == "async_echo"
    assert list(properties(made)) == ["text"]
    assert properties(made)["text"]["description"] == "what to say"
    assert await answer(made, context, text="hi") == "hi by tester"


async def test_a_class_is_made_once_without_arguments(context: ToolContext[None]) -> None:
    made = only(Counter)
    assert [await answer(made, context), await answer(made, context)] == ["1", "2"]


async def test_an_object_with_tool_methods_gives_them_all(context: ToolContext[None]) -> None:
    convert, owner, twice = tools_from(Desk())
    assert [each.spec.name for each in (convert, owner, twice)] == ["convert", "owner", "twice"]
    assert await answer(convert, context, usd=2) == "4.0"
    assert await answer(owner, context) == "Desk"
    assert await answer(twice, context, x=2) == "4"
    assert [each.spec.name for each in tools_from(Branch)] == ["owner", "twice"]
    assert await answer(tools_from(Branch)[0], context) == "Branch"


@pytest.mark.parametrize(
    ("function", "expected"),
    [(Desk("left").plain, "left 3"), (Desk.made, "Desk 3"), (Branch().made, "Branch 3")],
)
async def test_bound_methods_and_class_methods_are_tools(
    context: ToolContext[None], function: Callable[..., object], expected: str
) -> None:
    made = only(function)
    assert list(properties(made)) == ["x"]
    assert await answer(made, context, x=3) == expected


async def test_a_static_method_is_a_tool_and_class_methods_can_be_called_plainly(
    context: ToolContext[None],
) -> None:
    assert await answer(only(Desk.still), context, x=3) == "3"
    assert Desk.owner() == "Desk"
    assert Desk.twice(4) == 8


async def test_the_model_does_not_see_what_a_partial_has_fixed(
    context: ToolContext[None],
) -> None:
    made = only(functools.partial(scaled, factor=3.0))
    assert made.spec.name == "scaled"
    assert made.spec.description == "Scale.\n"
    assert sorted(properties(made)) == ["amount", "note"]
    assert properties(made)["amount"]["description"] == "how much"
    assert await answer(made, context, amount=2) == "6.0"
    nested = tool(name="six")(functools.partial(functools.partial(scaled, 2.0), factor=3.0))
    assert list(properties(nested)) == ["note"]
    assert await answer(nested, context) == "6.0"
    # Nor can it set it: a wrong argument is answered, not passed on.
    assert (await made.call({"amount": 1, "factor": 9}, context)).is_error


async def test_a_partial_of_an_object_is_a_tool(context: ToolContext[None]) -> None:
    made = only(functools.partial(Counter(), by=5))
    assert made.spec.name == "counter"
    assert properties(made) == {}
    assert await answer(made, context) == "5"


async def test_a_decorated_function_keeps_its_signature(context: ToolContext[None]) -> None:
    def traced(function: Function) -> Function:
        @functools.wraps(function)
        def inner(*args: object, **kwargs: object) -> object:
            return f"<{function(*args, **kwargs)}>"

        return inner  # type: ignore[return-value]

    @traced
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    assert await answer(only(shout), context, text="a") == "<A>"


@dataclass
class Line:
    """A line."""

    item: str
    n: int = 1


class Place(BaseModel):
    city: str
    lines: list[Line] = []


async def test_dataclasses_and_models_are_parameters_and_results(
    context: ToolContext[None],
) -> None:
    @tool
    def order(line: Line, place: Place) -> Place:
        """Order."""
        return Place(city=place.city, lines=[line])

    content = await answer(order, context, line={"item": "x"}, place={"city": "Wien"})
    assert content == '{"city":"Wien","lines":[{"item":"x","n":1}]}'


@pytest.mark.parametrize("source", ["x", 3, object(), Line, int, None])
def test_other_things_are_no_tools(source: object) -> None:
    assert tools_from(source) == ()


def test_a_class_that_needs_arguments_is_refused_with_the_fix() -> None:
    class Needy:
        def __init__(self, url: str) -> None: ...

        def __call__(self) -> str:
            return ""

    with pytest.raises(ToolDefinitionError, match=r"give an object of it: tools=\[Needy\(\.\.\."):
        tools_from(Needy)
