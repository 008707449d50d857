"""Responses that go on without their client."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from agentkit_runtime.api.answer import Answer
from agentkit_runtime.chat import ChatEvent
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.openai.strict import strictly, unknown_fields
from tests.runtime.api.serving import Served
from tests.runtime.service.scripted import BOUND_S, wait_until

BODY = {"model": "scripted", "input": "hello", "background": True}
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"{served.url}/v1", timeout=BOUND_S) as client:
        yield client


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(autouse=True)
def open_again(served: Served) -> Iterator[None]:
    """A test that fails while it holds the model must not fail the others."""
    yield
    served.pace.go()


def begin(http: httpx2.Client, **fields: Any) -> Response:
    body = {**BODY, **fields}
    found = http.post("/responses", json=body)
    assert found.status_code == 200, found.text
    return strictly(Response, found.json())


def look(http: httpx2.Client, response_id: str) -> Response:
    return strictly(Response, http.get(f"/responses/{response_id}").json())


def ended(http: httpx2.Client, response_id: str) -> Response:
    wait_until(lambda: look(http, response_id).status not in ("queued", "in_progress"))
    return look(http, response_id)


def events_of(text: str) -> list[ResponseStreamEvent]:
    events = []
    for block in text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = EVENT.validate_python(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {event.type}"
        assert not list(unknown_fields(event))
        events.append(event)
    return events


def test_it_is_queued_then_under_way_then_there(served: Served, http: httpx2.Client) -> None:
    served.pace.hold()
    begun = begin(http)
    served.pace.waiting.wait(BOUND_S)
    before = look(http, begun.id)
    served.pace.go()
    done = ended(http, begun.id)

    assert (begun.status, begun.background, begun.output) == ("queued", True, [])
    assert before.status in ("queued", "in_progress")
    assert (done.status, done.output_text) == ("completed", ANSWERS["hello"])
    assert done.usage is not None
    assert len(http.get(f"/responses/{begun.id}/input_items").json()["data"]) == 1


def test_a_finished_one_is_gone_on_from_by_its_ids(http: httpx2.Client) -> None:
    done = ended(http, begin(http).id)
    assert done.usage is not None

    after = ended(http, begin(http, input="hello again", previous_response_id=done.id).id)

    assert after.usage is not None
    assert after.usage.input_tokens_details.cached_tokens >= done.usage.total_tokens - 1


def test_one_whose_end_was_told_is_gone_on_from_at_once_and_stays_so(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told, may_go, lingers = Answer.events, threading.Event(), iter([True])

    async def lingering(answer: Answer) -> AsyncIterator[tuple[int, ChatEvent]]:
        async for event in told(answer):
            yield event
        if next(lingers, False):
            await asyncio.to_thread(may_go.wait, BOUND_S)
            raise OSError

    begun = ""
    monkeypatch.setattr(Answer, "events", lingering)
    try:
        with http.stream("POST", "/responses", json={**BODY, "stream": True}) as stream:
            for line in stream.iter_lines():
                begun = begun or line.partition('"id":"')[2].partition('"')[0]
                if '"type":"response.completed"' in line:
                    break
            assert look(http, begun).status == "completed"
            after = http.post("/responses", json={**BODY, "previous_response_id": begun})
    finally:
        may_go.set()

    assert after.status_code == 200, after.text
    wait_until(lambda: "a background response failed: OSError" in caplog.text)
    assert look(http, begun).status == "completed"


def test_one_that_is_under_way_is_not_gone_on_from(served: Served, http: httpx2.Client) -> None:
    served.pace.hold()
    begun = begin(http)
    body = {"model": "scripted", "input": "hello", "previous_response_id": begun.id}
    refused = http.post("/responses", json=body)
    served.pace.go()
    ended(http, begun.id)

    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "previous_response_id"


def test_a_cancelled_one_frees_its_slots_and_stays_cancelled(
    served: Served, http: httpx2.Client
) -> None:
    begun = begin(http, input="novel")
    wait_until(lambda: look(http, begun.id).status == "in_progress")

    first = strictly(Response, http.post(f"/responses/{begun.id}/cancel").json())
    again = strictly(Response, http.post(f"/responses/{begun.id}/cancel").json())

    assert first.status == "cancelled"
    assert first == again == look(http, begun.id)
    wait_until(lambda: served.idle)
    body = {"model": "scripted", "input": "hello", "previous_response_id": begun.id}
    assert http.post("/responses", json=body).status_code == 400


def test_one_that_is_done_cannot_be_cancelled_any_more(http: httpx2.Client) -> None:
    done = ended(http, begin(http).id)

    assert strictly(Response, http.post(f"/responses/{done.id}/cancel").json()) == done


def test_one_that_is_deleted_ends_and_is_gone(served: Served, http: httpx2.Client) -> None:
    begun = begin(http, input="novel")

    assert http.delete(f"/responses/{begun.id}").json()["deleted"] is True
    wait_until(lambda: served.idle)
    assert http.get(f"/responses/{begun.id}").status_code == 404


def test_a_client_that_vanishes_ends_nothing_and_reads_the_rest_later(
    served: Served, http: httpx2.Client
) -> None:
    body = {"model": "scripted", "input": "hello", "background": True, "stream": True}
    served.pace.hold()
    with http.stream("POST", "/responses", json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        created = json.loads(next(lines).removeprefix("data: "))
    response_id = created["response"]["id"]
    served.pace.go()
    assert ended(http, response_id).output_text == ANSWERS["hello"]

    url = f"/responses/{response_id}"
    every = events_of(http.get(url, params={"stream": True}).text)
    rest = events_of(http.get(url, params={"stream": True, "starting_after": 2}).text)

    assert [event.type for event in every[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert every[-1].type == "response.completed"
    assert [event.sequence_number for event in every] == list(range(len(every)))
    assert rest == every[3:]


def test_who_follows_while_it_goes_on_hears_all_of_it(
    served: Served, client: openai.OpenAI
) -> None:
    served.pace.hold()
    stream = client.responses.create(model="scripted", input="hello", background=True, stream=True)
    created = next(iter(stream))
    assert created.type == "response.created"
    follower = client.responses.retrieve(created.response.id, stream=True)
    served.pace.go()
    told = [event.type for event in follower]

    assert told == [created.type, *(event.type for event in stream)]
    assert told[-1] == "response.completed"


def test_a_cancellation_ends_the_streams_of_those_who_follow(
    served: Served, client: openai.OpenAI
) -> None:
    stream = client.responses.create(model="scripted", input="novel", background=True, stream=True)
    events = iter(stream)
    created = next(events)
    assert created.type == "response.created"
    client.responses.cancel(created.response.id)

    *_, last = events
    assert last.type in ("response.output_item.done", "response.queued", "response.in_progress")
    wait_until(lambda: served.idle)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": False}, "background"),
        ({"tools": [{"type": "mcp"}]}, "tools[0].type"),
        ({"input": "word " * 200_000}, "input"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(
    http: httpx2.Client, fields: dict[str, Any], param: str
) -> None:
    body = {**BODY, **fields}
    found = http.post("/responses", json=body)

    assert (found.status_code, found.json()["error"]["param"]) == (400, param)


def test_what_was_not_begun_as_a_stream_is_not_streamed(http: httpx2.Client) -> None:
    done = ended(http, begin(http).id)

    found = http.get(f"/responses/{done.id}", params={"stream": True})
    assert (found.status_code, found.json()["error"]["param"]) == (400, "stream")
