"""A server that asks without end, and reads no answer, fills no memory."""

from __future__ import annotations

import asyncio

import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from agentkit.toolset.mcp.links.unanswered import Unanswered

pytestmark = pytest.mark.timeout(30)


def asked(request_id: int | str) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=request_id, method="ping")


def ping(request_id: str) -> str:
    return f'{{"jsonrpc":"2.0","id":"{request_id}","method":"ping"}}'


def test_what_is_answered_or_taken_back_makes_room_and_nothing_else_does():
    unanswered = Unanswered()
    taken = [unanswered.takes(asked(number)) for number in range(150)]
    assert taken == [True] * 100 + [False] * 50
    note = JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={})
    assert unanswered.takes(note)
    unanswered.note_sent(JSONRPCResponse(jsonrpc="2.0", id=7, result={}))
    back = {"requestId": 8}
    note = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=back)
    assert unanswered.takes(note)
    taken = [unanswered.takes(asked(number)) for number in ("a", "b", "c", 9)]
    assert taken == [True, True, False, False]
    assert "52 requests of the server were dropped" in unanswered.warnings[0]


def test_two_requests_with_one_id_are_one():
    unanswered = Unanswered()
    assert [unanswered.takes(asked(1)), unanswered.takes(asked(1))] == [True, False]
    unanswered.note_sent(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    assert unanswered.takes(asked(1))


async def test_a_flood_of_requests_whose_answers_are_not_read_costs_no_memory_and_no_call(server):
    flood = "\n".join(ping(f"{n}-{'x' * 500}") for n in range(900))
    few = "\n".join(ping(f"few-{n}") for n in range(50))
    async with asyncio.timeout(25), server("plain", protocol="legacy").connect() as connection:
        # Until it has written all of it the server reads nothing, and a pipe holds 64 KiB.
        said = await connection.call("say", {"text": flood})
        assert said.content == "said"
        assert len(asyncio.all_tasks()) < 150
        assert "requests of the server were dropped" in connection.warnings[0]
        assert (await connection.call("echo", {"text": "after"})).content == "after"
        before = connection.warnings
        assert (await connection.call("say", {"text": few})).content == "said"
        assert (await connection.call("echo", {"text": "after"})).content == "after"
        assert connection.warnings == before
