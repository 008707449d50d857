"""A key that is let in no more ends what was asked with it, in each API's own words."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
from openai.types.responses import ResponseErrorEvent
from typer.testing import CliRunner

from agentkit_runtime.api import standing
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.standing import Standing, Standings
from agentkit_runtime.cli import app
from tests.runtime.service.scripted import BOUND_S, wait_until
from tests.runtime.tenancy.house import House, ask, chat_body

ASKED = [{"role": "user", "content": "a novel"}]
STREAMS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": ASKED}),
    ("/v1/completions", {"prompt": "<|im_start|>user\na novel<|im_end|>\n<|im_start|>assistant\n"}),
    ("/v1/responses", {"input": "a novel"}),
    ("/v1/messages", {"messages": ASKED, "max_tokens": 4000}),
    ("/v1/agentkit/chat", {"version": 1, "request": {"messages": ASKED}}),
]


@pytest.fixture(autouse=True)
def looks_at_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "RECHECKED_S", 0.0)


@contextmanager
def guest(house: House) -> Iterator[tuple[httpx2.Client, str]]:
    """A client with a key of its own, of the tenant ann, and the key's id."""
    made = house.store.add(roles=frozenset({"user"}), tenant="ann", now_s=0.0)
    headers = {"Authorization": f"Bearer {made.key}"}
    with httpx2.Client(base_url=house.url, headers=headers, timeout=BOUND_S) as client:
        yield client, made.record.id


@contextmanager
def held(house: House) -> Iterator[None]:
    """The model stands still at its next token until the block ends."""
    house.pace.hold()
    try:
        yield
    finally:
        house.pace.go()


@contextmanager
def sent(house: House, request: httpx2.Request) -> Iterator[socket.socket]:
    """A connection on which this was asked for."""
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    address = ("127.0.0.1", int(house.url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=BOUND_S) as connection:
        raw = f"POST {request.url.path} HTTP/1.1\r\n{head}\r\n".encode() + request.read()
        connection.sendall(raw)
        yield connection


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_a_stream_of_a_revoked_key_ends_with_why(
    house: House, path: str, body: dict[str, Any]
) -> None:
    native = path == "/v1/agentkit/chat"
    sent = body if native else {"model": "scripted", "stream": True, **body}
    with guest(house) as (client, key_id), held(house):
        with client.stream("POST", path, json=sent) as answer:
            assert house.pace.waiting.wait(BOUND_S)
            house.store.revoke(key_id, now_s=1.0)
            house.pace.go()
            said = "".join(answer.iter_lines())
        again = client.post(path, json=sent)

    assert answer.status_code == 200
    assert "this API key is revoked; ask the operator for a new one" in said
    assert "Once" not in said, "what came behind the revocation was told"
    assert '"token_ids":[' not in said.replace(" ", "").replace("[]", ""), "or its ids were"
    assert again.status_code == 401
    wait_until(lambda: house.idle)


def test_an_answer_that_is_not_streamed_is_a_401(house: House) -> None:
    with guest(house) as (client, key_id), held(house):
        request = client.build_request("POST", "/v1/chat/completions", json=chat_body("a novel"))
        with sent(house, request) as connection:
            assert house.pace.waiting.wait(BOUND_S)
            house.store.revoke(key_id, now_s=1.0)
            house.pace.go()
            head = connection.makefile("rb").readline()
    assert b" 401 " in head
    wait_until(lambda: house.idle)


def test_the_command_ends_streams_and_those_of_others_go_on(house: House) -> None:
    body = chat_body("hello", stream=True)
    keys = ["--keys", str(house.store.path)]
    with guest(house) as (client, key_id), held(house):
        with (
            client.stream("POST", "/v1/chat/completions", json=body) as ended,
            house.ann.stream("POST", "/v1/chat/completions", json=body) as kept,
        ):
            assert house.pace.waiting.wait(BOUND_S)
            assert CliRunner().invoke(app, ["keys", "revoke", *keys, key_id]).exit_code == 0
            house.pace.go()
            lines = [[*answer.iter_lines()] for answer in (ended, kept)]
    error = json.loads(next(line for line in lines[0] if "error" in line)[6:])["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert lines[1][-2] == "data: [DONE]"


def test_a_key_is_looked_up_again_now_and_then_and_stays_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standing, "RECHECKED_S", 2.0)
    now_s, looks, fails = [100.0], [0], [False]

    def look() -> Caller:
        looks[0] += 1
        if fails[0]:
            raise ApiError("revoked", status=401)
        return Caller()

    found = Standing(look, clock=lambda: now_s[0])
    for _ in range(8):  # of 1 s each
        assert found.refusal() is None
        now_s[0] += 1.0
    assert looks == [3], "not at once, and then every other second"
    fails[0] = True
    refusal = found.refusal()
    fails[0] = False
    now_s[0] += 2.0
    assert refusal is not None
    assert found.refusal() is refusal
    assert looks == [4]


def test_a_key_that_lost_its_role_is_let_in_no_more() -> None:
    found = Standing(lambda: Caller(roles=frozenset({"admin"})), clock=lambda: 0.0)
    refusal = found.refusal()
    assert refusal is not None
    assert refusal.status == 403


# -- while nothing comes -----------------------------------------------------------------------


@pytest.fixture
def swept(looks_at_each_event: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are looked up by the clock only, and often."""
    monkeypatch.setattr(standing, "RECHECKED_S", BOUND_S)
    monkeypatch.setattr(standing, "SWEPT_S", 0.01)


@pytest.mark.usefixtures("swept")
def test_who_waits_with_a_revoked_key_never_begins(house: House) -> None:
    made = house.store.add(roles=frozenset({"user"}), tenant="dan", now_s=0.0)
    under_way = house.app.state.site.answering.standings
    asked = [
        (path, {"model": "scripted", **body, "stream": stream})
        for path, body in STREAMS
        for stream in ((True, False) if path != "/v1/agentkit/chat" else (True,))
    ]
    asked[-1] = STREAMS[-1]
    headers = {"Authorization": f"Bearer {made.key}"}
    with (
        httpx2.Client(base_url=house.url, headers=headers, timeout=BOUND_S) as client,
        ThreadPoolExecutor(1 + len(asked)) as clients,
        held(house),
    ):
        other = clients.submit(ask, house.ann)
        assert house.pace.waiting.wait(BOUND_S)
        answers = [clients.submit(client.post, path, json=body) for path, body in asked]
        wait_until(lambda: len(under_way) == 1 + len(asked))
        house.store.revoke(made.record.id, now_s=1.0)
        wait_until(lambda: len(under_way) == 1)
        house.pace.go()
        told = [answer.result() for answer in answers]
        assert other.result().status_code == 200

    assert [answer.status_code for answer in told] == [200, 401] * 4 + [200]
    for answer in told:
        assert "this API key is revoked; ask the operator for a new one" in answer.text
    assert "dan" not in house.service.stats().scheduler.computed, "it began"
    wait_until(lambda: house.idle and not len(under_way))


@pytest.mark.usefixtures("swept")
def test_events_end_with_the_key_that_reads_them_though_nothing_happens(house: House) -> None:
    made = house.store.add(roles=frozenset({"admin"}), tenant=None, now_s=0.0)
    headers = {"Authorization": f"Bearer {made.key}"}
    with (
        httpx2.Client(base_url=house.url, headers=headers, timeout=BOUND_S) as client,
        client.stream("GET", "/admin/v1/kv-events") as events,
    ):
        house.store.revoke(made.record.id, now_s=1.0)
        assert not [line for line in events.iter_lines() if line.startswith("id: ")]


def test_a_revoked_answer_is_remembered_as_that(house: House) -> None:
    with guest(house) as (client, key_id), held(house):
        body = chat_body("a novel", stream=True)
        with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            assert house.pace.waiting.wait(BOUND_S)
            house.store.revoke(key_id, now_s=1.0)
            house.pace.go()
            answer.read()
    wait_until(lambda: house.idle)
    row = house.root.get("/admin/v1/requests?limit=1").json()["requests"][0]
    assert (row["key_id"], row["finish"], row["outcome"]) == (key_id, ["revoked"], "failed")
    assert (row["status"], row["code"]) == (401, "invalid_api_key")
    ended = 'agentkit_requests_total{model_name="scripted",finished_reason="revoked"} '
    counts = [line for line in house.root.get("/metrics").text.splitlines() if ended in line]
    assert float(counts[0].rpartition(" ")[2]) >= 1


@pytest.mark.usefixtures("swept")
def test_one_look_is_enough_for_all_that_a_key_has_under_way() -> None:
    async def watched() -> tuple[int, list[str]]:
        looks, ended = [0], list[str]()

        def look() -> Caller:
            looks[0] += 1
            return Caller(key_id="k", roles=frozenset({"admin"}))

        standings, caller = Standings(), Caller(key_id="k")
        swept = asyncio.Event()
        seats = [standings.join(caller, look, partial(ended.append, name)) for name in "ab"]
        seats.append(standings.join(caller, look, swept.set))
        seats[1].leave()
        seats[1].leave()
        other = standings.join(caller, look, partial(ended.append, "admin"), role="admin")
        await asyncio.wait_for(swept.wait(), BOUND_S)
        assert [seat.refusal() is None for seat in (*seats, other)] == [False, False, False, True]
        again = standings.join(Caller(key_id="k"), look, partial(ended.append, "again"))
        seats[0].leave()  # it has another line by now
        assert len(standings) == 2
        again.leave()
        other.leave()
        assert len(standings) == 0
        return looks[0], ended

    looks, ended = asyncio.run(watched())
    assert ended == ["a"]
    assert looks <= 3, "one for each role, and what an idle seat looks by itself"


def test_what_goes_on_in_the_background_ends_with_its_key_and_says_why(house: House) -> None:
    body = {"model": "scripted", "input": "a novel", "background": True}
    with guest(house) as (client, key_id), held(house):
        begun = client.post("/v1/responses", json=body).json()
        assert house.pace.waiting.wait(BOUND_S)
        house.store.revoke(key_id, now_s=1.0)
    url = f"/v1/responses/{begun['id']}"
    wait_until(lambda: house.ann.get(url).json()["status"] not in ("queued", "in_progress"))

    ended = house.ann.get(url).json()
    assert (ended["status"], "revoked" in ended["error"]["message"]) == ("failed", True), ended
    wait_until(lambda: house.idle)


def test_a_flush_ends_what_goes_on_in_the_background(house: House) -> None:
    body = {"model": "scripted", "input": "a novel", "background": True}
    anns, bobs = (who.post("/v1/responses", json=body).json() for who in (house.ann, house.bob))

    house.root.post("/admin/v1/flush", json={"tenant": "ann"})

    url = f"/v1/responses/{anns['id']}"
    wait_until(lambda: house.ann.get(url).status_code == 404)
    assert house.bob.post(f"/v1/responses/{bobs['id']}/cancel").json()["status"] == "cancelled"
    wait_until(lambda: house.idle)


def test_the_servers_own_end_is_told_of_what_went_on_in_the_background(house: House) -> None:
    body = {"model": "scripted", "input": "a novel", "background": True}
    begun = house.ann.post("/v1/responses", json=body).json()
    url = f"/v1/responses/{begun['id']}"

    assert house.app.state.site.answering.abort_all() == 1
    wait_until(lambda: house.ann.get(url).json()["status"] not in ("queued", "in_progress"))

    ended = house.ann.get(url).json()
    assert (ended["status"], "aborted" in ended["error"]["message"]) == ("failed", True), ended


def test_who_follows_with_a_revoked_key_is_told_why_and_the_response_goes_on(house: House) -> None:
    body = {"model": "scripted", "input": "a novel", "background": True, "stream": True}
    with guest(house) as (follower, key_id), held(house):
        with house.ann.stream("POST", "/v1/responses", json=body) as begun:
            first = next(line for line in begun.iter_lines() if line.startswith("data: "))
        url = f"/v1/responses/{json.loads(first[6:])['response']['id']}"
        with follower.stream("GET", url, params={"stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            house.store.revoke(key_id, now_s=1.0)
            *_, last = (line for line in lines if line.startswith("data: "))

    told = ResponseErrorEvent.model_validate_json(last[6:])
    assert (told.type, "revoked" in told.message) == ("error", True)
    assert house.ann.get(url).json()["status"] in ("queued", "in_progress")
    assert house.ann.post(f"{url}/cancel").json()["status"] == "cancelled"
    wait_until(lambda: house.idle)
