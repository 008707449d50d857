"""When what a request writes can be read, and what is left of one whose client goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import httpx2
import pytest

from agentkit.caching.simulate import MissReason, Served
from agentkit.caching.times import VirtualTime
from agentkit.fake import Ask, Failure, FakeProvider, Reply

ASK: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Rules. " * 1_000, "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "x"}],
}


def slowly(ask: Ask) -> Reply:
    """Ten seconds to the first byte, and ten more to the last."""
    del ask
    return Reply(text="a long answer, in more than a few pieces", first_byte_s=10, seconds=10)


@pytest.fixture
def slow(time: VirtualTime) -> FakeProvider:
    return FakeProvider(time=time, respond=slowly)


@pytest.fixture
async def client(slow: FakeProvider) -> AsyncIterator[httpx2.AsyncClient]:
    """No SDK here: they look at the machine in a thread first, and this time is not a thread's."""
    async with httpx2.AsyncClient(
        transport=slow.transport(), base_url="http://fake", headers={"x-api-key": "key"}
    ) as http:
        yield http


async def whole(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/v1/messages", json=ASK)


async def drain(client: httpx2.AsyncClient) -> None:
    async with client.stream("POST", "/v1/messages", json={**ASK, "stream": True}) as response:
        await response.aread()


async def wait(time: VirtualTime, seconds: float) -> None:
    """Let all requests arrive that were sent, then let time go by."""
    for _ in range(100):
        await asyncio.sleep(0)
    await time.advance(seconds)


async def test_requests_that_start_together_cold_all_pay_for_the_write(
    slow: FakeProvider, client: httpx2.AsyncClient, time: VirtualTime
) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(drain(client))
        await wait(time, 25)
    served = [each for each in slow.served if isinstance(each, Served)]
    assert [each.read for each in served] == [0, 0, 0]
    assert {each.miss_reason for each in served[1:]} == {MissReason.NOT_YET_READABLE}


async def test_a_request_reads_what_one_wrote_whose_response_has_only_begun(
    slow: FakeProvider, client: httpx2.AsyncClient, time: VirtualTime
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(drain(client))
        await wait(time, 11)
        assert [record.status for record in slow.records] == [None]
        group.create_task(drain(client))
        await wait(time, 25)
    served = [each for each in slow.served if isinstance(each, Served)]
    assert served[1].read == served[0].split.written > 0


async def test_a_response_in_one_piece_begins_when_it_ends(
    slow: FakeProvider, client: httpx2.AsyncClient, time: VirtualTime
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(whole(client))
        await wait(time, 11)
        group.create_task(whole(client))
        await wait(time, 25)
    served = [each for each in slow.served if isinstance(each, Served)]
    assert [each.read for each in served] == [0, 0]


async def test_a_client_that_goes_away_before_the_first_byte_leaves_nothing(
    slow: FakeProvider, client: httpx2.AsyncClient, time: VirtualTime
) -> None:
    gone = asyncio.create_task(whole(client))
    await wait(time, 5)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert [(record.status, record.outcome) for record in slow.records] == [(499, None)]
    async with asyncio.TaskGroup() as group:
        group.create_task(whole(client))
        await wait(time, 25)
    (served,) = slow.served
    assert isinstance(served, Served)
    assert served.miss_reason is MissReason.NEVER_WRITTEN


async def test_a_client_that_goes_away_in_the_middle_has_written_and_pays(
    slow: FakeProvider, client: httpx2.AsyncClient, time: VirtualTime
) -> None:
    async def look_and_leave() -> None:
        body = {**ASK, "stream": True}
        async with client.stream("POST", "/v1/messages", json=body) as response:
            async for part in response.aiter_bytes():
                if b"text_delta" in part:
                    return

    async with asyncio.TaskGroup() as group:
        group.create_task(look_and_leave())
        await wait(time, 25)
    (record,) = slow.records
    assert record.status == 499
    assert isinstance(record.outcome, Served)
    assert record.outcome.cost is not None
    assert record.outcome.cost.output == 0
    async with asyncio.TaskGroup() as group:
        group.create_task(drain(client))
        await wait(time, 25)
    last = slow.served[-1]
    assert isinstance(last, Served)
    assert last.read == record.outcome.split.written > 0


async def test_a_failure_comes_when_it_was_told_to_and_is_not_billed(time: VirtualTime) -> None:
    fake = FakeProvider(time=time, respond=lambda _: Failure(status=529, after_s=3))
    async with httpx2.AsyncClient(transport=fake.transport(), base_url="http://fake") as http:
        asked = asyncio.create_task(
            http.post("/v1/messages", json=ASK, headers={"x-api-key": "key"})
        )
        await wait(time, 2)
        assert not asked.done()
        await wait(time, 2)
        assert (await asked).json()["error"]["type"] == "overloaded_error"
    assert fake.served == []
    assert fake.ledger()["totals"][0]["misses"] == {"not served (status 529)": 1}


async def test_life_counts_from_the_start_of_the_request_that_wrote(
    client: httpx2.AsyncClient, slow: FakeProvider, time: VirtualTime
) -> None:
    for pause in (0, 270, 290):  # 20 seconds of each five minutes go to the answer
        await wait(time, pause)
        async with asyncio.TaskGroup() as group:
            group.create_task(drain(client))
            await wait(time, 20)
    served = [each for each in slow.served if isinstance(each, Served)]
    assert [each.read > 0 for each in served] == [False, True, False]


@pytest.mark.parametrize(
    ("marked", "warmed", "usd"),
    [(True, False, "0.80"), (False, False, "0.64"), (True, True, "0.128")],
)
async def test_eight_agents_with_forty_thousand_tokens_in_common_cost_what_is_documented(
    client: httpx2.AsyncClient,
    slow: FakeProvider,
    time: VirtualTime,
    marked: bool,
    warmed: bool,
    usd: str,
) -> None:
    """Cold in parallel, without a cache, and one ahead of seven."""
    rules: dict[str, Any] = {"type": "text", "text": ""}
    rules["text"] = "x" * (160_000 - len(json.dumps(rules, separators=(",", ":"))))
    if marked:
        rules["cache_control"] = {"type": "ephemeral"}
    body = {**ASK, "system": [rules], "stream": True}

    async def ask() -> None:
        async with client.stream("POST", "/v1/messages", json=body) as response:
            await response.aread()

    async with asyncio.TaskGroup() as group:
        group.create_task(ask())
        await wait(time, 11 if warmed else 0)
        for _ in range(7):
            group.create_task(ask())
        await wait(time, 40)
    served = [each for each in slow.served if isinstance(each, Served)]
    own = 7  # tokens of each request's own question
    shared = sum(
        (
            each.cost.read + each.cost.write + (each.uncached - own) * Decimal("0.000002")
            for each in served
            if each.cost is not None
        ),
        Decimal(0),
    )
    assert len(served) == 8
    assert shared == Decimal(usd)
