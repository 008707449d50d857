"""What only the wire shows: pings, ends of connections, failures inside a stream, labels."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx2
import pytest

from agentkit_runtime.api.anthropic.encode import MessageEncoder
from agentkit_runtime.api.anthropic.telling import Telling
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatEvent, ChatFinished, ChatMessage, ChatRequest, ContentDelta
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.service import ChatService
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.types import RequestStats
from tests.runtime.api.anthropic.cases import HELLO, assistant, user
from tests.runtime.api.anthropic.test_usage import stats
from tests.runtime.api.serving import Served, serving
from tests.runtime.service.scripted import BOUND_S, Script, scripted_model, wait_until


@dataclass
class LateAnswer:
    """An answer whose first event comes when it is let go."""

    found: list[ChatEvent]
    go: asyncio.Event
    begun: RequestStats

    @property
    def chat(self) -> ChatRequest:
        return ChatRequest(messages=(ChatMessage(role="user", content="a"),))

    @property
    def streams(self) -> list[LateAnswer]:
        return [self]

    async def events(self) -> AsyncIterator[tuple[int, ChatEvent]]:
        await self.go.wait()
        for event in self.found:
            yield 0, event


def telling(answer: LateAnswer) -> Telling:
    async def keep(ids: tuple[int, ...]) -> list[int]:
        raise AssertionError("nothing is marked")

    return Telling(
        answer=answer,  # type: ignore[arg-type]
        encoder=MessageEncoder(id="msg_1", model="m", context_tokens=99),
        fronts=(),
        keep=keep,
        ping_s=0.001,
    )


def test_a_client_that_waits_for_its_prompt_gets_pings_and_then_the_usage() -> None:
    async def read() -> list[str]:
        last = ChatFinished(reason="stop", stats=stats(9, 3))
        answer = LateAnswer([ContentDelta("a"), last], asyncio.Event(), last.stats)
        kinds = []
        async for event in telling(answer).events():
            kinds.append(event["type"])
            if kinds.count("ping") == 3:
                answer.go.set()
        return kinds

    kinds = asyncio.run(read())
    n_pings = kinds.index("message_start")
    assert n_pings >= 3
    assert "ping" not in kinds[n_pings:]


def test_a_client_that_leaves_while_it_waits_leaves_no_task() -> None:
    async def leave() -> set[Any]:
        events = telling(LateAnswer([], asyncio.Event(), stats(9, 3))).events()
        assert (await anext(events))["type"] == "ping"
        await events.aclose()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(leave()) == set()


def test_an_answer_without_an_end_is_a_failure() -> None:
    async def read() -> None:
        answer = LateAnswer([], asyncio.Event(), stats(9, 3))
        answer.go.set()
        async for _ in telling(answer).events():
            pass

    with pytest.raises(ApiError, match="without a final event"):
        asyncio.run(read())


@contextmanager
def asking(served: Served, *, stream: bool) -> Iterator[socket.socket]:
    """A connection on which an answer without end was asked for; it is just cut at the end."""
    asked = {"model": "scripted", "max_tokens": 4000, "messages": [user("novel")], "stream": stream}
    body = json.dumps(asked).encode()
    head = (
        "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    address = ("127.0.0.1", int(served.url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=BOUND_S) as connection:
        connection.sendall(head.encode() + body)
        yield connection


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("held", [True, False])
def test_a_client_that_vanishes_gives_its_slots_back(
    served: Served, *, stream: bool, held: bool
) -> None:
    """R34. Held: it vanishes before the first token."""
    wait_until(lambda: served.idle and served.n_handlers == 0)
    n_before = served.pace.n_tokens
    if held:
        served.pace.hold()
    try:
        with asking(served, stream=stream):
            wait_until(
                served.pace.waiting.is_set if held else lambda: served.pace.n_tokens > n_before + 3
            )
        n_then = served.pace.n_tokens
    finally:
        served.pace.go()

    wait_until(lambda: served.idle and served.n_handlers == 0)
    assert served.pace.n_tokens - n_then < 1000


def test_a_stream_that_fails_ends_with_an_error_event(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    def breaks(context: list[int]) -> int:
        if len(context) > 45:
            raise RuntimeError("broken")
        return script(context)

    script = Script(smollm2_text[0], {"novel": "Once..."})
    with scripted_model(*smollm2_text, breaks) as loaded, serving(ChatService(loaded)) as (url, _):
        with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
            asked: dict[str, Any] = {"model": "scripted", "max_tokens": 99}
            asked["messages"] = [user("novel")]
            with client.messages.stream(**asked) as stream:
                with pytest.raises(anthropic.APIStatusError) as failed:
                    list(stream.text_stream)
            with pytest.raises(anthropic.InternalServerError):
                client.messages.create(**asked)

    body = failed.value.body
    assert isinstance(body, dict)
    assert body["error"]["type"] == "api_error"
    assert body["request_id"].startswith("req_")


def test_thinking_is_told_apart(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> None:
    """A template that knows the tags, and a model that thinks first."""
    tokenizer, template = smollm2_text
    thinking = ChatTemplate(template.source + "{# </think> #}")
    script = Script(tokenizer, {"hello": f"<think>\nHm.\n</think>\n\n{HELLO}"})
    with (
        scripted_model(tokenizer, thinking, script) as loaded,
        serving(ChatService(loaded)) as (url, _),
        anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client,
        client.messages.stream(
            model="scripted",
            max_tokens=1100,
            messages=[user("hello")],
            thinking={"type": "enabled", "budget_tokens": 1024},
        ) as stream,
    ):
        thoughts = [event.thinking for event in stream if event.type == "thinking"]
        message = stream.get_final_message()

    assert "".join(thoughts) == "Hm."
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[1].text == HELLO  # type: ignore[union-attr]
    details = message.usage.output_tokens_details
    assert details is not None
    assert 0 < details.thinking_tokens < message.usage.output_tokens


def test_headers_label_a_request_and_the_tier_tells_its_priority(served: Served) -> None:
    asked = {"model": "scripted", "max_tokens": 9, "messages": [user("hello")]}

    answers = {
        name: httpx2.post(
            f"{served.url}/v1/messages", json=asked, headers={"x-agentkit-priority": name}
        ).json()["usage"]["service_tier"]
        for name in ("batch", "normal", "interactive")
    }

    assert answers == {"batch": "batch", "normal": "standard", "interactive": "priority"}


def test_a_beginning_that_looks_like_special_tokens_stays_text(
    served: Served, client: anthropic.Anthropic
) -> None:
    def n_tokens(beginning: str) -> int:
        messages = [user("hello"), assistant(beginning)]
        return client.messages.count_tokens(model="scripted", messages=messages).input_tokens

    assert n_tokens("<|im_end|>") > n_tokens("Hello") + 2


def test_a_turn_that_went_on_from_a_beginning_is_read_again(
    client: anthropic.Anthropic,
) -> None:
    asked: dict[str, Any] = {"model": "scripted", "max_tokens": 20, "system": "Prefilled."}
    first = client.messages.create(**asked, messages=[user("hello"), assistant("Hello,")])
    whole = f"Hello,{first.content[0].text}"  # type: ignore[union-attr]
    turns = [user("hello"), assistant(whole), user("accents")]
    second = client.messages.create(**asked, messages=turns)

    used = first.usage
    assert used.cache_read_input_tokens is not None
    assert second.usage.cache_read_input_tokens is not None
    assert second.usage.cache_read_input_tokens >= (
        used.cache_read_input_tokens + used.input_tokens + used.output_tokens - 1
    )


def test_an_answer_that_begins_with_thinking_cannot_begin_otherwise(
    smollm2_text: tuple[Tokenizer, ChatTemplate],
) -> None:
    tokenizer, template = smollm2_text
    thinking = ChatTemplate(
        template.source + "{% if add_generation_prompt %}<think>{% endif %}{# </think> #}"
    )
    chat = ChatRequest(messages=(ChatMessage(role="user", content="hello"),), prefill="So")

    with pytest.raises(RequestRejected, match="switch thinking off"):
        Renderer(tokenizer, thinking).render(chat)
    assert Renderer(tokenizer, template).render(chat).text.endswith("assistant\nSo")
