"""The local model's stream: events translated, errors in our words, aborts passed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import pytest

from agentkit.blocks import ToolCall
from agentkit.context import Context
from agentkit.errors import ModelError, RequestRefused
from agentkit.events import ModelEvent, TextDelta
from agentkit.folding import fold
from agentkit.models.base import HasWindow, KeepsAlive, Model, ModelRequest, Reuse, Warms
from agentkit.models.engines import EngineRegistry, Options
from agentkit.models.local import LocalModel
from agentkit.models.waits import FIRST_GUESS_S, LONGEST_S, ToolWaits
from agentkit.toolset import Toolset
from agentkit.usage import Timing, Usage
from agentkit_runtime import chat
from agentkit_runtime.errors import EngineStopped, PinRefused, RequestRejected
from agentkit_runtime.kv.hints import Hint, SessionDone, SessionWaits
from agentkit_runtime.types import Priority, RequestStats

STATS = RequestStats(
    prompt_tokens=100, cached_tokens=80, completion_tokens=7, queue_s=0.0, ttft_s=0.1, total_s=0.2
)
REQUEST = ModelRequest(
    context=Context(), toolset=Toolset(), agent="a", run_id="r", request_id="r-0-0"
)


class FakeRuntime:
    """Replays events; an exception among them is raised."""

    def __init__(self, *events: chat.ChatEvent | Exception) -> None:
        self.events = events
        self.asked: list[chat.ChatRequest] = []
        self.aborted = 0
        self.advice: list[Hint] = []
        self.context_tokens = 4096

    def advise(self, hint: Hint) -> None:
        self.advice.append(hint)

    async def chat(self, request: chat.ChatRequest) -> AsyncGenerator[chat.ChatEvent, None]:
        self.asked.append(request)
        try:
            for event in self.events:
                await asyncio.sleep(0)
                if isinstance(event, Exception):
                    raise event
                yield event
        except (GeneratorExit, asyncio.CancelledError):
            self.aborted += 1
            raise

    def close(self) -> None: ...


def model(runtime: FakeRuntime) -> LocalModel:
    def load(spec: str, options: Options) -> FakeRuntime:
        return runtime

    return LocalModel("fake", registry=EngineRegistry(load))  # type: ignore[arg-type]


async def collect(runtime: FakeRuntime) -> list[ModelEvent]:
    return [event async for event in model(runtime).stream(REQUEST)]


async def test_a_reply_with_a_call_becomes_a_turn() -> None:
    runtime = FakeRuntime(
        chat.ContentDelta("I "),
        chat.ContentDelta("add."),
        chat.ToolCallStart(index=0, id="c1", name="add"),
        chat.ToolCallArguments(index=0, text='{"a":'),
        chat.ToolCallArguments(index=0, text=" 1}"),
        chat.ChatFinished(reason="tool_calls", stats=STATS),
    )

    turn = fold(await collect(runtime))

    assert turn.message.text == "I add."
    assert turn.message.calls == (ToolCall(id="c1", name="add", arguments='{"a": 1}'),)
    assert turn.finish == "tool_calls"
    assert turn.usage == Usage(
        input_tokens=100, cache_read_tokens=80, cache_write_tokens=20, output_tokens=7
    )
    assert turn.timing == Timing(ttft_s=0.1, total_s=0.2)
    assert runtime.asked[0].request_id == "r-0-0"


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_a_request_that_the_engine_ends_is_a_model_error(reason: str) -> None:
    finished = chat.ChatFinished(reason=reason, stats=STATS, error="out of luck")  # type: ignore[arg-type]

    with pytest.raises(ModelError, match="out of luck"):
        await collect(FakeRuntime(finished))


async def test_a_rejected_request_is_refused_in_our_words() -> None:
    with pytest.raises(RequestRefused, match="local:fake refused the request: too long"):
        await collect(FakeRuntime(RequestRejected("too long", field="messages")))


async def test_a_stopped_engine_is_a_model_error() -> None:
    with pytest.raises(ModelError, match="closed"):
        await collect(FakeRuntime(EngineStopped("closed")))


async def test_closing_the_stream_aborts_the_request() -> None:
    runtime = FakeRuntime(chat.ContentDelta("a"), chat.ContentDelta("b"))
    async with aclosing(model(runtime).stream(REQUEST)) as events:
        assert await anext(events) == TextDelta("a")

    assert runtime.aborted == 1


async def test_cancelling_the_consumer_aborts_the_request() -> None:
    runtime = FakeRuntime(*[chat.ContentDelta("a")] * 1000)
    begun = asyncio.Event()

    async def consume() -> None:
        async for _ in model(runtime).stream(REQUEST):
            begun.set()

    task = asyncio.create_task(consume())
    async with asyncio.timeout(30):
        await begun.wait()
    task.cancel()
    await asyncio.wait([task], timeout=30)

    assert task.cancelled()
    assert runtime.aborted == 1


def test_it_is_a_model() -> None:
    assert isinstance(model(FakeRuntime()), Model)
    assert model(FakeRuntime()).label == "local:fake"


# -- what the runtime is told ----------------------------------------------------------------------


async def test_the_window_is_known_once_the_engine_is_loaded() -> None:
    local = model(FakeRuntime(chat.ChatFinished(reason="stop", stats=STATS)))
    assert isinstance(local, HasWindow)
    before = local.context_tokens

    async for _ in local.stream(REQUEST):
        pass

    assert (before, local.context_tokens) == (None, 4096)


async def test_a_run_that_waits_for_its_tools_says_so() -> None:
    runtime = FakeRuntime(chat.ChatFinished(reason="stop", stats=STATS))
    local = model(runtime)
    assert isinstance(local, KeepsAlive)
    asking = replace(REQUEST, session="r", tenant="acme")
    async for _ in local.stream(asking):
        pass
    async with local.kept_alive(asking, lambda *_: None):
        told = list(runtime.advice)

    assert told == [SessionWaits("r", FIRST_GUESS_S, "acme")]
    assert (runtime.asked[0].session, runtime.asked[0].tenant) == ("r", "acme")
    assert runtime.asked[0].tags == {"a"}


async def test_without_an_engine_a_wait_is_told_to_nobody() -> None:
    async with model(FakeRuntime()).kept_alive(REQUEST, lambda *_: None):
        pass


async def test_a_request_that_nobody_goes_on_from_is_done_at_its_end() -> None:
    runtime = FakeRuntime(chat.ChatFinished(reason="stop", stats=STATS))
    last = replace(REQUEST, session="talk", reuse=Reuse(again=False))
    async for _ in model(runtime).stream(last):
        pass

    assert runtime.asked[0].session == "talk/r", "a run below the one that the session is named for"
    assert runtime.advice == [SessionDone("talk/r", "default")]


@pytest.mark.parametrize(
    ("problem", "kind"),
    [(RequestRejected("no front"), RequestRefused), (PinRefused("quota of 8 tokens"), ModelError)],
)
async def test_what_cannot_be_warmed_is_said_in_our_words(
    problem: Exception, kind: type[ModelError]
) -> None:
    class Prefixes:
        async def prewarm(self, request: chat.ChatRequest, **how: object) -> None:
            assert request.session is None, "a front is no conversation's"
            assert request.priority is Priority.BATCH
            assert how == {"pin": True, "ttl_s": 60.0, "name": "a"}
            raise problem

    class Warmed(FakeRuntime):
        prefixes = Prefixes()

    local = model(Warmed())
    assert isinstance(local, Warms)
    with pytest.raises(kind, match=f"local:fake .*{problem}"):
        await local.warm(REQUEST, keep_s=60.0)


def test_waits_are_learned_for_each_agent_of_each_tenant() -> None:
    waits = ToolWaits()
    for _ in range(20):
        waits.took("t", "quick", 0.1)
        waits.took("t", "usual", 4.0)
        waits.took("t", "slow", 100.0)

    assert waits.expected_s("t", "quick") == 5.0
    assert waits.expected_s("t", "usual") == pytest.approx(12.0)
    assert waits.expected_s("u", "usual") == FIRST_GUESS_S
    waits.took("t", "usual", 0.0)
    assert waits.expected_s("t", "usual") == pytest.approx(8.4)
    assert waits.expected_s("t", "slow") == LONGEST_S, "it is worth no more room than others"
