"""Servers over HTTP: what the network, gateways and other servers do, said in words."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from agentkit.toolset import McpConnectError, McpServer, Toolset
from agentkit.toolset.mcp.links.backoff import Backoff

pytestmark = pytest.mark.timeout(60)

Handler = Callable[[httpx2.Request], httpx2.Response | Awaitable[httpx2.Response]]

SECRET = "sesame-4711"
EMPTY = {"type": "object", "properties": {}}


def over(handler: Handler, **options: Any) -> McpServer:
    """A server whose every request is answered by `handler`."""
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
    url = f"https://tools.example/mcp?key={SECRET}"
    return McpServer(alias="far", url=url, http_client=client, **options)


def modern(method_answers: dict[str, Any]) -> Handler:
    """A minimal server of the modern protocol; answers are results, or functions of the request."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        message = json.loads(request.content)
        known = {
            "server/discover": {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
                "resultType": "complete",
            },
            "tools/list": {"tools": [{"name": "go", "inputSchema": EMPTY}], "ttlMs": 0},
            **method_answers,
        }
        answer = known.get(message["method"])
        if callable(answer):
            return answer(request)
        if answer is None:
            error = {"code": -32601, "message": "Method not found"}
            return httpx2.Response(
                404, json={"jsonrpc": "2.0", "id": message["id"], "error": error}
            )
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": message["id"], "result": answer})

    return handle


def answers(status: int, **more: Any) -> Handler:
    return lambda request: httpx2.Response(status, **more)


async def problem_of(server: McpServer) -> str:
    with pytest.raises(McpConnectError) as caught:
        async with asyncio.timeout(20):
            await server.connect().open()
    return str(caught.value)


@pytest.mark.parametrize(
    ("status", "more", "words"),
    [
        (401, {}, "answered with HTTP 401; set headers (Authorization) or auth of the McpServer"),
        (401, {"json": {"error": "invalid_token"}}, "answered with HTTP 401; set headers"),
        (403, {"text": "no"}, "answered with HTTP 403; what headers and auth of the McpServer say"),
        (
            404,
            {"text": "<html>"},
            "answered with HTTP 404; check url 'https://tools.example/mcp' of the McpServer",
        ),
        (405, {}, "/mcp' of the McpServer; for an old server set transport='sse'"),
        (503, {}, "answered with HTTP 503 (Service Unavailable)"),
        (200, {"html": "<h1>Hello</h1>"}, "answered with 'text/html'"),
        (302, {"headers": {"location": "https://evil.example/mcp"}}, "Redirect to https://evil"),
        (200, {"json": [1]}, "sent an answer that is no JSON-RPC message"),
    ],
)
async def test_what_is_wrong_with_an_address_is_said(status, more, words):
    problem = await problem_of(over(answers(status, **more)))
    assert problem.startswith("MCP server 'far' ")
    assert words in problem
    assert SECRET not in problem


@pytest.mark.parametrize("status", [400, 404, 405, 406, 415, 501])
async def test_an_address_of_an_old_server_is_told_by_its_end(status):
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answers(status)))
    url = f"https://tools.example/a/sse?key={SECRET}"
    problem = await problem_of(McpServer(alias="far", url=url, http_client=client))
    assert problem == (
        f"MCP server 'far' answered with HTTP {status}; check url 'https://tools.example/a/sse' of "
        "the McpServer; an address like this is mostly an old server's: set transport='sse'"
    )


@pytest.mark.parametrize("first", [b"event: endpoint\n", b"event:endpoint\n", b": hi\n\n"])
async def test_a_stream_of_the_old_transport_is_told_at_once(first):
    """Some answer a post like a get, and then nothing comes any more."""

    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self):
            yield first + (b"" if b"endpoint" in first else b"event: endpoint\r\n")
            await asyncio.Event().wait()

    def handle(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=Stream())

    async with asyncio.timeout(30):
        problem = await problem_of(over(handle))
    assert problem == (
        "MCP server 'far' speaks in the way of before 2025-03-26 at 'https://tools.example/mcp'; "
        "set transport='sse' of the McpServer"
    )


@pytest.mark.parametrize(
    ("status", "more", "words"),
    [
        (404, {}, "HTTP 404; check url"),
        (405, {}, "HTTP 405; check url"),
        (
            400,
            {"json": {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "no id"}}},
            "HTTP 400: no id; check url",
        ),
    ],
)
async def test_a_server_of_today_that_is_spoken_to_in_the_old_way_is_told(status, more, words):
    problem = await problem_of(over(answers(status, **more), transport="sse"))
    assert words in problem
    assert problem.endswith(
        "'https://tools.example/mcp' of the McpServer, or leave out transport='sse', which is for "
        "servers of before 2025-03-26"
    )


async def test_who_is_not_let_in_does_not_knock_twice():
    seen = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(401)

    await problem_of(over(handle))
    assert len(seen) == 1


async def test_a_server_that_cannot_be_reached_is_said_so_without_its_query(serve):
    async with serve(None) as address:
        port = urlsplit(address).port
    server = McpServer(alias="gone", url=f"http://127.0.0.1:{port}/mcp?key={SECRET}")
    problem = await problem_of(server)
    assert problem.startswith(
        f"MCP server 'gone' cannot be reached at http://127.0.0.1:{port}/mcp (ConnectError"
    )
    assert SECRET not in problem


async def test_headers_and_auth_are_sent_with_each_request():
    seen = []

    class Token(httpx2.Auth):
        def auth_flow(self, request):
            request.headers["x-token"] = "from-auth"
            yield request

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(dict(request.headers))
        return modern({"tools/call": {"content": [], "resultType": "complete"}})(request)

    server = over(handle, headers={"X-Tenant": "blue"}, auth=Token())
    async with asyncio.timeout(20), server.connect() as connection:
        await connection.call("go", {})
    assert len(seen) == 3
    assert {(headers["x-tenant"], headers["x-token"]) for headers in seen} == {
        ("blue", "from-auth")
    }
    assert [headers["mcp-method"] for headers in seen] == [
        "server/discover",
        "tools/list",
        "tools/call",
    ]
    assert seen[2]["mcp-name"] == "go"


async def test_arguments_that_a_tool_wants_in_headers_are_there():
    seen = []
    schema = {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    }

    def call(request: httpx2.Request) -> httpx2.Response:
        seen.append(dict(request.headers))
        message = json.loads(request.content)
        result = {"content": [], "resultType": "complete"}
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": message["id"], "result": result})

    listed = {"tools": [{"name": "go", "inputSchema": schema}], "ttlMs": 0}
    server = over(modern({"tools/list": listed, "tools/call": call}))
    async with asyncio.timeout(20), server.connect() as connection:
        await connection.call("go", {"region": "eu-west"})
    assert seen[0]["mcp-param-region"] == "eu-west"


def calling(answer: Handler, **options: Any) -> McpServer:
    return over(modern({"tools/call": answer}), **options)


async def test_an_answer_above_the_limit_fails_its_call_only():
    body = b'{"jsonrpc":"2.0","id":3,"result":{"content":"' + b"x" * 100_000 + b'"}}'
    json_type = {"content-type": "application/json"}
    kinds = {
        "plain": httpx2.Response(200, content=body, headers=json_type),
        "bomb": httpx2.Response(
            200,
            content=gzip.compress(b" " * 10_000_000),
            headers={**json_type, "content-encoding": "gzip"},
        ),
        "event": httpx2.Response(
            200,
            content=b"event: message\ndata: " + body + b"\n\n",
            headers={"content-type": "text/event-stream"},
        ),
    }
    for kind, response in kinds.items():
        server = calling(lambda request, answer=response: answer, max_message_bytes=50_000)
        async with asyncio.timeout(20), server.connect() as connection:
            output = await connection.call("go", {})
            assert output.is_error, kind
            assert "limit" in output.content or "size" in output.content, (kind, output.content)
            assert connection.warnings == ()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx2.ReadError("reset by peer"), "broke off the connection (ReadError: reset by peer)"),
        (httpx2.RemoteProtocolError("garbage"), "broke off the connection (RemoteProtocolError"),
    ],
)
async def test_an_error_of_the_network_fails_one_call_and_its_effect_is_unknown(error, words):
    n_calls = 0

    def fail(request: httpx2.Request) -> httpx2.Response:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            raise error
        message = json.loads(request.content)
        result = {"content": [{"type": "text", "text": "fine"}], "resultType": "complete"}
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": message["id"], "result": result})

    async with asyncio.timeout(20), calling(fail).connect() as connection:
        output = await connection.call("go", {})
        assert output.is_error
        assert output.content == (
            f"MCP server 'far' {output.content[17:].split('. Whether')[0]}"
            ". Whether the call had an effect is unknown."
        )
        assert words in output.content
        assert n_calls == 1
        assert (await connection.call("go", {})).content == "fine"


async def test_a_token_that_ran_out_is_told_at_the_call_that_was_not_made():
    async with asyncio.timeout(20), calling(answers(401)).connect() as connection:
        output = await connection.call("go", {})
        assert output.content.startswith("MCP server 'far' answered with HTTP 401; set headers")
        assert output.content.endswith(". The call was not carried out.")


async def test_a_session_that_the_server_ended_is_begun_anew_and_the_call_not_repeated(
    serve, honest_server
):
    """M35: a lost session was known by one error code only."""
    app, calls = honest_server().streamable_http_app(), []
    lost = asyncio.Event()

    async def losing(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and b"mcp-session-id" in headers and lost.is_set():
            calls.append(headers[b"mcp-session-id"])
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    async with serve(losing) as address, asyncio.timeout(30):
        server = McpServer(alias="far", url=f"{address}/mcp", protocol="legacy")
        async with server.connect() as connection:
            lost.set()
            output = await connection.call("echo", {"text": "x"})
            assert output.content == (
                "MCP server 'far' ended the session (HTTP 404). The call was not carried out."
            )
            lost.clear()
            assert (await connection.call("echo", {"text": "again"})).content == "again"
            assert connection.warnings == (
                "the server was restarted: it ended the session (HTTP 404)",
            )


async def test_a_server_that_went_and_came_back_is_found_again(serve, honest_server):
    now = 0.0
    async with asyncio.timeout(40):
        async with serve(honest_server().streamable_http_app()) as address:
            connection = McpServer(alias="far", url=f"{address}/mcp").connect()
            connection.starter.backoff = Backoff(lambda: now)
            await connection.open()
            pinned = Toolset(connection.tools).bytes
        first = await connection.call("echo", {"text": "x"})
        second = await connection.call("echo", {"text": "x"})
        assert first.is_error
        assert "cannot be reached at http://127.0.0.1" in second.content
        assert second.content.endswith(". The call was not sent.")
        third = await connection.call("echo", {"text": "x"})
        assert "is tried again in 1 s" in third.content
        now += 1
        async with serve(honest_server().streamable_http_app(), urlsplit(address).port):
            assert (await connection.call("echo", {"text": "back"})).content == "back"
            assert Toolset(connection.tools).bytes == pinned
            await connection.close()


async def test_an_event_stream_of_the_old_transport_that_ended_is_opened_again(
    serve, honest_server
):
    app, cut, n_streams = honest_server().sse_app(), asyncio.Event(), 0

    async def cutting(scope: Any, receive: Any, send: Any) -> None:
        nonlocal n_streams

        async def until_cut() -> Any:
            waits = [asyncio.ensure_future(receive()), asyncio.ensure_future(cut.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            waits[1].cancel()
            return waits[0].result() if waits[0].done() else {"type": "http.disconnect"}

        is_stream = scope["type"] == "http" and scope["method"] == "GET"
        n_streams += is_stream
        await app(scope, until_cut if is_stream else receive, send)

    async with serve(cutting) as address, asyncio.timeout(20):
        server = McpServer(alias="far", url=f"{address}/sse", transport="sse")
        async with server.connect() as connection:
            hanging = asyncio.create_task(connection.call("hang", {}))
            assert (await connection.call("echo", {"text": "x"})).content == "x"
            cut.set()
            assert "closed the connection. Whether the call" in (await hanging).content
            cut.clear()
            assert (await connection.call("echo", {"text": "again"})).content == "again"
    assert n_streams == 2


async def test_leaving_ends_the_session_at_the_server(serve, honest_server):
    app, seen = honest_server().streamable_http_app(), []

    async def watching(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(scope["method"])
        await app(scope, receive, send)

    async with serve(watching) as address, asyncio.timeout(30):
        server = McpServer(alias="far", url=f"{address}/mcp", protocol="legacy")
        async with server.connect():
            assert "DELETE" not in seen
    assert seen[-1] == "DELETE"


async def test_a_server_that_does_not_take_leave_does_not_hold_up_leaving(serve, honest_server):
    app = honest_server().streamable_http_app()

    async def deaf(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            await asyncio.Event().wait()
        await app(scope, receive, send)

    async with serve(deaf) as address:
        server = McpServer(alias="far", url=f"{address}/mcp", protocol="legacy")
        async with asyncio.timeout(10), server.connect():
            pass


@pytest.mark.parametrize("options", [{"json_response": True}, {"stateless_http": True}])
async def test_other_ways_of_answering_work_too(reach_over, honest_server, options):
    for protocol in ("auto", "legacy"):
        async with reach_over("http")(honest_server(), protocol=protocol, **options) as server:
            async with asyncio.timeout(30), server.connect() as connection:
                assert (await connection.call("echo", {"text": "x"})).content == "x"


@pytest.mark.parametrize(
    "address", ["https://elsewhere.example/messages", "//elsewhere.example/x", "http://[::1"]
)
async def test_an_old_server_that_names_another_host_for_messages_is_told_of(serve, address):
    posts = 0

    async def naming(scope: Any, receive: Any, send: Any) -> None:
        nonlocal posts
        posts += scope["method"] == "POST"
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        event = f"event: endpoint\ndata: {address}\n\n".encode()
        await send({"type": "http.response.body", "body": event, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serve(naming) as url, asyncio.timeout(20):
        server = McpServer(alias="far", url=f"{url}/sse", transport="sse", connect_timeout_s=0.5)
        with pytest.raises(McpConnectError, match=r"it wants its messages at another host; check"):
            await server.connect().open()
    assert posts == 0


async def test_a_failed_post_of_the_old_transport_fails_its_call_at_once(serve, honest_server):
    app, broken = honest_server().sse_app(), asyncio.Event()

    async def breaking(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and broken.is_set():
            await send({"type": "http.response.start", "status": 502, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    async with serve(breaking) as address, asyncio.timeout(20):
        server = McpServer(alias="far", url=f"{address}/sse", transport="sse")
        async with server.connect() as connection:
            broken.set()
            output = await connection.call("echo", {"text": "x"})
            assert "answered with HTTP 502 (Bad Gateway)" in output.content
            broken.clear()
            assert (await connection.call("echo", {"text": "again"})).content == "again"
