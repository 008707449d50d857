"""Runs as OpenTelemetry sees them, through the SDK's own exporters in memory."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from agentkit import Agent, Limits, Task, ToolContext, fan_out, tool
from agentkit.errors import ApprovalRequired, LimitReached, ModelError, OutputError
from agentkit.events import RunEnd, TextDelta, UsageEvent
from agentkit.saved import Approve
from agentkit.testing import Call, ScriptedModel
from tests.agentkit.digger import Digger
from tests.agentkit.observe.spans import Seen, attributes


@pytest.fixture
def seen() -> Seen:
    return Seen()


class Reader(Agent):
    """You read."""


class Lead(Agent):
    """You lead."""

    subagents = (Reader,)

    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    def fail(self) -> str:
        """Fail."""
        raise ValueError("the word is swordfish")

    @tool
    def repeat(self, word: str) -> str:
        """Repeat."""
        return f"{word} crumble"


@pytest.mark.parametrize("limits", [None, Limits(seconds=60.0)])
async def test_a_run_its_requests_its_calls_and_its_subagents_nest(
    seen: Seen, limits: Limits | None
) -> None:
    model = ScriptedModel(
        {
            "lead": [
                [Call("add", {"a": 1, "b": 2}), Call("delegate_to_reader", {"task": "x"})],
                "done",
            ],
            "reader": ["read"],
        }
    )
    await Lead(model=model, telemetry=seen.telemetry, limits=limits).run("hello")
    assert sorted(seen.tree()) == sorted(
        [
            "invoke_agent lead",
            "invoke_agent lead > chat scripted",
            "invoke_agent lead > execute_tool add",
            "invoke_agent lead > execute_tool delegate_to_reader",
            "invoke_agent lead > execute_tool delegate_to_reader > invoke_agent reader",
            "invoke_agent lead > execute_tool delegate_to_reader > invoke_agent reader"
            " > chat scripted",
            "invoke_agent lead > chat scripted",
        ]
    )
    assert len({span.context.trace_id for span in seen.spans}) == 1


async def test_subagents_of_a_fan_out_within_a_tool_lie_below_its_call(seen: Seen) -> None:
    class Boss(Agent):
        """You are the boss."""

        subagents = (Reader,)

        @tool
        async def both(self, context: ToolContext[None]) -> str:
            """Ask both."""
            tasks = [Task(agent=Reader, prompt="a"), Task(agent=Reader, prompt="b")]
            return str(len((await fan_out(self, tasks, within=context)).outcomes))

    model = ScriptedModel({"boss": [Call("both"), "done"], "reader": ["r", "r"]})
    await Boss(model=model, telemetry=seen.telemetry).run("go")
    below = seen.named("invoke_agent reader")
    assert [seen.parent(span) for span in below] == [seen.one("execute_tool both")] * 2
    assert {attributes(span)["agentkit.run.path"] for span in below} == {
        "boss/reader[0]",
        "boss/reader[1]",
    }


async def test_spans_carry_the_names_of_the_conventions(seen: Seen) -> None:
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "done"])
    agent = Lead(model=model, telemetry=seen.telemetry, tenant="acme")
    result = await agent.run("hello", session="letters")
    run = attributes(seen.one("invoke_agent lead"))
    assert run["gen_ai.operation.name"] == "invoke_agent"
    assert run["gen_ai.agent.name"] == "lead"
    assert run["gen_ai.conversation.id"] == "letters"
    assert run["agentkit.run.id"] == result.run_id
    assert run["agentkit.run.status"] == "done"
    assert run["agentkit.run.turns"] == 2
    assert run["gen_ai.usage.input_tokens"] == result.usage.input_tokens
    assert run["agentkit.cache.hit_ratio"] == result.usage.hit_ratio

    first, second = map(attributes, seen.named("chat scripted"))
    assert first["gen_ai.provider.name"] == "scripted"
    assert first["gen_ai.request.model"] == "scripted"
    assert first["gen_ai.request.stream"] is True
    assert first["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert second["gen_ai.response.finish_reasons"] == ("stop",)
    assert second["gen_ai.response.time_to_first_chunk"] == 0.0
    assert second["agentkit.tenant"] == "acme"
    for name, amount in (
        ("gen_ai.usage.input_tokens", result.requests[1].usage.input_tokens),
        ("gen_ai.usage.output_tokens", result.requests[1].usage.output_tokens),
        ("gen_ai.usage.cache_read.input_tokens", result.requests[1].usage.cache_read_tokens),
        ("gen_ai.usage.cache_write.input_tokens", result.requests[1].usage.cache_write_tokens),
        ("agentkit.cache.hit_ratio", result.requests[1].usage.hit_ratio),
    ):
        assert second[name] == amount, name

    call = seen.one("execute_tool add")
    assert attributes(call)["gen_ai.tool.name"] == "add"
    assert attributes(call)["gen_ai.tool.call.id"] == "call_1"
    assert call.kind is SpanKind.INTERNAL
    assert seen.named("chat scripted")[0].kind is SpanKind.INTERNAL


async def test_nothing_that_was_said_is_recorded_by_default(seen: Seen) -> None:
    calls = [Call("fail"), Call("repeat", {"word": "gooseberry"})]
    model = ScriptedModel([calls, "the answer is xylophone"])
    await Lead(model=model, telemetry=seen.telemetry).run("my code is marzipan")
    exported = "".join(span.to_json() for span in seen.spans)
    for secret in ("marzipan", "xylophone", "swordfish", "gooseberry", "crumble", "You lead"):
        assert secret not in exported
    assert "execute_tool fail" in exported


async def test_what_was_said_is_recorded_on_request_in_the_form_of_the_conventions() -> None:
    seen = Seen(content=True)
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "it is 3"])
    await Lead(model=model, telemetry=seen.telemetry).run("what is 1 + 2?")
    first, second = map(attributes, seen.named("chat scripted"))
    question = {
        "role": "user",
        "parts": [{"type": "text", "content": "what is 1 + 2?"}],
    }
    assert json.loads(first["gen_ai.input.messages"]) == [question]
    assert json.loads(first["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "You lead."}
    ]
    call = {"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": 1, "b": 2}}
    assert json.loads(first["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [call], "finish_reason": "tool_calls"}
    ]
    # What is new: the rest is in the spans before.
    assert json.loads(second["gen_ai.input.messages"]) == [
        {"role": "assistant", "parts": [call]},
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "call_1", "response": "3"}],
        },
    ]
    executed = attributes(seen.one("execute_tool add"))
    assert json.loads(executed["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 2}
    assert executed["gen_ai.tool.call.result"] == "3"
    run = attributes(seen.one("invoke_agent lead"))
    assert json.loads(run["gen_ai.input.messages"]) == [question]
    assert "it is 3" in run["gen_ai.output.messages"]


async def test_a_failed_tool_and_a_tool_that_does_not_exist_are_errors(seen: Seen) -> None:
    model = ScriptedModel([[Call("fail"), Call("invented_by_the_model")], "done"])
    await Lead(model=model, telemetry=seen.telemetry).run("x")
    failed, unknown = seen.one("execute_tool fail"), seen.one("execute_tool unknown")
    for span in (failed, unknown):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == "tool_error"
    [point] = [
        point
        for point in seen.points("gen_ai.execute_tool.duration")
        if point.attributes["gen_ai.tool.name"] == "fail"
    ]
    assert point.attributes["error.type"] == "tool_error"
    assert seen.one("invoke_agent lead").status.status_code is not StatusCode.ERROR


async def test_a_broken_request_ends_its_span_and_the_next_attempt_has_its_own(
    seen: Seen,
) -> None:
    broken = ModelError("overloaded", retryable=True, retry_after_s=0.0)
    model = ScriptedModel([broken, "done"])
    await Lead(model=model, telemetry=seen.telemetry).run("x")
    first, second = seen.named("chat scripted")
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description is None, "a provider's text may quote what was said"
    assert attributes(first)["error.type"] == "ModelError"
    assert attributes(first)["gen_ai.response.finish_reasons"] == ("error",)
    assert second.status.status_code is not StatusCode.ERROR
    assert [event.name for event in seen.one("invoke_agent lead").events] == [
        "agentkit.turn_dropped"
    ]
    durations = seen.points("gen_ai.client.inference.duration")
    assert {point.attributes.get("error.type"): point.count for point in durations} == {
        "ModelError": 1,
        None: 1,
    }


async def test_a_run_that_fails_says_so_and_quotes_no_answer(seen: Seen) -> None:
    class Counter(Agent[None, int]):
        """You count."""

        max_repairs = 0

    with pytest.raises(OutputError):
        await Counter(model=ScriptedModel(["xylophone"]), telemetry=seen.telemetry).run("x")
    span = seen.one("invoke_agent counter")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert attributes(span)["agentkit.run.status"] == "failed"
    assert attributes(span)["error.type"] == "OutputError"


async def test_arguments_nested_deeper_than_json_is_written_are_shown_as_text() -> None:
    seen = Seen(content=True)
    deep = '{"a": ' + "[" * 5_000 + "]" * 5_000 + "}"
    model = ScriptedModel([[Call("add", deep), Call("add", "3"), Call("add", '{"a": [1]}')], "ok"])
    assert (await Lead(model=model, telemetry=seen.telemetry).run("x")).output == "ok"
    answer, _ = json.loads(attributes(seen.named("chat scripted")[1])["gen_ai.input.messages"])
    shown = [part["arguments"] for part in answer["parts"]]
    assert shown == [deep, 3, {"a": [1]}]


async def test_a_cancelled_run_ends_all_its_spans(seen: Seen) -> None:
    begun = asyncio.Event()

    class Slow(Agent):
        """You are slow."""

        @tool
        async def wait(self) -> str:
            """Wait."""
            begun.set()
            await asyncio.Event().wait()
            return ""

    agent = Slow(model=ScriptedModel([Call("wait")]), telemetry=seen.telemetry)
    task = asyncio.create_task(agent.run("x"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(span.name for span in seen.spans) == [
        "chat scripted",
        "execute_tool wait",
        "invoke_agent slow",
    ]
    assert attributes(seen.one("invoke_agent slow"))["agentkit.run.status"] == "cancelled"
    assert attributes(seen.one("execute_tool wait"))["error.type"] == "cancelled"
    [point] = seen.points("gen_ai.invoke_agent.duration")
    assert point.attributes["error.type"] == "cancelled"


async def test_a_stream_that_is_left_in_the_middle_of_an_answer_ends_its_spans(
    seen: Seen,
) -> None:
    agent = Lead(model=ScriptedModel(["a long answer"]), telemetry=seen.telemetry)
    async with agent.stream("x") as events:
        async for event in events:
            if isinstance(event, TextDelta):
                break
    assert attributes(seen.one("invoke_agent lead"))["agentkit.run.status"] == "left"
    chat = seen.one("chat scripted")
    assert attributes(chat)["error.type"] == "cancelled"
    assert attributes(chat)["gen_ai.response.finish_reasons"] == ("error",)


async def test_the_readers_own_context_is_as_it_was_between_two_events(seen: Seen) -> None:
    """A span that stayed current would become the parent of whatever the reader does."""
    agent = Lead(
        model=ScriptedModel([Call("add", {"a": 1, "b": 2}), "done"]),
        telemetry=seen.telemetry,
        limits=Limits(seconds=60.0),
    )
    tracer = seen.tracers.get_tracer("test")
    with tracer.start_as_current_span("request of the web server") as mine:
        async with agent.stream("x") as events:
            async for event in events:
                assert trace.get_current_span() is mine
                if isinstance(event, RunEnd):
                    break
        assert trace.get_current_span() is mine
    run = seen.one("invoke_agent lead")
    assert seen.parent(run) is seen.one("request of the web server")


async def test_a_stream_may_be_closed_by_another_task_than_the_one_that_read_it(
    seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    """A context token that is given back in another context is an error in OpenTelemetry's log."""
    agent = Lead(model=ScriptedModel(["a long answer"]), telemetry=seen.telemetry)
    events = agent.stream("x")
    await asyncio.create_task(_first(events))
    await asyncio.create_task(events.aclose())
    assert caplog.records == []
    assert {span.name for span in seen.spans} == {"chat scripted", "invoke_agent lead"}


async def _first(events: Any) -> Any:
    await anext(events)  # the run's start
    return await anext(events)


async def test_the_tools_span_is_current_in_its_task(seen: Seen) -> None:
    current: list[trace.Span] = []

    class Curious(Agent):
        """You are curious."""

        @tool
        async def look(self) -> str:
            """Look, in the event loop."""
            current.append(trace.get_current_span())
            return ""

        @tool
        def look_too(self) -> str:
            """Look, in a thread."""
            current.append(trace.get_current_span())
            return ""

    model = ScriptedModel([[Call("look"), Call("look_too")], "done"])
    await Curious(model=model, telemetry=seen.telemetry).run("x")
    spans = {span.get_span_context().span_id for span in current}
    calls = [seen.one("execute_tool look"), seen.one("execute_tool look_too")]
    assert spans == {span.context.span_id for span in calls}


async def test_a_call_that_waits_for_a_person_is_no_error_and_the_run_goes_on_in_a_new_span(
    seen: Seen,
) -> None:
    class Careful(Agent):
        """You are careful."""

        @tool(requires_approval=True)
        def pay(self) -> str:
            """Pay."""
            return "paid"

    agent = Careful(model=ScriptedModel([Call("pay"), "done"]), telemetry=seen.telemetry)
    with pytest.raises(ApprovalRequired) as waiting:
        await agent.run("x")
    paused = waiting.value.paused
    await agent.resume(paused, {paused.pending[0].id: Approve()})
    first, second = seen.named("invoke_agent careful")
    assert attributes(first)["agentkit.run.status"] == "paused"
    assert attributes(first)["agentkit.run.pending_calls"] == 1
    assert attributes(second)["agentkit.run.status"] == "done"
    assert attributes(first)["agentkit.run.id"] == attributes(second)["agentkit.run.id"]
    waits, runs = seen.named("execute_tool pay")
    assert attributes(waits)["agentkit.call.suspended"] is True
    assert waits.status.status_code is not StatusCode.ERROR
    assert "agentkit.call.suspended" not in attributes(runs)


async def test_metrics_count_what_the_result_counts(seen: Seen) -> None:
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "done"])
    result = await Lead(model=model, telemetry=seen.telemetry).run("hello")
    usage = result.usage
    prefix = "gen_ai.client.inference.usage"
    for name, amount in (
        (f"{prefix}.input_tokens", usage.input_tokens),
        (f"{prefix}.output_tokens", usage.output_tokens),
        (f"{prefix}.cache_read.input_tokens", usage.cache_read_tokens),
        (f"{prefix}.cache_write.input_tokens", usage.cache_write_tokens),
    ):
        [point] = seen.points(name)
        assert point.value == amount
        assert point.attributes["gen_ai.token.modality"] == "unknown"
    [requests] = seen.points("gen_ai.invoke_agent.inference_calls")
    assert (requests.count, requests.sum) == (1, 2)
    [calls] = seen.points("gen_ai.invoke_agent.tool_calls")
    assert (calls.count, calls.sum) == (1, 1)
    [first] = seen.points("gen_ai.client.inference.time_to_first_chunk")
    assert first.count == 2


async def test_many_runs_at_once_keep_their_spans_apart(seen: Seen) -> None:
    def respond(request: Any) -> Any:
        said = len(request.context.messages)
        return Call("add", {"a": 1, "b": 2}) if said == 1 else "done"

    agent = Lead(model=ScriptedModel(respond), telemetry=seen.telemetry)
    await asyncio.gather(*(agent.run(f"x{number}") for number in range(20)))
    by_trace: dict[int, list[str]] = {}
    for span in seen.spans:
        by_trace.setdefault(span.context.trace_id, []).append(span.name)
    assert len(by_trace) == 20
    expected = ["chat scripted", "chat scripted", "execute_tool add", "invoke_agent lead"]
    assert all(sorted(names) == expected for names in by_trace.values())


async def test_telemetry_changes_no_byte_of_any_request(seen: Seen) -> None:
    wires = []
    for telemetry in (None, seen.telemetry, Seen(content=True).telemetry):
        model = ScriptedModel([[Call("add", {"a": 1, "b": 2}), Call("fail")], "done"])
        await Lead(model=model, telemetry=telemetry).run("hello")
        wires.append([call.wire for call in model.calls])
    assert wires[0] == wires[1] == wires[2]


async def test_closing_what_telemetry_returns_closes_the_models_stream(seen: Seen) -> None:
    closed = []

    class Leaky(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            try:
                async with aclosing(super().stream(request)) as events:
                    async for event in events:
                        yield event
            finally:
                closed.append(trace.get_current_span())

    agent = Lead(model=Leaky(["a long answer"]), telemetry=seen.telemetry)
    async with agent.stream("x") as events:
        await _first(events)
    assert len(closed) == 1
    assert closed[0].get_span_context().span_id == seen.one("chat scripted").context.span_id


async def test_a_fan_out_outside_a_run_is_traced_as_its_parent_says(seen: Seen) -> None:
    model = ScriptedModel({"reader": ["a", "b"]})
    lead = Lead(model=model, telemetry=seen.telemetry)
    await fan_out(lead, [(Reader, "a"), (Reader, "b")])
    assert [span.parent for span in seen.named("invoke_agent reader")] == [None, None]


async def test_a_request_for_a_summary_is_traced_and_later_requests_say_so(seen: Seen) -> None:
    digger = Digger(12)
    result = await digger.agent(telemetry=seen.telemetry).run("Dig.")
    chats = seen.named("chat scripted")
    assert len(chats) == len(result.requests)
    [at] = [n for n, c in enumerate(chats) if "-summary-" in attributes(c)["agentkit.request.id"]]
    compacted = [attributes(chat).get("gen_ai.conversation.compacted") for chat in chats]
    assert compacted == [None] * (at + 1) + [True] * (len(chats) - at - 1)
    [event] = seen.one("invoke_agent digger").events
    assert event.name == "agentkit.context_compacted"


async def test_a_handoff_is_an_event_of_the_run_and_requests_name_who_asks(seen: Seen) -> None:
    class Clerk(Agent):
        """You refund."""

    class Desk(Agent):
        """You route."""

        handoffs = (Clerk,)

    model = ScriptedModel({"desk": [Call("handoff_to_clerk", {"note": "n"})], "clerk": ["done"]})
    await Desk(model=model, telemetry=seen.telemetry).run("x")
    [event] = seen.one("invoke_agent desk").events
    assert event.name == "agentkit.handoff"
    told = dict(event.attributes or {})
    assert (told["agentkit.handoff.from"], told["agentkit.handoff.to"]) == ("desk", "clerk")
    asking = [attributes(span)["gen_ai.agent.name"] for span in seen.named("chat scripted")]
    assert asking == ["desk", "clerk"]


async def test_a_request_that_another_model_answered_is_named_after_that(seen: Seen) -> None:
    class Answered(ScriptedModel):
        """As a fallback does, it says who has answered in its place."""

        async def stream(self, request: Any) -> Any:
            async with aclosing(super().stream(request)) as events:
                async for event in events:
                    is_usage = isinstance(event, UsageEvent)
                    yield replace(event, model="openai:cheap") if is_usage else event

    model = Answered(["done"], label="anthropic:dear")
    result = await Agent(model=model, name="clerk", telemetry=seen.telemetry).run("x")
    assert result.requests[0].model == "openai:cheap"
    answered = attributes(seen.one("chat cheap"))
    assert answered["gen_ai.provider.name"] == "openai"
    assert answered["gen_ai.response.model"] == "cheap"
    [tokens] = seen.points("gen_ai.client.inference.usage.output_tokens")
    assert tokens.attributes["gen_ai.request.model"] == "cheap"


async def test_a_run_past_its_deadline_ends_all_its_spans(seen: Seen) -> None:
    class Slow(Agent):
        """You are slow."""

        @tool
        async def wait(self) -> str:
            """Wait."""
            await asyncio.Event().wait()
            return ""

    model = ScriptedModel([Call("wait")])
    agent = Slow(model=model, telemetry=seen.telemetry, limits=Limits(seconds=0.05))
    with pytest.raises(LimitReached):
        await agent.run("x")
    run = seen.one("invoke_agent slow")
    assert attributes(run)["agentkit.run.status"] == "failed"
    assert attributes(run)["error.type"] == "LimitReached"
    assert seen.one("execute_tool wait").end_time is not None
