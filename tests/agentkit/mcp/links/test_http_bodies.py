"""Bodies of HTTP answers: endless, slow, damaged or deep, they cost their own request at most."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from agentkit.toolset import McpServer
from agentkit.toolset.mcp.links.http_bodies import readable

pytestmark = pytest.mark.timeout(30)

EMPTY = {"type": "object", "properties": {}}
TOOLS = [{"name": "go", "inputSchema": EMPTY}]
JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}


class Endless(httpx2.AsyncByteStream):
    """A body that comes in pieces without end, or stops coming."""

    def __init__(self, piece: bytes, *, is_silent: bool = False) -> None:
        self.n_pieces = 0
        self._piece = piece
        self._is_silent = is_silent

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.n_pieces += 1
            yield self._piece
            if self._is_silent:
                await asyncio.Event().wait()
            await asyncio.sleep(0)


class Sessions:
    """A server with sessions, of the old protocol, whose single answers a test replaces."""

    def __init__(self, **replaced: Any) -> None:
        self.replaced = replaced
        self.seen: list[str] = []

    def server(self, **options: Any) -> McpServer:
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self.handle))
        return McpServer(
            alias="far",
            url="https://tools.example/mcp",
            http_client=client,
            protocol="legacy",
            **options,
        )

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        message = json.loads(request.content) if request.content else {}
        what = message.get("method", request.method)
        self.seen.append(what)
        answer = self.replaced.get(what.replace("/", "_"))
        if answer is None:
            return _usual(message, what)
        made = answer(message) if callable(answer) else answer
        return made if isinstance(made, httpx2.Response) else await made


def _usual(message: dict[str, Any], what: str) -> httpx2.Response:
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"},
        },
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    if what not in results:
        return httpx2.Response(405 if what == "GET" else 202)
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": results[what]}
    return httpx2.Response(200, json=answer, headers={"mcp-session-id": "s1"})


def _raw(message: dict[str, Any], result: bytes, *, as_event: bool) -> httpx2.Response:
    body = b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (message["id"], result)
    if as_event:
        return httpx2.Response(200, content=b"data: " + body + b"\r\n\r\n", headers=EVENTS)
    return httpx2.Response(200, content=body, headers=JSON)


@pytest.mark.parametrize("headers", [JSON, EVENTS, {}])
@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_farewell_whose_answer_never_ends_does_not_hold_up_leaving(headers, is_silent):
    body = Endless(b" " * 1000, is_silent=is_silent)
    peer = Sessions(DELETE=lambda _: httpx2.Response(200, headers=headers, stream=body))
    async with asyncio.timeout(10), peer.server().connect():
        pass
    assert peer.seen[-1] == "DELETE"
    assert body.n_pieces == 0


@pytest.mark.parametrize("status", [400, 401, 404, 405, 500, 501])
async def test_the_optional_stream_that_is_not_there_costs_nothing(status):
    body = Endless(b"no", is_silent=True)
    heard = asyncio.Event()

    def refuse(_: Any) -> httpx2.Response:
        heard.set()
        return httpx2.Response(status, stream=body)

    peer = Sessions(GET=refuse)
    async with asyncio.timeout(30), peer.server().connect() as connection:
        await heard.wait()
        for _ in range(3):
            assert (await connection.call("go", {})).content == "done"
        assert connection.warnings == ()
    assert peer.seen.count("initialize") == 1
    assert body.n_pieces == 0


@pytest.mark.parametrize("as_event", [True, False])
@pytest.mark.parametrize(
    ("text", "expected"),
    [(b'"half \\ud83d pair"', "half ? pair"), (b'"caf\xe9"', "caf\ufffd"), (b'"plain"', "plain")],
)
async def test_a_damaged_text_does_not_cost_the_result(text, expected, as_event):
    result = b'{"content":[{"type":"text","text":%s}]}' % text
    peer = Sessions(tools_call=lambda message: _raw(message, result, as_event=as_event))
    async with asyncio.timeout(30), peer.server().connect() as connection:
        output = await connection.call("go", {})
        assert (output.content, output.is_error) == (expected, False)


@pytest.mark.parametrize("as_event", [True, False])
@pytest.mark.parametrize("depth", [100, 190, 196, 300, 5000])
async def test_a_deep_schema_costs_its_tool_only(depth, as_event):
    deep = b'{"items":' * depth + b"{}" + b"}" * depth
    tools = b'{"tools":[{"name":"bad","inputSchema":{"type":"object","properties":{"q":%s}}},%s]}'
    listed = tools % (deep, json.dumps(TOOLS[0]).encode())
    peer = Sessions(tools_list=lambda message: _raw(message, listed, as_event=as_event))
    if depth > 1000:
        # Python's own parser gives up: then the list is lost, in words.
        with pytest.raises(Exception, match="sent an answer that is no valid JSON"):
            await peer.server().connect().open()
        return
    async with asyncio.timeout(30), peer.server().connect() as connection:
        assert [tool.original_name for tool in connection.tools] == ["go"]


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        (JSON, b"{" * 10, "no JSON-RPC message"),
        (JSON, b"", "no JSON-RPC message"),
        (JSON, b"[1]", "no JSON-RPC message"),
        ({"content-type": "text/html"}, b"<html>", "'text/html', which is no answer of MCP"),
        ({}, b"{}", "'no content type', which is no answer of MCP"),
        (JSON, b'{"jsonrpc":"2.0","id":3,"result":4}', "no JSON-RPC message"),
        (JSON, b'{"jsonrpc":"2.0","id":99,"result":{}}', "something else than the answer"),
        (JSON, b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}', "something else"),
        (JSON, b'{"jsonrpc":"2.0","method":"notifications/x"}', "something else than the answer"),
        (JSON, b'{"jsonrpc":"2.0","id":3,"method":"ping"}', "something else than the answer"),
        (JSON, b" " * 60_000, "sent an answer above the limit of 50000 bytes"),
        (EVENTS, b"data: " + b"x" * 60_000 + b"\n\n", "above the limit of 50000 bytes"),
        (EVENTS, b"data: x\n" * 9_000 + b"\n\n", "above the limit of 50000 bytes"),
        (EVENTS, b'data: {"jsonrpc":"2.0","id":3,"result":\n\n', "no valid JSON"),
    ],
)
async def test_an_answer_that_cannot_be_read_leaves_open_what_the_call_did(headers, body, words):
    def answer(message: dict[str, Any]) -> httpx2.Response:
        own = body.replace(b'"id":3', b'"id":%d' % message["id"])
        return httpx2.Response(200, content=own, headers=headers)

    peer = Sessions(tools_call=answer)
    server = peer.server(max_message_bytes=50_000)
    async with asyncio.timeout(30), server.connect() as connection:
        output = await connection.call("go", {})
        assert output.is_error
        assert words in output.content
        assert "Whether the call had an effect is unknown." in output.content
    assert peer.seen.count("tools/call") == 1


async def test_a_request_that_is_only_accepted_leaves_open_what_the_call_did():
    peer = Sessions(tools_call=lambda _: httpx2.Response(202))
    async with asyncio.timeout(30), peer.server().connect() as connection:
        output = await connection.call("go", {})
    assert "answered with HTTP 202, which is no answer of MCP" in output.content
    assert "Whether the call had an effect is unknown." in output.content


async def test_a_number_that_no_float_can_be_does_not_end_the_connection():
    def answer(message: dict[str, Any]) -> httpx2.Response:
        token = message["params"]["_meta"]["progressToken"]
        told = b'{"jsonrpc":"2.0","method":"notifications/progress","params":'
        told += b'{"progressToken":%d,"progress":1,"total":%s}}' % (token, b"9" * 400)
        done = {"content": [{"type": "text", "text": "done"}]}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": done}).encode()
        events = b"data: %s\n\ndata: %s\n\n" % (told, body)
        return httpx2.Response(200, content=events, headers=EVENTS)

    peer = Sessions(tools_call=answer)
    async with asyncio.timeout(30), peer.server().connect() as connection:
        assert (await connection.call("go", {})).content == "done"
        assert connection.warnings == ()


async def test_the_body_of_a_redirect_is_not_read():
    body = Endless(b" " * 1000)
    moved = {"location": "/mcp/"}
    calls = []

    def answer(message: dict[str, Any]) -> httpx2.Response:
        calls.append(message)
        if len(calls) == 1:
            return httpx2.Response(307, headers=moved, stream=body)
        return _usual(message, "tools/call")

    async with asyncio.timeout(30), Sessions(tools_call=answer).server().connect() as connection:
        assert (await connection.call("go", {})).content == "done"
    assert body.n_pieces == 0


async def test_an_error_status_whose_body_stops_coming_is_told():
    body = Endless(b"oops", is_silent=True)
    peer = Sessions(tools_call=lambda _: httpx2.Response(500, stream=body))
    async with asyncio.timeout(30), peer.server().connect() as connection:
        output = await connection.call("go", {})
        assert "answered with HTTP 500" in output.content


async def test_a_notice_that_is_never_taken_does_not_block_what_is_sent_after_it():
    sent = asyncio.Event()

    async def never(_: Any) -> httpx2.Response:
        sent.set()
        await asyncio.Event().wait()
        raise AssertionError

    peer = Sessions(notifications_cancelled=never)
    server = peer.server(connect_timeout_s=0.5)
    async with asyncio.timeout(30), server.connect() as connection:
        peer.replaced["tools_call"] = never
        calling = asyncio.create_task(connection.call("go", {}))
        await sent.wait()
        calling.cancel()
        await asyncio.wait([calling])
        del peer.replaced["tools_call"]
        assert (await connection.call("go", {})).content == "done"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("n_bytes", [1, 2, 7, 1000])
async def test_events_are_the_same_however_they_are_cut(line_end, n_bytes):
    answer = b'{"jsonrpc":"2.0","id":1,\n"result":{"x":"\\ud83d"}}'
    lines = [b": hello", b"event: message", b"id: 7", b"retry: 700"]
    lines += [b"data: " + part for part in answer.split(b"\n")] + [b"", b"data", b"id: 8", b"", b""]
    stream = line_end.join(lines)

    class Cut(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(stream), n_bytes):
                yield stream[start : start + n_bytes]

    request = httpx2.Request("POST", "http://x", json={"id": 1, "method": "tools/call"})
    response = httpx2.Response(200, headers=EVENTS, stream=Cut(), request=request)
    source = httpx2.EventSource(readable(request, response, 10_000))
    events = [event async for event in source]
    assert [(event.id, event.retry) for event in events] == [("7", 700), ("8", None)]
    assert json.loads(events[0].data)["result"] == {"x": "?"}
    assert events[1].data == ""


@pytest.mark.parametrize("request_id", ["ID", '"ID"', "null"])
@pytest.mark.parametrize(("headers", "status"), [(JSON, 200), (EVENTS, 200), (JSON, 400)])
async def test_an_error_is_its_requests_and_has_no_code_of_ours(headers, status, request_id):
    def refuse(message: dict[str, Any]) -> httpx2.Response:
        named = request_id.replace("ID", str(message["id"]))
        error = '{"code":-32097,"message":"is asleep"}'
        body = f'{{"jsonrpc":"2.0","id":{named},"error":{error}}}'
        sent = f"data: {body}\n\n" if headers is EVENTS else body
        return httpx2.Response(status, headers=headers, content=sent.encode())

    async with (
        asyncio.timeout(30),
        Sessions(tools_call=refuse).server(call_timeout_s=3).connect() as connection,
    ):
        output = await connection.call("go", {})
    assert output.content == "MCP server 'far' answered with an error: is asleep (code -32603)."


@pytest.mark.parametrize(
    ("retry", "passed"),
    [
        (b"1", b"500"),
        (b"0", b"500"),
        (b"1500", b"1500"),
        (b"9" * 5_000, b"300000"),
        (b"soon", b"soon"),
        (b"-1", b"-1"),
    ],
)
async def test_a_server_does_not_have_its_stream_opened_again_without_a_pause(retry, passed):
    request = httpx2.Request("GET", "https://tools.example/mcp")
    data = b"id: 1\nretry: %s\ndata: \n\nretry: %s\n\n" % (retry, retry)
    response = httpx2.Response(200, headers=EVENTS, content=data)
    sent = [part async for part in readable(request, response, 1_000_000).aiter_bytes()]
    lines = b"".join(sent).split(b"\n")
    assert [line for line in lines if line.startswith(b"retry")] == [b"retry: " + passed] * 2
