"""Calling function tools: what the model gets back."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import math
import threading
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from agentkit.toolset import Failed, Retry, ToolContext, ToolDefinitionError, ToolOutput, tool


class Point(BaseModel):
    x: float
    y: float = 0.0


@dataclasses.dataclass
class Reading:
    when: datetime.date
    points: list[Point]
    tags: set[str]


@tool
async def convert(
    usd: float, currency: Literal["EUR", "GBP"], times: Annotated[int, Field(ge=1)] = 1
):
    """Convert."""
    return f"{usd * times:g} {currency}"


async def test_valid_arguments_reach_the_function_as_python_values(context):
    @tool
    def describe(at: Point, day: datetime.date, n: int = 7) -> str:
        """Describe."""
        return f"{type(at).__name__} {at.x} {day.year + n}"

    output = await describe.call({"at": {"x": "1.5"}, "day": "2024-05-01"}, context)
    assert output == ToolOutput(content="Point 1.5 2031")


class Color(enum.Enum):
    RED = "r"


class Booking(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date
    color: Color
    price: Decimal
    ids: tuple[int, ...]
    names: set[str]


async def test_strict_types_take_what_json_can_say_of_them(context):
    @tool
    def book(b: Booking, until: Annotated[datetime.date, Field(strict=True)]) -> str:
        """Book."""
        return f"{b.day} {b.color.name} {b.price + 1} {b.ids} {b.names} {until.year}"

    day = "2026-01-02"
    given = {"day": day, "color": "r", "price": "1.5", "ids": [1, 2], "names": ["x"]}
    output = await book.call({"b": given, "until": day}, context)
    assert output.content == "2026-01-02 RED 2.5 (1, 2) {'x'} 2026"
    refused = await book.call({"b": given | {"ids": ["1"]}, "until": day}, context)
    assert "- b.ids[0]: Input should be a valid integer; got '1'" in refused.content


async def test_arguments_that_lie_deep_arrive_as_they_are(context):
    deep: object = 1
    for _ in range(400):
        deep = [deep]

    @tool
    def keep(value: Any) -> str:
        """Keep."""
        return str(value == deep)

    assert (await keep.call({"value": deep}, context)).content == "True"


async def test_wrong_arguments_are_explained_to_the_model(context):
    output = await convert.call({"usd": "five", "curency": "EUR", "times": 0}, context)
    assert output.is_error
    assert output.content.splitlines() == [
        "The arguments do not fit this tool:",
        "- usd: Input should be a valid number, unable to parse string as a number; got 'five'",
        "- currency: is required, but was not given",
        "- times: Input should be greater than or equal to 1; got 0",
        "- curency: is not an argument of this tool; leave it out",
        "The arguments are: usd, currency, times.",
    ]


async def test_a_wrong_nested_argument_is_named_by_its_path_and_cut_to_size(context):
    @tool
    def draw(points: list[Point]) -> str:
        """Draw."""
        return ""

    output = await draw.call({"points": [{"x": 1}, {"x": "q" * 1000}]}, context)
    assert "- points[1].x: Input should be a valid number" in output.content
    assert len(output.content) < 500


async def test_a_tool_without_parameters_says_so(context):
    @tool
    def now() -> str:
        """Now."""
        return "noon"

    assert (await now.call({}, context)).content == "noon"
    assert "It takes no arguments." in (await now.call({"zone": "UTC"}, context)).content


async def test_the_context_is_injected(context):
    @tool
    async def who(ctx: ToolContext[None], greeting: str = "I am") -> str:
        """Who."""
        return f"{greeting} {ctx.agent}, call {ctx.call_id}"

    assert (await who.call({}, context)).content == "I am tester, call call-1"
    assert (await who.call({"ctx": {}}, context)).is_error


async def test_a_method_runs_on_its_own_instance_and_stays_a_plain_method(context):
    class Desk:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        @tool
        def convert(self, usd: float, /, digits: int = 2) -> str:
            """Convert."""
            return f"{usd * self.rate:.{digits}f}"

        @tool
        @staticmethod
        def name() -> str:
            """Name."""
            return "desk"

    euro, yen = Desk(0.9), Desk(150)
    assert (await euro.convert.call({"usd": 2}, context)).content == "1.80"
    assert (await yen.convert.call({"usd": 2, "digits": 0}, context)).content == "300"
    assert (await Desk.name.call({}, context)).content == "desk"
    assert euro.convert(3.0) == "2.70"
    with pytest.raises(ToolDefinitionError, match="taken from the class; take it from an instance"):
        await Desk.convert.call({"usd": 2}, context)


async def test_sync_functions_run_beside_the_event_loop(context):
    started, release = threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Block."""
        started.set()
        assert release.wait(10)
        return threading.current_thread().name

    task = asyncio.create_task(block.call({}, context))
    assert await asyncio.to_thread(started.wait, 10)
    release.set()
    assert (await task).content == "tool-block"


async def test_many_blocked_sync_functions_do_not_starve_the_others(context):
    release = threading.Event()

    @tool
    def block() -> str:
        """Block."""
        return str(release.wait(20))

    @tool
    def quick() -> str:
        """Quick."""
        return "done"

    blocked = [asyncio.create_task(block.call({}, context)) for _ in range(40)]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert (await quick.call({}, context)).content == "done"
    release.set()
    assert {output.content for output in await asyncio.gather(*blocked)} == {"True"}


async def test_exceptions_become_results_without_a_traceback(context):
    @tool
    def fail(how: str) -> str:
        """Fail."""
        match how:
            case "retry":
                raise Retry("The city is unknown.")
            case "failed":
                raise Failed("The shop is closed.")
            case "empty":
                raise KeyError
            case "stop":
                raise StopIteration(3)
            case _:
                raise ValueError(f"cannot {how}")

    async def said(how: str) -> str:
        output = await fail.call({"how": how}, context)
        assert output.is_error
        return output.content

    assert await said("retry") == (
        "The city is unknown.\nCorrect the arguments and call the tool again."
    )
    assert await said("failed") == "The shop is closed."
    assert await said("fly") == "Tool 'fail' failed: ValueError: cannot fly"
    assert await said("empty") == "Tool 'fail' failed: KeyError"
    assert await said("stop") == (
        "Tool 'fail' failed: RuntimeError: coroutine raised StopIteration"
    )


async def test_a_slow_tool_answers_with_a_timeout_and_its_own_timeout_error_is_its_own(context):
    release = threading.Event()

    @tool(timeout_s=0.05)
    async def slow() -> str:
        """Slow."""
        await asyncio.Event().wait()
        return ""

    @tool(timeout_s=0.05)
    def stuck() -> str:
        """Stuck."""
        release.wait(20)
        return ""

    @tool(timeout_s=20)
    async def own() -> str:
        """Own."""
        raise TimeoutError("the other side is slow")

    assert "did not finish within 0.05 s and was stopped" in (await slow.call({}, context)).content
    assert "within 0.05 s and may still run" in (await stuck.call({}, context)).content
    assert (await own.call({}, context)).content.endswith("TimeoutError: the other side is slow")
    release.set()


async def test_cancellation_goes_through_but_a_cancellation_inside_does_not(context):
    entered = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()
        return ""

    @tool
    async def inner() -> str:
        """Await something that somebody cancelled."""
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    task = asyncio.create_task(wait.call({}, context))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (
        await inner.call({}, context)
    ).content == "Tool 'inner' failed: it was cancelled inside."


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("as it is \n", "as it is \n"),
        (None, "ok"),
        (3.0, "3.0"),
        (True, "true"),
        ([1, "ü", None], '[1,"ü",null]'),
        ({"b": 1, "a": {"z", "y"}}, '{"b":1,"a":["y","z"]}'),
        (Point(x=1), '{"x":1.0,"y":0.0}'),
        (math.nan, '"NaN"'),
        ({"x": -math.inf}, '{"x":"-Infinity"}'),
        (
            Reading(datetime.date(2024, 5, 1), [Point(x=2)], {"b", "c", "a"}),
            '{"when":"2024-05-01","points":[{"x":2.0,"y":0.0}],"tags":["a","b","c"]}',
        ),
        ("half \ud83d pair", "half ? pair"),
        (ToolOutput(content="mine", is_error=True), "mine"),
    ],
)
async def test_results_have_one_text_form(context, value, content):
    @tool
    def give() -> object:
        """Give."""
        return value

    assert (await give.call({}, context)).content == content


@pytest.mark.parametrize("value", [b"raw", object(), {"x": threading.Lock()}])
async def test_results_without_a_text_form_are_errors(context, value):
    @tool
    def give() -> object:
        """Give."""
        return value

    output = await give.call({}, context)
    assert output.is_error
    assert "a tool cannot return" in output.content


async def test_structured_results_are_kept_as_values(context):
    @tool
    def give() -> dict[str, int]:
        """Give."""
        return {"n": 1}

    assert (await give.call({}, context)).structured == {"n": 1}


async def test_an_exception_is_logged_for_the_developer_without_the_arguments(context, caplog):
    """Regression: only the model heard of it, and the developer saw an agent that does worse."""

    @tool
    def divide(by: int) -> float:
        """Divide."""
        return 1 / (by - by)

    output = await divide.call({"by": 31337}, context)

    assert output.is_error
    [record] = caplog.records
    assert (record.name, record.levelname) == ("agentkit.tools", "WARNING")
    assert record.getMessage() == "tool 'divide' of agent 'tester' failed in call 'call-1'"
    assert "return 1 / (by - by)" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert "31337" not in caplog.text


@pytest.mark.parametrize("signal", [Retry("again"), Failed("never")])
async def test_answers_that_a_tool_raises_on_purpose_are_not_logged(context, caplog, signal):
    @tool
    def refuse() -> str:
        """Refuse."""
        raise signal

    assert (await refuse.call({}, context)).is_error
    assert not caplog.records
