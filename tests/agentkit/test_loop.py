"""The loop: turns, masks, limits, retries, cancelling and pausing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping

import pytest

from agentkit import (
    Agent,
    AgentkitError,
    ConfigurationError,
    Context,
    ModelError,
    OutputError,
    RequestRefused,
    RunStream,
    Tool,
    ToolChoice,
    ToolContext,
    ToolName,
    ToolOutput,
    TurnLimitReached,
    tool,
)
from agentkit.blocks import AssistantMessage, ToolMessage, ToolResult, UserMessage
from agentkit.events import (
    Event,
    ModelEnd,
    ModelEvent,
    RunEnd,
    RunPaused,
    RunStarted,
    TextDelta,
    ToolCallStarted,
    ToolResultEvent,
    TurnDropped,
    TurnEnd,
    UsageEvent,
)
from agentkit.models import ModelRequest
from agentkit.testing import Call, Reply, Say, ScriptedModel, assert_extends, assert_prefix_stable
from agentkit.toolset import ToolSpec
from agentkit.usage import Usage


def results(context: Context) -> list[ToolResult]:
    return [
        result
        for message in context.messages
        if isinstance(message, ToolMessage)
        for result in message.results
    ]


def answers(context: Context) -> list[str]:
    return [m.text for m in context.messages if isinstance(m, AssistantMessage)]


def echo(text: str) -> str:
    """Echo."""
    return text


def test_the_stream_tells_everything_in_order_and_ends_with_the_result() -> None:
    model = ScriptedModel([[Say("hm"), Call("echo", {"text": "a"})], "done"])

    async def main() -> tuple[list[Event], RunStream[str]]:
        async with Agent(model=model, tools=[echo]).stream("x") as events:
            return [event async for event in events], events

    events, run = asyncio.run(main())

    kinds = [event.kind for event in events if event.kind != "tool_call_arguments"]
    assert kinds == [
        "run_started",
        "text_delta",
        "tool_call_started",
        "usage",
        "model_end",
        "turn_end",
        "tool_result_event",
        "text_delta",
        "usage",
        "model_end",
        "turn_end",
        "run_end",
    ]
    assert isinstance(events[-1], RunEnd)
    assert events[-1].result is run.result
    assert run.result.output == "done"
    assert run.context == run.result.context


def test_parallel_calls_run_at_the_same_time_and_results_are_in_call_order() -> None:
    meeting = asyncio.Barrier(3)

    async def meet(number: int) -> str:
        """Meet."""
        async with asyncio.timeout(30):
            await meeting.wait()
        return f"result {number}"

    model = ScriptedModel([[Call("meet", {"number": n}) for n in (1, 2, 3)], "done"])
    result = Agent(model=model, tools=[meet]).run_sync("x")

    assert [r.content for r in results(result.context)] == ["result 1", "result 2", "result 3"]


def test_mistakes_of_the_model_are_told_to_the_model() -> None:
    model = ScriptedModel(
        [
            [
                Call("ecco", {"text": "a"}),
                Call("echo", "{broken"),
                Call("echo", {"txt": 1}),
                Call("echo", {"text": "fine"}),
            ],
            "done",
        ]
    )
    result = Agent(model=model, tools=[echo]).run_sync("x")

    assert [r.is_error for r in results(result.context)] == [True, True, True, False]
    assert "'echo'" in results(result.context)[0].content


def test_exact_argument_text_is_replayed_on_the_next_turn() -> None:
    text = '{ "text" :"a\\u00e9"}'
    model = ScriptedModel([Call("echo", text), "done"])
    result = Agent(model=model, tools=[echo]).run_sync("x")

    call = next(m for m in result.messages if isinstance(m, AssistantMessage)).calls[0]
    assert call.arguments == text
    assert results(result.context)[0].content == "aé"


class Steered(Agent):
    """You obey."""

    def tool_choice(self, turn: int) -> ToolChoice:
        return (ToolName("second"), "required", "none")[turn]

    def allowed_tools(self, turn: int) -> frozenset[str] | None:
        return (None, frozenset({"first"}), frozenset[str]())[turn]

    @tool
    def first(self) -> str:
        """First."""
        return "1"

    @tool
    def second(self) -> str:
        """Second."""
        return "2"


def test_choice_and_mask_change_per_turn_and_the_prefix_does_not() -> None:
    model = ScriptedModel([Call("second"), [Call("second"), Call("first")], "done"])
    result = Steered(model=model).run_sync("x")

    requests = [call.request for call in model.calls]
    assert [request.tool_choice for request in requests] == [ToolName("second"), "required", "none"]
    assert [request.allowed_tools for request in requests] == [
        None,
        frozenset({"first"}),
        frozenset(),
    ]
    assert len({request.toolset.digest for request in requests}) == 1
    assert_prefix_stable(model.calls)
    outputs = results(result.context)
    assert [output.is_error for output in outputs] == [False, True, False]
    assert "first" in outputs[1].content


@pytest.mark.parametrize(
    ("choice", "callable_now"),
    [("none", "No tool may be called now"), (ToolName("second"), "You may call: second.")],
)
def test_a_call_against_the_choice_is_not_run(choice: ToolChoice, callable_now: str) -> None:
    ran: list[str] = []

    class Willful(Agent):
        """You do what you like."""

        def tool_choice(self, turn: int) -> ToolChoice:
            return choice if turn == 0 else "auto"

        @tool
        def first(self) -> str:
            """First."""
            ran.append("first")
            return "1"

        @tool
        def second(self) -> str:
            """Second."""
            return "2"

    model = ScriptedModel([Call("first"), "done"])
    result = Willful(model=model).run_sync("x")

    assert ran == []
    (refused,) = results(result.context)
    assert refused.is_error
    assert f"'first' may not be called now. {callable_now}" in refused.content


def test_an_answer_where_a_call_was_required_is_corrected() -> None:
    model = ScriptedModel(["no", Call("second"), Call("first"), "done"])

    class Patient(Steered):
        """You obey."""

        def tool_choice(self, turn: int) -> ToolChoice:
            return "required" if turn < 2 else "auto"

        def allowed_tools(self, turn: int) -> frozenset[str] | None:
            return None

    result = Patient(model=model).run_sync("x")

    assert result.output == "done"
    assert any("Call a tool" in m.text for m in result.messages if isinstance(m, UserMessage))


@pytest.mark.parametrize(
    ("choice", "allowed", "message"),
    [
        ("auto", frozenset({"third"}), r"allowed_tools\(0\) names \['third'\].*'first', 'second'"),
        ("required", frozenset(), r"tool_choice\(0\) wants a call"),
        (ToolName("third"), None, "wants 'third'"),
        (ToolName("second"), frozenset({"first"}), r"may call \['first'\]"),
        ("sometimes", None, "must be 'auto'"),
    ],
)
def test_hooks_that_ask_for_the_impossible_are_named(
    choice: ToolChoice, allowed: frozenset[str] | None, message: str
) -> None:
    class Odd(Steered):
        """You obey."""

        def tool_choice(self, turn: int) -> ToolChoice:
            return choice

        def allowed_tools(self, turn: int) -> frozenset[str] | None:
            return allowed

    with pytest.raises(ConfigurationError, match=message):
        Odd(model=ScriptedModel(["x"])).run_sync("x")


def test_the_turn_limit_is_an_error_with_everything_done_so_far() -> None:
    model = ScriptedModel(lambda _: Call("echo", {"text": "again"}))

    with pytest.raises(TurnLimitReached, match="max_turns=3") as caught:
        Agent(model=model, tools=[echo], max_turns=3).run_sync("x")

    partial = caught.value.partial
    assert partial is not None
    assert len(partial.requests) == 3
    assert len(results(partial.context)) == 3
    finishing = Agent(model=ScriptedModel(["done"]), tools=[echo])
    assert finishing.run_sync(None, context=partial.context).output == "done"


def test_an_answer_that_was_cut_off_says_so() -> None:
    model = ScriptedModel([Reply(parts=(Say("half an ans"),), finish="length")])

    assert Agent(model=model).run_sync("x").finish == "length"


def test_a_cut_off_value_is_corrected_with_a_hint() -> None:
    model = ScriptedModel([Reply(parts=(Say('{"a": ['),), finish="length"), "[1]"])
    result = Agent(model=model, output_type=list[int]).run_sync("x")

    assert result.output == [1]
    assert isinstance(result.messages[2], UserMessage)
    assert "be shorter" in result.messages[2].text


class Flaky:
    """A model that fails mid-turn a few times, after it has said something."""

    label = "flaky"
    siblings_start_together = True

    def __init__(self, *errors: ModelError) -> None:
        self.errors = list(errors)
        self.wires: list[bytes] = []
        self.request_ids: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.wires.append(request.wire)
        self.request_ids.append(request.request_id)
        yield TextDelta("half ")
        yield ToolCallStarted(index=0, id="c", name="echo")
        yield UsageEvent(usage=Usage(input_tokens=10, cache_read_tokens=0, output_tokens=2))
        if self.errors:
            raise self.errors.pop(0)
        if len(self.wires) > 10:
            return
        yield ModelEnd("tool_calls")


def busy() -> ModelError:
    return ModelError("busy", retryable=True, retry_after_s=0.0)


async def test_a_retried_turn_is_appended_once_and_the_failed_one_not_at_all() -> None:
    model = Flaky(busy(), busy())
    agent = Agent(model=model, tools=[echo], max_turns=1)
    events: list[Event] = []

    async def run() -> None:
        async with agent.stream("x") as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401

    with pytest.raises(TurnLimitReached) as caught:
        await run()

    assert model.wires[0] == model.wires[1] == model.wires[2]
    assert len(set(model.request_ids)) == 3
    assert len([e for e in events if isinstance(e, TurnDropped)]) == 2
    assert len([e for e in events if isinstance(e, TurnEnd)]) == 1
    partial = caught.value.partial
    assert partial is not None
    assert answers(partial.context) == ["half "]
    assert partial.usage.input_tokens == 30


@pytest.mark.parametrize(
    ("errors", "asked"),
    [([busy(), busy(), busy()], 3), ([ModelError("no")], 1), ([RequestRefused("too long")], 1)],
)
async def test_what_cannot_be_retried_ends_the_run_with_a_valid_context(
    errors: list[ModelError], asked: int
) -> None:
    model = Flaky(*errors)

    with pytest.raises(ModelError) as caught:
        await Agent(model=model, tools=[echo]).run("x")

    assert len(model.wires) == asked
    assert caught.value.partial is not None
    assert caught.value.partial.messages == (UserMessage.of("x"),)


class Slow:
    """A tool that finishes one call and hangs in the other."""

    def __init__(self) -> None:
        self.hanging = asyncio.Event()
        self.cleaned = False

    async def work(self, hang: bool) -> str:
        """Work."""
        if not hang:
            return "finished"
        self.hanging.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cleaned = True
        return "never"


TWO_CALLS = [Call("work", {"hang": False}), Call("work", {"hang": True})]


async def test_cancelling_during_tools_keeps_finished_results_and_answers_the_others() -> None:
    slow = Slow()
    model = ScriptedModel([TWO_CALLS])
    stream = Agent(model=model, tools=[slow.work]).stream("x")

    async def consume() -> None:
        async with stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(consume())
    async with asyncio.timeout(30):
        await slow.hanging.wait()
    task.cancel()
    await asyncio.wait([task], timeout=10)

    assert task.cancelled()
    assert slow.cleaned
    assert stream.context is not None
    first, second = results(stream.context)
    assert (first.content, first.is_error) == ("finished", False)
    assert second.is_error
    assert "cancelled" in second.content
    assert stream.context.open_calls == ()
    after = ScriptedModel(["went on"])
    result = await Agent(model=after, tools=[slow.work]).run("go on", context=stream.context)
    assert result.output == "went on"
    assert_extends(model.calls[0].wire, after.calls[0].wire)


@pytest.mark.parametrize("n_events", range(12))
async def test_leaving_after_any_event_leaves_a_context_that_can_be_continued(
    n_events: int,
) -> None:
    model = ScriptedModel([[Say("hm"), *[Call("echo", {"text": t}) for t in "ab"]], "done"])
    agent = Agent(model=model, tools=[echo])

    async with agent.stream("x") as stream:
        for _ in range(n_events):
            await anext(stream)

    if n_events == 0:
        assert stream.context is None
        return
    assert stream.context is not None
    assert stream.context.open_calls == ()
    assert all(call.wire == stream.context.dump()[: len(call.wire)] for call in model.calls)
    follower = ScriptedModel(["ok"])
    assert (await Agent(model=follower, tools=[echo]).run("y", context=stream.context)).output


async def test_leaving_in_the_middle_of_a_turn_appends_nothing_of_it() -> None:
    model = ScriptedModel(["a very long answer in many deltas"])

    async with Agent(model=model).stream("x") as stream:
        await anext(stream)
        await anext(stream)

    assert stream.context is not None
    assert stream.context.messages == (UserMessage.of("x"),)
    with pytest.raises(AgentkitError, match="has no result"):
        _ = stream.result


async def test_a_pause_stops_between_turns_and_the_run_goes_on_without_a_new_prompt() -> None:
    model = ScriptedModel([Call("echo", {"text": "a"}), "done"])
    agent = Agent(model=model, tools=[echo])
    events: list[Event] = []

    async with agent.stream("x") as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, ToolCallStarted):
                stream.pause()

    assert events[-1] == RunPaused(1)
    assert isinstance(events[-2], ToolResultEvent)
    assert stream.context is not None
    result = await agent.run(None, context=stream.context)
    assert result.output == "done"
    assert result.messages == (result.context.messages[-1],)
    assert_extends(model.calls[0].wire, model.calls[1].wire)


async def test_a_pause_before_the_first_event_asks_nothing() -> None:
    model = ScriptedModel(["x"])
    stream = Agent(model=model).stream("x")
    stream.pause()

    started, paused = [event async for event in stream]
    assert isinstance(started, RunStarted)
    assert paused == RunPaused(0)
    assert model.calls == ()


async def test_a_tool_result_with_half_a_character_is_spelled_out() -> None:
    class Raw:
        spec = ToolSpec(name="name", description="", parameters={})

        async def call(
            self, arguments: Mapping[str, object], context: ToolContext[object]
        ) -> ToolOutput:
            return ToolOutput(content="caf\udce9")

    model = ScriptedModel([Call("name"), "ok"])
    result = await Agent(model=model, tools=[Raw()]).run("x")

    assert results(result.context)[0].content == "caf\\udce9"


async def test_a_stream_that_is_cut_off_is_asked_again() -> None:
    class Cut(Flaky):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            self.wires.append(request.wire)
            yield TextDelta("x")
            if len(self.wires) > 1:
                yield ModelEnd("stop")

    model = Cut()
    agent = Agent(model=model, max_turns=1)
    async with asyncio.timeout(30):
        assert (await agent.run("x")).output == "x"
    assert len(model.wires) == 2


async def test_corrections_are_bounded_even_when_calls_come_between() -> None:
    model = ScriptedModel(["bad", Call("echo", {"text": "a"}), "bad", "bad"])

    with pytest.raises(OutputError):
        await Agent(model=model, tools=[echo], output_type=list[int]).run("x")
    model.assert_consumed()


class Careless:
    """A tool of somebody else, whose call() returns what it likes."""

    spec = ToolSpec(name="careless", description="Answer.", parameters={"type": "object"})

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize("answer", [None, "text", {"content": "text"}])
def test_a_tool_that_answers_with_something_else_than_an_output_has_failed(answer: object) -> None:
    model = ScriptedModel([Call("careless"), "done"])
    result = Agent(model=model, tools=[Careless(answer)]).run_sync("x")

    (failed,) = results(result.context)
    assert failed.is_error
    assert "must return a ToolOutput" in failed.content


@pytest.mark.parametrize("content", [5, None, {"a": 1}])
def test_an_output_whose_content_is_no_text_is_an_error_for_the_model(content: object) -> None:
    def give() -> ToolOutput:
        """Give."""
        return ToolOutput(content=content)  # type: ignore[arg-type]

    model = ScriptedModel([Call("give"), "done"])
    result = Agent(model=model, tools=[give]).run_sync("x")

    (failed,) = results(result.context)
    assert failed.is_error
    assert f"content must be a str, got {content!r}" in failed.content
    assert_prefix_stable(model.calls)


def leave() -> None:
    """Leave."""
    sys.exit(3)


async def leave_later() -> None:
    """Leave."""
    await asyncio.sleep(0)
    sys.exit(3)


class Leaving(Careless):
    """A tool of somebody else that ends the program."""

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        sys.exit(3)


@pytest.mark.parametrize(
    ("source", "name"),
    [(leave, "leave"), (leave_later, "leave_later"), (Leaving(None), "careless")],
)
def test_a_tool_cannot_end_the_program(source: Tool | Callable[[], object], name: str) -> None:
    model = ScriptedModel([Call(name), "done"])
    result = Agent(model=model, tools=[source]).run_sync("x")

    (failed,) = results(result.context)
    assert failed.is_error
    assert "tried to end the program (exit code 3)" in failed.content


def test_an_interrupt_in_a_tool_ends_the_run() -> None:
    async def interrupted() -> None:
        """Be interrupted."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Agent(model=ScriptedModel([Call("interrupted")]), tools=[interrupted]).run_sync("x")
