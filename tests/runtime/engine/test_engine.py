"""The engine thread: submit, stream, abort, close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentkit_runtime.core import EngineCore
from agentkit_runtime.engine import Engine
from agentkit_runtime.errors import EngineStopped, RequestRejected
from agentkit_runtime.types import (
    Delta,
    Finished,
    FinishReason,
    GenerateRequest,
    SamplingParams,
    TextDelta,
)


class Text:
    def push(self, token_id: int) -> TextDelta:
        return TextDelta(f"{token_id} ")

    def finish(self) -> str:
        return ""


def request(request_id: str, prompt: list[int], n: int = 8) -> GenerateRequest:
    return GenerateRequest(
        request_id=request_id,
        prompt=tuple(prompt),
        namespace=b"ns",
        text=Text(),
        sampling=SamplingParams(max_tokens=n),
    )


@pytest.fixture
def engine(make: Callable[..., Any]) -> Iterator[Engine]:
    with Engine(make(n_slots=2000).core) as engine:
        yield engine


async def collect(engine: Engine, req: GenerateRequest) -> tuple[list[int], Finished]:
    ids: list[int] = []
    async for event in engine.submit(req):
        if isinstance(event, Finished):
            return ids, event
        ids += event.token_ids
    raise AssertionError("the stream ended without Finished")


async def test_many_streams_at_once_give_what_each_gives_alone(
    engine: Engine, make: Callable[..., Any]
) -> None:
    prompts = [[i, *range(1, 30 + i)] for i in range(6)]
    async with asyncio.timeout(60):
        got = await asyncio.gather(
            *(collect(engine, request(f"r{i}", p)) for i, p in enumerate(prompts))
        )
    for prompt, (ids, finished) in zip(prompts, got, strict=True):
        assert ids == make().generate(prompt, 8).ids
        assert finished.reason is FinishReason.LENGTH
        assert finished.stats.ttft_s is not None
        assert finished.stats.ttft_s <= finished.stats.total_s


async def test_an_abort_ends_the_stream_and_frees_its_slots(engine: Engine) -> None:
    generation = engine.submit(request("r", [1, 2, 3], n=300))
    async with asyncio.timeout(60):
        last = None
        async for event in generation:
            if isinstance(event, Delta):
                generation.abort()
                generation.abort()
            last = event
    assert isinstance(last, Finished)
    assert last.reason is FinishReason.ABORT
    assert engine.stats().held_slots == 0


async def test_a_request_id_in_use_is_refused_and_the_first_goes_on(engine: Engine) -> None:
    async with asyncio.timeout(60):
        first, second = await asyncio.gather(
            collect(engine, request("same", [1, 2, 3], n=100)),
            collect(engine, request("same", [1, 2, 3], n=100)),
        )
    assert len(first[0]) == 100
    assert second[1].reason is FinishReason.ERROR


async def test_closing_ends_pending_requests_with_an_error(make: Callable[..., Any]) -> None:
    engine = Engine(make(n_slots=2000).core).start()
    generation = engine.submit(request("r", [1, 2, 3], n=300))
    async with asyncio.timeout(60):
        events = aiter(generation)
        await anext(events)
        engine.close()
        rest = [event async for event in events]
    assert isinstance(rest[-1], Finished)
    assert rest[-1].error == "the engine was closed"
    with pytest.raises(EngineStopped):
        engine.submit(request("r2", [1]))
    engine.close()


async def test_a_request_that_cannot_run_is_rejected_by_submit(engine: Engine) -> None:
    with pytest.raises(RequestRejected):
        engine.submit(request("r", []))


async def test_a_fault_in_the_engine_thread_ends_every_request(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours must not leave anybody waiting."""
    core = make(n_slots=2000).core
    seen: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    monkeypatch.setattr(core.scheduler, "plan", lambda: 1 / 0)
    engine = Engine(core).start()
    async with asyncio.timeout(60):
        _, finished = await collect(engine, request("r", [1, 2]))
    assert finished.error == "the engine failed: ZeroDivisionError: division by zero"
    engine.close()
    assert seen[0].exc_type is ZeroDivisionError
    with pytest.raises(EngineStopped):
        engine.submit(request("r2", [1]))


def test_a_caller_whose_loop_is_gone_is_aborted(engine: Engine) -> None:
    async def leave() -> None:
        engine.submit(request("gone", [1, 2, 3], n=350))

    asyncio.run(leave())

    async def other() -> None:
        async with asyncio.timeout(60):
            await collect(engine, request("other", [4, 5, 6], n=4))
            while engine.stats().running:
                await collect(engine, request("again", [4, 5, 6], n=1))

    asyncio.run(other())
    assert engine.stats().held_slots == 0


async def test_work_is_done_in_the_engines_thread_and_its_result_comes_back(
    engine: Engine,
) -> None:
    seen: list[str] = []

    def work(core: EngineCore) -> int:
        seen.append(threading.current_thread().name)
        core.check_integrity()
        return core.cache.n_slots

    assert engine.call(work).result(timeout=60) == 2000
    assert seen == ["agentkit-engine"]


async def test_what_work_raises_is_the_callers_and_the_engine_goes_on(engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError):
        engine.call(lambda _: 1 / 0).result(timeout=60)
    with pytest.raises(KeyboardInterrupt):
        engine.call(_interrupt).result(timeout=60)
    async with asyncio.timeout(60):
        _, finished = await collect(engine, request("r", [1, 2, 3]))
    assert finished.reason is FinishReason.LENGTH


def _interrupt(_: EngineCore) -> None:
    raise KeyboardInterrupt


async def test_work_that_was_cancelled_before_its_turn_is_not_done(engine: Engine) -> None:
    entered, leave = threading.Event(), threading.Event()

    def block(_: EngineCore) -> bool:
        entered.set()
        return leave.wait(60)

    done: list[int] = []
    first = engine.call(block)
    assert entered.wait(60)
    second = engine.call(lambda _: done.append(1))
    assert second.cancel()
    leave.set()
    assert first.result(timeout=60)
    engine.call(lambda _: None).result(timeout=60)
    assert done == []


async def test_a_closed_engine_takes_no_work(make: Callable[..., Any]) -> None:
    engine = Engine(make().core).start()
    engine.close()
    with pytest.raises(EngineStopped, match="closed"):
        engine.call(lambda core: core.stats())


async def test_work_that_waits_when_the_engine_closes_is_still_done(
    make: Callable[..., Any],
) -> None:
    engine = Engine(make().core).start()
    entered, leave = threading.Event(), threading.Event()
    engine.call(lambda _: (entered.set(), leave.wait(60)))
    assert entered.wait(60)
    last = engine.call(lambda core: core.cache.n_slots)
    closing = threading.Thread(target=engine.close)
    closing.start()
    leave.set()
    closing.join()
    assert last.result(timeout=60) == 512


async def test_requests_that_wait_for_something_else_do_not_make_the_thread_spin(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    core = make().core
    plans: list[int] = []
    planned = threading.Event()

    def plan() -> tuple[list[Any], list[Any]]:
        plans.append(1)
        planned.set()
        core.scheduler.idle_wait_s = 3600.0
        return [], []

    original = core.scheduler.plan
    monkeypatch.setattr(core.scheduler, "plan", plan)
    with Engine(core) as engine:
        generation = engine.submit(request("r", [1, 2, 3]))
        assert planned.wait(60)
        assert engine.call(lambda _: len(plans)).result(timeout=60) <= 2
        monkeypatch.setattr(core.scheduler, "plan", original)
        async with asyncio.timeout(60):
            generation.abort()  # a command wakes the thread, however long it wanted to wait
            last = [event async for event in generation][-1]
    assert isinstance(last, Finished)
    assert last.reason in (FinishReason.ABORT, FinishReason.LENGTH)
