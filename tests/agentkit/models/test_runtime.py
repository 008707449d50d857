"""`runtime:` models: agents on a server of ours, over real HTTP, under the real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agentkit import Agent, RunResult, tool
from agentkit.blocks import AssistantMessage, UserMessage, VendorItem
from agentkit.context import Context, SystemPart, SystemText, ToolList
from agentkit.errors import ConfigurationError, ModelError, RequestRefused, UnknownModel
from agentkit.events import Turn
from agentkit.folding import fold
from agentkit.models.base import ModelRequest, Settings, ToolChoice, ToolName
from agentkit.models.resolve import resolve_model
from agentkit.models.runtime import RuntimeModel
from agentkit.team.warm import warm
from agentkit.toolset import Toolset
from agentkit_runtime.api.asked import Asked, OpenGate, Ticket
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.chat import ToolName as ForcedTool
from agentkit_runtime.kv.hints import LikelyNext, SessionDone, SessionWaits
from agentkit_runtime.load_text import load_text
from agentkit_runtime.types import Priority
from tests.agentkit.models.own_server import Own, Text, own_server
from tests.runtime.service.scripted import wait_until

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
ANSWERS = {
    "How is it": CALL,
    "sunny": "It is sunny — 7 °C.",
    "And tomorrow": "Rain, I believe.",
    "novel": "Once...",
}


@tool
def weather(city: str) -> str:
    """Say the weather."""
    return "sunny"


class Clerk(Agent[None, str]):
    """You know the weather of all cities."""

    instructions = "Be honest. " * 30
    tools = (weather,)
    max_retries = 0


@pytest.fixture(scope="module")
def text(smollm2_gguf: Path) -> Text:
    torch.set_num_threads(1)
    return load_text(smollm2_gguf)


@pytest.fixture(scope="module")
def own(text: Text) -> Iterator[Own]:
    with own_server(text, ANSWERS) as server:
        yield server


@pytest.fixture
def asked(own: Own) -> Sequence[ChatRequest]:
    own.seen.asked_.clear()
    own.hints.clear()
    return own.asked


TOOLSET = Toolset([weather])


def request(text: str, **changes: Any) -> ModelRequest:
    context = Context(
        SystemText(SystemPart.RULES, "Be honest."),
        ToolList(TOOLSET.bytes),
        UserMessage.of(text),
    )
    made = ModelRequest(context=context, toolset=TOOLSET, agent="a", run_id="r", request_id="r-0-0")
    return replace(made, **changes)


async def answer(model: RuntimeModel, asking: ModelRequest) -> Turn:
    async with aclosing(model.stream(asking)) as stream:
        return fold([event async for event in stream])


# -- tokens in, tokens out ---------------------------------------------------------------------


async def test_later_prompts_begin_with_the_earlier_ids_and_the_generated_ones(
    own: Own, asked: Sequence[ChatRequest]
) -> None:
    model = RuntimeModel(own.url)
    result = await Clerk(model=model).run("How is it in Zürich?")
    await model.aclose()

    assert result.text == ANSWERS["sunny"]
    first, second = asked
    reply = second.messages[-2]
    assert reply.tool_calls[0].arguments == '{"city": "Zürich"}'
    generated = (*own.ids(first), *reply.token_ids)
    assert reply.token_ids
    assert own.ids(second)[: len(generated)] == generated
    usage = result.requests[1].usage
    # The last ones were never computed: the grammar forced them, and then the turn ended.
    assert len(generated) - 16 <= (usage.cache_read_tokens or 0) < len(generated)


async def test_a_saved_run_goes_on_at_a_server_that_remembers_nothing(
    text: Text, tmp_path: Path
) -> None:
    async def turn(own: Own, prompt: str, context: Context | None) -> RunResult[str]:
        model = RuntimeModel(own.url)
        result = await Clerk(model=model).run(prompt, context=context)
        await model.aclose()
        return RunResult.from_json(result.to_json(), str)

    with own_server(text, ANSWERS, disk=tmp_path) as before:
        first = await turn(before, "How is it in Zürich?", None)
        last = before.asked[-1]
        n_known = len(before.ids(last)) + (first.requests[-1].usage.output_tokens or 0)
        begin = before.ids(last)
    with own_server(text, ANSWERS, disk=tmp_path) as after:
        second = await turn(after, "And tomorrow?", first.context)
        (again,) = after.asked
        reply = again.messages[-2]
        ids = after.ids(again)
        restored = after.served.service.stats().restored_tokens

    assert second.text == ANSWERS["And tomorrow"]
    assert ids[: len(begin) + len(reply.token_ids)] == (*begin, *reply.token_ids)
    cached = second.requests[0].usage.cache_read_tokens
    # Tiers keep whole blocks: all but what is behind the last one.
    assert restored == cached
    assert n_known - 16 <= cached <= n_known


async def test_ids_of_another_conversation_change_nothing(own: Own) -> None:
    model = RuntimeModel(own.url)
    asking = request("Is it sunny?")
    turn = await answer(model, asking)
    (item,) = [block for block in turn.message.blocks if isinstance(block, VendorItem)]
    forged = replace(item, data='{"token_ids":[1,2,3]}')
    odd = replace(item, data='{"token_ids":"all"}')
    plain = tuple(block for block in turn.message.blocks if block is not item)

    prompts = []
    for blocks in (plain, (*plain, forged), (*plain, odd)):
        context = asking.context.append(AssistantMessage(blocks))
        told = replace(asking, context=context.append(UserMessage.of("And tomorrow?")))
        await answer(model, told)
        prompts.append(own.ids(own.asked[-1]))
    await model.aclose()

    assert prompts[0] == prompts[1] == prompts[2]


async def test_masks_and_choices_change_no_id(own: Own, asked: Sequence[ChatRequest]) -> None:
    model = RuntimeModel(own.url)
    steering: list[dict[str, object]] = [
        {},
        {"allowed_tools": frozenset()},
        {"tool_choice": ToolName("weather")},
        {"output_schema": {"type": "string"}},
    ]
    settings = Settings(max_tokens=4)
    turns = [
        await answer(model, request("How is it in Bern?", settings=settings, **changes))
        for changes in steering
    ]
    await model.aclose()

    assert len({own.ids(chat) for chat in asked}) == 1
    assert asked[1].tool_choice == "none"
    assert asked[2].tool_choice == ForcedTool("weather")
    assert asked[3].response_schema == {"type": "string"}
    assert {turn.finish for turn in turns} == {"length"}


# -- what a model tells and takes --------------------------------------------------------------


async def test_usage_time_and_window_are_told(own: Own) -> None:
    model = RuntimeModel(own.url)
    assert model.context_tokens is None

    turn = await answer(model, request("And tomorrow in Rome?"))
    await model.aclose()

    assert turn.message.text == ANSWERS["And tomorrow"]
    assert turn.finish == "stop"
    usage = turn.usage
    assert usage.input_tokens == (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    assert turn.timing.ttft_s is not None
    assert turn.timing.total_s is not None
    assert model.context_tokens == own.served.service.context_tokens
    assert model.costs_nothing
    assert model.siblings_start_together


async def test_hints_sessions_tags_and_the_class_reach_the_server(
    own: Own, asked: Sequence[ChatRequest]
) -> None:
    class Reader(Agent[None, str]):
        """You read."""

        tools = (weather,)

    class Lead(Agent[None, str]):
        """You lead."""

        subagents = (Reader,)

        def tool_choice(self, turn: int) -> ToolChoice:
            return "none"

    model = RuntimeModel(own.url, priority="batch", deadline_s=30)
    await Clerk(model=model).run("How is it in Zürich?")
    await Lead(model=model).run("And tomorrow? " + "x" * 10)
    model.likely_next(frozenset({"reader"}), "")
    model.conversation_ended(request("x", session="s" * 300))
    await model.aclose()

    assert {chat.priority for chat in asked} == {Priority.BATCH}
    assert {chat.deadline_s for chat in asked} == {30.0}
    assert asked[0].tags == {"clerk"}
    kinds = {type(hint) for hint in own.hints}
    assert kinds == {SessionWaits, LikelyNext, SessionDone}
    (waits,) = [hint for hint in own.hints if isinstance(hint, SessionWaits)]
    assert waits.session == asked[0].session
    (done,) = [hint for hint in own.hints if isinstance(hint, SessionDone)]
    assert len(done.session) < 256


async def test_fronts_are_warmed_and_pinned(own: Own) -> None:
    class Archivist(Clerk):
        """You keep the papers of a town."""

    model = RuntimeModel(own.url)
    agent = Archivist(model=model)
    (first,) = (await warm(agent, keep_s=60)).values()
    (again,) = (await warm(agent, keep_s=60)).values()
    result = await agent.run("And tomorrow?")
    await model.aclose()

    assert again.cache_read_tokens == again.input_tokens == first.input_tokens
    assert result.requests[0].usage.cache_read_tokens >= (first.input_tokens or 0) - 1
    pins = await own.served.service.prefixes.pins("default")
    assert "archivist" in {pin.name for pin in pins}
    for pin in pins:
        await own.served.service.prefixes.unpin(pin.handle)


def test_a_model_string_names_one_model_for_all() -> None:
    model = resolve_model("runtime:http://host:8000/v1/#small")

    assert isinstance(model, RuntimeModel)
    assert model.label == "runtime:http://host:8000#small"
    assert resolve_model("runtime:http://host:8000/v1/#small") is model
    with pytest.raises(UnknownModel, match="no model named"):
        resolve_model("runtime:")


@pytest.mark.parametrize(
    ("url", "options", "problem"),
    [
        ("host:8000", {}, "no address"),
        ("http://", {}, "no address"),
        ("http://host:99999", {}, "no address"),
        ("http://me:secret@host", {}, "holds a user or password"),
        ("http://host", {"deadline_s": 0}, "deadline_s"),
        ("http://host", {"silence_s": float("nan")}, "silence_s"),
        ("http://host", {"priority": "high"}, "priority must be one of"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    url: str, options: Mapping[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        RuntimeModel(url, **options)
    assert "secret" not in str(caught.value)


# -- tenants -----------------------------------------------------------------------------------


class Keys:
    """The key is the tenant's name behind `key-`."""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        key = headers.get("authorization", "").removeprefix("Bearer key-")
        if not key or key.startswith("Bearer"):
            raise ApiError("unknown key", status=401, code="invalid_api_key")
        return Caller(tenant=key, roles=frozenset({"user"}))


async def test_each_tenant_has_its_own_key_and_cache(
    text: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_server(text, ANSWERS, authenticator=Keys()) as own:
        model = RuntimeModel(own.url, api_key={"ann": "key-ann", "bob": "key-bob"})
        turns = [
            await answer(model, request("And tomorrow?", tenant=tenant))
            for tenant in ("ann", "ann", "bob")
        ]
        with pytest.raises(RequestRefused, match="no key for tenant 'eve'"):
            await answer(model, request("And tomorrow?", tenant="eve"))
        monkeypatch.setenv("AGENTKIT_RUNTIME_KEY", "key-env")
        by_environment = RuntimeModel(own.url)
        await answer(by_environment, request("And tomorrow?"))
        monkeypatch.setenv("AGENTKIT_RUNTIME_KEY", "wrong-secret")
        with pytest.raises(ModelError, match="AGENTKIT_RUNTIME_KEY") as caught:
            await answer(RuntimeModel(own.url), request("And tomorrow?"))
        await model.aclose()
        await by_environment.aclose()

    assert [chat.tenant for chat in own.asked] == ["ann", "ann", "bob", "env"]
    assert (turns[1].usage.cache_read_tokens or 0) > 0
    assert turns[2].usage.cache_read_tokens == 0
    assert not caught.value.retryable
    assert "secret" not in str(caught.value)


async def test_tenants_do_not_share_one_key_by_accident(own: Own) -> None:
    model = RuntimeModel(own.url)
    await answer(model, request("And tomorrow?", tenant="ann"))
    with pytest.raises(RequestRefused, match="'ann' and 'bob' would share one key"):
        await answer(model, request("And tomorrow?", tenant="bob"))
    await model.aclose()

    shared = RuntimeModel(own.url, shares_cache=True)
    for tenant in ("ann", "bob"):
        await answer(shared, request("And tomorrow?", tenant=tenant))
    await shared.aclose()


# -- failures ----------------------------------------------------------------------------------


class Refusing(OpenGate):
    """Refuses as it is told."""

    error: ApiError | None = None

    def enter(self, asked: Asked) -> Ticket:
        if self.error is not None:
            raise self.error
        return super().enter(asked)


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, RequestRefused, False),
        (413, RequestRefused, False),
        (403, ModelError, False),
        (409, ModelError, False),
        (429, ModelError, True),
        (503, ModelError, True),
    ],
)
async def test_refusals_say_whether_to_come_again(
    refusing: tuple[Own, Refusing], status: int, kind: type[ModelError], retryable: bool
) -> None:
    own, gate = refusing
    gate.error = ApiError("too much", status=status, retry_after_s=7, code="x")
    model = RuntimeModel(own.url)

    with pytest.raises(ModelError, match="too much") as caught:
        await answer(model, request("And tomorrow?"))
    await model.aclose()

    assert type(caught.value) is kind
    assert caught.value.retryable is retryable
    assert caught.value.retry_after_s == (7 if retryable else None)


@pytest.fixture(scope="module")
def refusing(text: Text) -> Iterator[tuple[Own, Refusing]]:
    gate = Refusing()
    with own_server(text, ANSWERS, gate=gate) as own:
        yield own, gate


async def test_what_the_server_cannot_take_is_refused(own: Own) -> None:
    model = RuntimeModel(own.url, model="gpt")
    with pytest.raises(RequestRefused, match="not served here"):
        await answer(model, request("And tomorrow?"))
    await model.aclose()


async def test_a_run_that_is_cancelled_frees_everything(own: Own) -> None:
    model = RuntimeModel(own.url)
    own.served.pace.hold()
    task = asyncio.ensure_future(answer(model, request("a novel")))
    await asyncio.to_thread(own.served.pace.waiting.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    own.served.pace.go()
    await asyncio.to_thread(wait_until, lambda: own.served.idle)
    await model.aclose()


async def test_an_answer_that_a_stopping_server_gives_up_may_be_asked_for_again(own: Own) -> None:
    model = RuntimeModel(own.url)
    own.served.pace.hold()
    task = asyncio.ensure_future(answer(model, request("a novel")))
    await asyncio.to_thread(own.served.pace.waiting.wait, 30)
    # The engine may be at it before the server has noted that it is.
    await asyncio.to_thread(wait_until, lambda: own.abort_all() > 0)
    own.served.pace.go()
    with pytest.raises(ModelError, match="ended the request") as caught:
        await task
    await model.aclose()

    assert caught.value.retryable


async def cut_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that says what it is, begins an answer and is gone."""
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"GET"):
        body = b'{"version":1,"release":"1","model":"m","models":["m"],"context_tokens":9}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    else:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(b'data: {"content":{"text":"Ra"}}\n\n')
    await writer.drain()
    writer.close()


async def other_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<htm>")
    writer.close()


async def older(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    body = b'{"version":9,"release":"9","model":"m","models":["m"],"context_tokens":9}'
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    writer.close()


@pytest.mark.parametrize(
    ("behaves", "problem", "retryable"),
    [
        (cut_off, "broke off", True),
        (other_server, "no server of ours", False),
        (older, "install the same release", False),
    ],
)
async def test_servers_that_break_off_or_are_others(
    behaves: Any, problem: str, retryable: bool
) -> None:
    server = await asyncio.start_server(behaves, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = RuntimeModel(f"http://127.0.0.1:{port}")
    with pytest.raises(ModelError, match=problem) as caught:
        await answer(model, request("And tomorrow?"))
    await model.aclose()
    server.close()
    await server.wait_closed()

    assert caught.value.retryable is retryable


async def test_a_server_that_is_not_there_may_come_back() -> None:
    server = await asyncio.start_server(older, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    model = RuntimeModel(f"http://127.0.0.1:{port}")

    with pytest.raises(ModelError, match="cannot be reached") as caught:
        await answer(model, request("And tomorrow?"))
    await model.aclose()

    assert caught.value.retryable


def test_one_model_is_used_from_one_event_loop_after_another(own: Own) -> None:
    model = RuntimeModel(own.url)

    texts = [asyncio.run(answer(model, request("And tomorrow?"))).message.text for _ in range(2)]

    assert texts == [ANSWERS["And tomorrow"]] * 2
