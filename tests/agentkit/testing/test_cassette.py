"""Wire traffic, recorded and replayed: through the vendors' SDKs, in pieces, without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions
from openai import AsyncOpenAI

from agentkit import Agent, ModelError, RunResult
from agentkit.events import TextDelta
from agentkit.fake import Ask, FakeProvider, Reply
from agentkit.fake import Call as FakeCall
from agentkit.models.hosted.anthropic import AnthropicAdapter
from agentkit.models.hosted.gemini import GeminiAdapter
from agentkit.models.hosted.model import HostedModel
from agentkit.models.hosted.openai_chat import DEEPSEEK, ChatAdapter
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.testing.wire.cassette import CassetteMismatch, Player, Recorder, SecretInStream
from agentkit.testing.wire.intercept import intercepting
from agentkit.testing.wire.secrets import Scrubber

PROVIDERS = ("anthropic", "openai", "deepseek", "gemini")
KEY = "sk-very-secret-0123456789"
OTHERS = ("cookie-of-the-account", "org-of-the-account", "4711-0815", "token-from-environment")


def says(ask: Ask) -> Reply:
    if ask.n_turns == 0:
        return Reply(calls=(FakeCall("look", '{"at": "sky"}'),))
    return Reply(text="Blue é 語, and nothing else is to be seen in the sky.")


def adapter(provider: str, key: str) -> Any:
    """Clients as applications have them: with the SDKs' own transport."""
    url = "https://provider.invalid"
    match provider:
        case "anthropic":
            client = AsyncAnthropic(api_key=key, base_url=url)
            return AnthropicAdapter("claude-sonnet-5-5", client=client)
        case "openai":
            openai = AsyncOpenAI(api_key=key, base_url=f"{url}/v1")
            return ResponsesAdapter("gpt-6.1-sol", client=openai)
        case "deepseek":
            openai = AsyncOpenAI(api_key=key, base_url=f"{url}/deepseek")
            return ChatAdapter("deepseek-flash", profile=DEEPSEEK, client=openai)
        case _:
            options = HttpOptions(base_url=url, httpx_async_client=httpx2.AsyncClient())
            client = Client(vertexai=False, api_key=key, http_options=options)
            return GeminiAdapter("gemini-3.8-flash", client=client)


def desk(provider: str, key: str, rules: str = "Be brief. ") -> Agent:
    def look(at: str) -> str:
        """Look."""
        return f"{at} is blue, says client 4711-0815 with {key}"

    model = HostedModel(adapter(provider, key))
    return Agent(model=model, name="desk", rules=rules * 300, tools=[look], max_retries=0)


class Network:
    """Stands where the network is: the fake provider, and what a real one adds to its answers."""

    def __init__(self) -> None:
        self.transport = FakeProvider(respond=says).transport()
        self.encodings: list[str] = []

    async def answer(self, _: object, request: httpx2.Request) -> httpx2.Response:
        self.encodings.append(request.headers["accept-encoding"])
        response = await self.transport.handle_async_request(request)
        response.headers["set-cookie"] = "sid=cookie-of-the-account"
        response.headers["anthropic-organization-id"] = "org-of-the-account"
        return response


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    found = Network()

    async def answer(transport: object, request: httpx2.Request) -> httpx2.Response:
        return await found.answer(transport, request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", answer)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "test.json"


def scrubber() -> Scrubber:
    return Scrubber([r"client (\d+-\d+)"], {"SOME_TOKEN": "token-from-environment"})


def on_disk(path: Path) -> bytes:
    return path.read_bytes()


@contextmanager
def recording(path: Path) -> Iterator[Recorder]:
    recorder = Recorder(path, scrubber())
    with intercepting(recorder):
        yield recorder
    recorder.save()


@contextmanager
def replaying(path: Path) -> Iterator[Player]:
    player = Player(path, scrubber())
    with intercepting(player):
        yield player


async def texts(agent: Agent) -> tuple[list[str], RunResult[str]]:
    async with agent.stream("Which? token-from-environment") as events:
        found = [event.text async for event in events if isinstance(event, TextDelta)]
    return found, events.result


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_was_recorded_is_replayed_in_the_same_pieces_and_without_a_network(
    provider: str, path: Path, network: Network
) -> None:
    with recording(path):
        recorded, first = await texts(desk(provider, KEY))
    assert len(recorded) > 2
    n_requests = len(network.encodings)
    with replaying(path) as player:
        replayed, again = await texts(desk(provider, "another-key"))

    assert len(network.encodings) == n_requests == 2
    assert replayed == recorded
    assert again.usage == first.usage
    assert player.left == ()
    assert player.n_replayed == 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_no_secret_is_on_disk(provider: str, path: Path, network: Network) -> None:
    with recording(path):
        await texts(desk(provider, KEY))
    data = on_disk(path)
    assert data.count(b"REMOVED") == 4, "one question, sent twice, and one result with two"
    for secret in (KEY, *OTHERS):
        assert secret.encode() not in data, secret
    for name in (b"authorization", b"x-api-key", b"x-goog-api-key", b"cookie", b"organization"):
        assert name not in data.lower(), name
    assert set(network.encodings) == {"identity"}, "what is compressed cannot be searched"


async def test_streams_keep_their_pieces(path: Path, network: Network) -> None:
    """Byte for byte, where nothing had to be taken out of them."""
    chunks: list[list[bytes]] = []

    async def ask() -> None:
        body = {"model": "gpt-6-sol", "stream": True, "messages": [{"role": "user", "content": ""}]}
        async with httpx2.AsyncClient(headers={"authorization": "Bearer key"}) as http:
            url = "https://provider.invalid/v1/chat/completions"
            async with http.stream("POST", url, json=body) as response:
                chunks.append([chunk async for chunk in response.aiter_raw()])

    with recording(path):
        await ask()
    with replaying(path):
        await ask()
    assert len(chunks[0]) > 2
    assert chunks[0] == chunks[1]


async def test_a_changed_prefix_fails_the_replay_at_once(path: Path, network: Network) -> None:
    with recording(path):
        await texts(desk("anthropic", KEY))
    with replaying(path) as player, pytest.raises(CassetteMismatch) as caught:
        await texts(desk("anthropic", KEY, rules="Be short. "))

    text = str(caught.value)
    assert "POST https://provider.invalid/v1/messages, request 1 of" in text
    assert "they part at byte" in text
    assert "Be brief." in text
    assert "Be short." in text
    assert '"text": "Be short. Be short.' in text, "as JSON"
    assert len(player.left) == 2


async def test_what_was_not_recorded_says_what_is_left(path: Path, network: Network) -> None:
    with recording(path):
        await texts(desk("anthropic", KEY))
    with replaying(path), pytest.raises(CassetteMismatch, match=r"left.*/v1/messages, POST"):
        await texts(desk("openai", KEY))
    with pytest.raises(CassetteMismatch, match="--agentkit-record=new"):
        Player(path.with_name("other.json"), scrubber())


def test_another_form_of_recordings_is_told(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"version": 0}', "utf-8")
    with pytest.raises(CassetteMismatch, match="version 0"):
        Player(path, scrubber())


async def test_a_stream_that_broke_breaks_again(path: Path, network: Network) -> None:
    network.transport = FakeProvider(
        respond=lambda ask: Reply(text="word " * 20, breaks_at_byte=900)
    ).transport()

    async def failing() -> list[str]:
        found: list[str] = []
        with suppress(ModelError):
            async for event in desk("anthropic", KEY).stream("?"):
                found += [event.text] if isinstance(event, TextDelta) else []
        return found

    with recording(path):
        recorded = await failing()
    assert json.loads(on_disk(path))["interactions"][0]["response"]["breaks"]
    with replaying(path):
        assert await failing() == recorded != []


def test_synchronous_clients_and_bytes_that_are_no_text(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(transport: object, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=b"\xff\x00" + request.content)

    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", answer)

    def ask() -> bytes:
        with httpx2.Client() as http:
            url = "https://user:password12@provider.invalid/a?key=querysecret&alt=sse"
            return http.post(url, content=b"\xfe").content

    with recording(path):
        recorded = ask()
    assert b"querysecret" not in path.read_bytes()
    assert b"password12" not in path.read_bytes()
    assert "key=REMOVED&alt=sse" in path.read_text("utf-8")
    with replaying(path):
        assert ask() == recorded == b"\xff\x00\xfe"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_answer_that_spells_a_secret_in_pieces_is_not_recorded(
    provider: str, path: Path, network: Network
) -> None:
    """A model that repeats what it was told, in deltas of a few letters."""
    text = f"The key is {KEY}, as I was told."
    network.transport = FakeProvider(respond=lambda ask: Reply(text=text)).transport()
    with pytest.raises(SecretInStream, match="spells a secret over several events"):
        with recording(path):
            await texts(desk(provider, KEY))
    assert not path.parent.exists()


def test_a_secret_across_two_pieces_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(transport: object, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=iter([b"a sec", b"ret-0123\nb"]))

    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", answer)
    with recording(path), httpx2.Client(headers={"x-api-key": "secret-0123"}) as http:
        assert http.get("https://provider.invalid/").text == "a secret-0123\nb"
    chunks = json.loads(path.read_text("utf-8"))["interactions"][0]["response"]["chunks"]
    assert chunks == ["a REMOVED\n", "b"]


pytest_plugins = ["pytester"]


def test_the_fixture_records_and_replays(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "AGENTKIT_RECORD"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")

    def answer(transport: object, request: httpx2.Request) -> httpx2.Response:
        assert "RECORDS" in os.environ, "no network"
        return httpx2.Response(200, text="said " + request.url.path)

    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", answer)
    pytester.makepyfile(
        test_wire="""
import os, httpx2, pytest

def get(path):
    with httpx2.Client(headers={"x-api-key": "secret-0123"}) as http:
        return http.get("https://provider.invalid" + path).text

def test_one(wire_cassette):
    assert get("/one") == "said /one"

@pytest.mark.wire_cassette(name="shared", secrets=["two"])
def test_two():
    assert get("/two")[:4] == "said"
    if "CHANGED" not in os.environ:
        get("/two")

def test_fails(wire_cassette):
    get("/one")
    assert "RECORDS" not in os.environ
"""
    )
    replay = pytester.runpytest()
    replay.assert_outcomes(errors=3)
    replay.stdout.fnmatch_lines(["*CassetteMismatch: there is no recording*"])

    monkeypatch.setenv("RECORDS", "1")
    pytester.runpytest("--agentkit-record=new").assert_outcomes(passed=2, failed=1)
    folder = pytester.path / "cassettes" / "test_wire"
    assert sorted(os.listdir(folder)) == ["shared.json", "test_one.json"], "not of failing tests"
    assert "two" not in (folder / "shared.json").read_text("utf-8")

    monkeypatch.delenv("RECORDS")
    pytester.runpytest("-k", "one or two").assert_outcomes(passed=2)
    monkeypatch.setenv("CHANGED", "1")
    changed = pytester.runpytest("-k", "two")
    changed.assert_outcomes(passed=1, errors=1)
    changed.stdout.fnmatch_lines(["*recorded in *shared.json, and not asked for: GET https*"])


def test_each_test_has_a_recording_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "AGENTKIT_RECORD"):
        monkeypatch.delenv(name, raising=False)

    def answer(transport: object, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=request.read())

    monkeypatch.setattr(httpx2.HTTPTransport, "handle_request", answer)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(
        test_wire="""
import httpx2, pytest

pytestmark = pytest.mark.wire_cassette

def say(text):
    with httpx2.Client() as http:
        assert http.post("https://provider.invalid", content=text).text == text

class TestA:
    def test_it(self):
        say("a")

class TestB:
    def test_it(self):
        say("b")

    class TestC:
        def test_it(self):
            say("c")

@pytest.mark.parametrize("text", ["x/y", "x y", "x-y", "x-y-", "x" * 300, "x" * 301])
def test_it(text):
    say(text)
"""
    )
    pytester.runpytest("--agentkit-record=all").assert_outcomes(passed=9)
    found = sorted(os.listdir(pytester.path / "cassettes" / "test_wire"))
    assert len(found) == 9
    plain = {"TestA.test_it", "TestB.test_it", "TestB.TestC.test_it", "test_it-x-y", "test_it-x-y-"}
    assert {f"{name}.json" for name in plain} < set(found)
    pytester.runpytest().assert_outcomes(passed=9)
