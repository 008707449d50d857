"""Calls that are tried again by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest

from agentkit.toolset import (
    Failed,
    Retry,
    ToolContext,
    ToolDefinitionError,
    ToolOutput,
    ToolPolicy,
    Toolset,
    ToolSpec,
    execute_calls,
    tool,
)
from agentkit.toolset.tool import Tool
from tests.agentkit.toolset.test_execute import Written, make_context


async def answer_of(made: Tool, waits: list[float]) -> ToolOutput:
    """Call the tool once, as a model does, with a clock that does not wait."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with asyncio.timeout(20):
        (output,) = await execute_calls(
            Toolset([made]),
            [Written("1", made.spec.name)],
            allowed=None,
            context_factory=make_context,
            sleep=sleep,
        )
    return output


def failing(*errors: BaseException | None, timeout_s: float | None = None, retries: int) -> Tool:
    """A tool that raises these one after another; None answers."""
    left = list(errors)

    @tool(retries=retries, timeout_s=timeout_s)
    async def shaky() -> str:
        """Shaky."""
        error = left.pop(0)
        if isinstance(error, TimeoutError):
            await asyncio.Event().wait()
        if error is not None:
            raise error
        return f"{len(left)} left"

    return shaky


async def test_an_exception_is_tried_again_and_the_model_reads_only_the_success() -> None:
    waits: list[float] = []
    output = await answer_of(failing(OSError("1"), OSError("2"), None, retries=3), waits)
    assert output == ToolOutput(content="0 left")
    assert waits == [0.5, 1.0]


async def test_after_the_last_retry_the_model_reads_the_last_failure() -> None:
    waits: list[float] = []
    output = await answer_of(failing(OSError("1"), OSError("2"), None, retries=1), waits)
    assert output.content == "Tool 'shaky' failed: OSError: 2"
    assert waits == [0.5]


async def test_a_timeout_is_tried_again() -> None:
    waits: list[float] = []
    made = failing(TimeoutError(), None, timeout_s=0.01, retries=1)
    assert await answer_of(made, waits) == ToolOutput(content="0 left")


@pytest.mark.parametrize("answer", [Retry("other"), Failed("no"), SystemExit(1)])
async def test_what_a_tool_says_on_purpose_is_not_tried_again(answer: BaseException) -> None:
    waits: list[float] = []
    output = await answer_of(failing(answer, None, retries=3), waits)
    assert output.is_error
    assert waits == []


async def test_wrong_arguments_and_unknown_names_are_not_tried_again() -> None:
    made = failing(None, retries=3)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    outputs = await execute_calls(
        Toolset([made]),
        [Written("1", "shaky", '{"x": 1}'), Written("2", "other")],
        allowed=None,
        context_factory=make_context,
        sleep=sleep,
    )
    assert all(output.is_error for output in outputs)
    assert waits == []


async def test_a_foreign_tool_with_a_policy_is_tried_again() -> None:
    class Foreign:
        spec = ToolSpec(name="foreign", description="", parameters={})
        policy = ToolPolicy(retries=1)
        n_calls = 0

        async def call(
            self, arguments: Mapping[str, object], context: ToolContext[object]
        ) -> ToolOutput:
            self.n_calls += 1
            if self.n_calls == 1:
                raise ConnectionError
            return ToolOutput(content="here")

    assert await answer_of(Foreign(), []) == ToolOutput(content="here")


async def test_a_cancellation_during_the_wait_ends_the_call() -> None:
    waiting, n_calls = asyncio.Event(), 0

    @tool(retries=5)
    async def broken() -> str:
        """Broken."""
        nonlocal n_calls
        n_calls += 1
        raise OSError

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    answers: list[ToolOutput] = []
    task = asyncio.create_task(
        execute_calls(
            Toolset([broken]),
            [Written("1", "broken")],
            allowed=None,
            context_factory=make_context,
            on_output=lambda _, output: answers.append(output),
            sleep=sleep,
        )
    )
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert n_calls == 1
    assert [answer.content for answer in answers] == [
        "The call was cancelled; whether it had an effect is unknown."
    ]


def test_waits_grow_and_are_bounded() -> None:
    policy = ToolPolicy(retries=20, retry_wait_s=1)
    assert [policy.wait_s(attempt) for attempt in (0, 1, 2, 10)] == [1, 2, 4, 30]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ToolPolicy(retries=-1), "retries must be an int of at least 0, got -1"),
        (lambda: ToolPolicy(retries=True), "retries must be an int"),
        (lambda: ToolPolicy(retry_wait_s=-1), "retry_wait_s must be at least 0 seconds, got -1"),
        (lambda: ToolPolicy(retry_wait_s=float("nan")), "retry_wait_s must be"),
        (lambda: ToolPolicy(max_result_chars=0), "max_result_chars must be at least 500, got 0"),
    ],
)
def test_values_of_no_use_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ToolDefinitionError, match=words):
        make()


async def test_a_call_that_returned_is_not_made_again_though_its_result_has_no_text() -> None:
    n_paid = 0

    @tool(retries=3)
    def pay() -> object:
        """Pay."""
        nonlocal n_paid
        n_paid += 1
        return {"receipt": b"\xff\xfe"}

    waits: list[float] = []
    output = await answer_of(pay, waits)
    assert (n_paid, waits) == (1, [])
    assert output.is_error
    assert "it ran to its end" in output.content


async def test_a_foreign_tool_that_returned_something_else_is_not_called_again() -> None:
    class Foreign:
        spec = ToolSpec(name="foreign", description="", parameters={})
        policy = ToolPolicy(retries=2)
        n_calls = 0

        async def call(
            self, arguments: Mapping[str, object], context: ToolContext[object]
        ) -> ToolOutput:
            self.n_calls += 1
            return "paid"  # type: ignore[return-value]

    waits: list[float] = []
    made = Foreign()
    assert "must return a ToolOutput" in (await answer_of(made, waits)).content
    assert (made.n_calls, waits) == (1, [])


async def test_an_iterator_that_breaks_in_the_middle_is_tried_again() -> None:
    left = [OSError("once")]

    def read(line: str) -> str:
        if left:
            raise left.pop()
        return line

    @tool(retries=1)
    def lines() -> Iterator[str]:
        """Lines."""
        return map(read, "ab")

    assert (await answer_of(lines, [])).content == '["a","b"]'
