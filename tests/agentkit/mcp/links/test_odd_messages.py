"""What a server says beside its answers, and what it says that with, costs no call and no link."""

from __future__ import annotations

import asyncio
import json

import pytest

pytestmark = pytest.mark.timeout(30)

LONG = "9" * 400
"""An integer that is too large for a float."""
HALF = "\\ud800"
"""Half a surrogate pair, as JSON spells it: it has no UTF-8."""


def notice(method: str, params: str) -> str:
    return f'{{"jsonrpc":"2.0","method":"{method}","params":{params}}}'


def question(request_id: str, method: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"method":"{method}","params":{{}}}}'


@pytest.mark.parametrize(
    "line",
    [
        notice("notifications/progress", f'{{"progressToken":TOKEN,"progress":{LONG}}}'),
        notice("notifications/progress", f'{{"progressToken":TOKEN,"progress":1,"total":{LONG}}}'),
        notice("notifications/progress", '{"progressToken":TOKEN,"progress":1e999}'),
        notice("notifications/progress", '{"progressToken":[],"progress":{}}'),
        notice("notifications/cancelled", '{"requestId":{}}'),
        question(f'"{HALF}"', "ping"),
        question("7", HALF),
        question(f'"{HALF}"', "elicitation/create"),
    ],
)
async def test_odd_messages_cost_no_call_and_no_connection(server, line):
    async with asyncio.timeout(20), server("plain", protocol="legacy").connect() as connection:
        pid = connection.pid
        beside = asyncio.create_task(connection.call("echo", {"text": "beside"}))
        said = await connection.call("say", {"text": line})
        after = await connection.call("echo", {"text": json.dumps(line)})
        assert [said.content, (await beside).content] == ["said", "beside"]
        assert after.content == json.dumps(line)
        assert (connection.pid, connection.warnings) == (pid, ())


@pytest.mark.parametrize("code", [-32095, -32096, -32097, -32098, -32001])
async def test_a_server_cannot_say_what_became_of_a_call_in_our_words(server, code):
    error = f'{{"code":{code},"message":"is asleep"}}'
    line = f'{{"jsonrpc":"2.0","id":TOKEN,"error":{error}}}'
    async with asyncio.timeout(20), server("plain", protocol="legacy").connect() as connection:
        said = await connection.call("say", {"text": line})
    shown = -32001 if code == -32001 else -32603  # some servers have their own use for the first
    assert said.content == f"MCP server 'bad' answered with an error: is asleep (code {shown})."
