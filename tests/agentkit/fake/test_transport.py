"""Clients in the same process, and once over a real socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest
import uvicorn
from anthropic import Anthropic
from google import genai
from google.genai import types
from openai import OpenAI

from agentkit.caching.simulate import Served
from agentkit.fake import Ask, FakeProvider, Reply

RULES = "Follow the rules. " * 400


def ask_all(base_url: str, http: httpx2.Client) -> list[int]:
    """Ask each API twice through its synchronous client; return what the second one read."""
    claude = Anthropic(api_key="key", base_url=base_url, max_retries=0, http_client=http)
    openai = OpenAI(api_key="key", base_url=f"{base_url}/v1", max_retries=0, http_client=http)
    options = types.HttpOptions(base_url=base_url, httpx_client=http)
    gemini = genai.Client(api_key="key", http_options=options)
    read = [0, 0, 0]
    for _ in range(2):
        with claude.messages.stream(
            model="claude-sonnet-5-5",
            max_tokens=50,
            cache_control={"type": "ephemeral"},
            messages=[{"role": "user", "content": RULES}],
        ) as stream:
            assert "".join(stream.text_stream) == "ok"
            read[0] = stream.get_final_message().usage.cache_read_input_tokens or 0
        reply = openai.responses.create(model="gpt-6-sol", input=RULES)
        assert reply.output_text == "ok"
        assert reply.usage is not None
        read[1] = reply.usage.input_tokens_details.cached_tokens
        chunks = list(
            gemini.models.generate_content_stream(model="gemini-3.8-flash", contents=RULES * 3)
        )
        assert "".join(chunk.text or "" for chunk in chunks) == "ok"
        assert chunks[-1].usage_metadata is not None
        read[2] = chunks[-1].usage_metadata.cached_content_token_count or 0
    return read


def test_synchronous_clients_work_in_process() -> None:
    fake = FakeProvider()
    with httpx2.Client(transport=fake.transport()) as http:
        assert all(n_tokens > 1_024 for n_tokens in ask_all("http://fake", http))


async def test_synchronous_clients_work_where_an_event_loop_runs() -> None:
    fake = FakeProvider()
    with httpx2.Client(transport=fake.transport()) as http:
        assert all(ask_all("http://fake", http))


@contextmanager
def serving(fake: FakeProvider) -> Iterator[str]:
    config = uvicorn.Config(fake.app, port=0, log_level="warning", lifespan="off")
    served = uvicorn.Server(config)
    listener = config.bind_socket()
    thread = threading.Thread(target=served.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        served.should_exit = True
        thread.join(10)
        listener.close()


def test_the_same_clients_work_over_a_socket() -> None:
    fake = FakeProvider()
    with serving(fake) as url, httpx2.Client() as http:
        read = ask_all(url, http)
        ledger = http.get(f"{url}/__ledger__").json()
        text = http.get(f"{url}/__ledger__", params={"format": "text"}).text
    assert all(n_tokens > 1_024 for n_tokens in read)
    assert [total["read"] for total in ledger["totals"]] == read
    assert "anthropic:claude-sonnet-5-5" in text
    assert len(fake.requests) == 6


def test_a_client_that_hangs_up_in_the_middle_is_noticed() -> None:
    slow = FakeProvider(respond=lambda _: Reply(text="word " * 50, seconds=20))
    body = {"model": "gpt-6-sol", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    headers = {"authorization": "Bearer key"}
    with serving(slow) as url, httpx2.Client() as http:
        with http.stream(
            "POST", f"{url}/v1/chat/completions", json=body, headers=headers
        ) as response:
            assert next(response.iter_bytes())
        deadline = time.monotonic() + 10
        while slow.records[0].status is None and time.monotonic() < deadline:
            http.get(f"{url}/__ledger__")  # a round trip of the server's loop
    assert slow.records[0].status == 499


async def test_a_stream_is_not_collected_before_the_client_reads_it() -> None:
    """The model is asked to say a lot; the client sees the first words before the last are sent."""
    fake = FakeProvider(respond=lambda _: Reply(text="word " * 100))
    body = {
        "model": "gpt-6-sol",
        "stream": True,
        "messages": [{"role": "user", "content": "x"}],
    }
    async with httpx2.AsyncClient(transport=fake.transport(), base_url="http://fake") as http:
        headers = {"authorization": "Bearer key"}
        url = "/v1/chat/completions"
        async with http.stream("POST", url, json=body, headers=headers) as response:
            parts = response.aiter_bytes()
            assert b"assistant" in await anext(parts)
            assert fake.records[0].status is None
            rest = [part async for part in parts]
            assert len(rest) > 30
    assert fake.records[0].status == 200


@pytest.mark.parametrize("in_process", [True, False])
def test_a_response_that_breaks_off_is_a_broken_connection(in_process: bool) -> None:
    fake = FakeProvider(respond=lambda _: Reply(text="word " * 50, breaks_after=3))
    body = {"model": "gpt-6-sol", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    headers = {"authorization": "Bearer key"}
    parts: list[bytes] = []
    with ExitStack() as stack:
        url = "http://fake" if in_process else stack.enter_context(serving(fake))
        http = stack.enter_context(
            httpx2.Client(transport=fake.transport() if in_process else None)
        )
        response = stack.enter_context(
            http.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers)
        )
        with pytest.raises(httpx2.RemoteProtocolError):
            parts.extend(response.iter_bytes())
    assert b"word" in b"".join(parts)
    assert b"[DONE]" not in b"".join(parts)
    assert fake.records[0].status == 502
    assert isinstance(fake.records[0].outcome, Served)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_response_may_break_off_at_any_byte(path: str) -> None:
    ends: list[int | None] = [None]
    fake = FakeProvider(respond=lambda _: Reply(text="a word", breaks_at_byte=ends[0]))
    body = {"model": "gpt-6-sol", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    if path == "/v1/messages":
        body |= {"model": "claude-sonnet-5-5", "max_tokens": 9}
    headers = {"authorization": "Bearer key", "x-api-key": "key"}

    def read() -> bytes:
        parts: list[bytes] = []
        with httpx2.Client(transport=fake.transport(), base_url="http://fake") as http:
            with http.stream("POST", path, json=body, headers=headers) as response:
                try:
                    parts.extend(response.iter_bytes())
                except httpx2.RemoteProtocolError:
                    return b"".join(parts) + b"|"
        return b"".join(parts)

    whole = read()
    for end in (0, 1, 100, len(whole) - 1, len(whole)):
        ends[0] = end
        broken = read()
        assert len(broken) == (len(whole) if end == len(whole) else end + 1)
        assert broken.endswith(b"|") == (end < len(whole))


async def test_an_error_of_the_responder_reaches_the_client() -> None:
    def broken(ask: Ask) -> Reply:
        raise ZeroDivisionError(ask.user_text)

    fake = FakeProvider(respond=broken)
    body = {"model": "gpt-6-sol", "input": "mine"}
    async with httpx2.AsyncClient(transport=fake.transport(), base_url="http://fake") as http:
        with pytest.raises(ZeroDivisionError, match="mine"):
            await http.post("/v1/responses", json=body, headers={"authorization": "Bearer key"})
    assert fake.served == []
    assert fake.records[0].status == 500


async def test_the_responder_may_wait() -> None:
    ready = asyncio.Event()

    async def respond(ask: Ask) -> Reply:
        await ready.wait()
        return Reply(text=f"{ask.n_turns} {ask.user_text}")

    fake = FakeProvider(respond=respond)
    body = {"model": "gpt-6-sol", "input": "x"}
    async with httpx2.AsyncClient(transport=fake.transport(), base_url="http://fake") as http:
        asked = asyncio.create_task(
            http.post("/v1/responses", json=body, headers={"authorization": "Bearer key"})
        )
        await asyncio.sleep(0)
        ready.set()
        output = (await asked).json()["output"]
    assert output[0]["content"][0]["text"] == "0 x"
    assert isinstance(fake.served[0], Served)


@pytest.mark.parametrize(("path", "status"), [("/v1/nothing", 404), ("/v1/messages", 400)])
async def test_what_is_no_request_is_answered_in_json_or_not_found(path: str, status: int) -> None:
    fake = FakeProvider()
    async with httpx2.AsyncClient(transport=fake.transport(), base_url="http://fake") as http:
        response = await http.post(path, content=b"{", headers={"x-api-key": "key"})
    assert response.status_code == status
    if status == 400:
        assert "no valid JSON" in response.json()["error"]["message"]
