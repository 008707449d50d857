"""The engine thread: submit, stream, abort, close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
