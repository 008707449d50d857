"""agentkit's own endpoints, over a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import httpx2
import pytest

from agentkit_runtime.api import create_app
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import (
    ChatFinished,
    ChatMessage,
    ChatRequest,
    ChatTool,
    ContentDelta,
    ToolCallArguments,
)
from agentkit_runtime.kv.prune import ByTenant
from agentkit_runtime.types import SamplingParams
from agentkit_runtime.wire_chat import (
    CHAT_PATH,
    INFO_PATH,
    WARM_PATH,
    ChatBody,
    WarmBody,
    chat_json,
    event_from_json,
    warm_json,
)
from tests.runtime.api.serving import Served, serving_app
from tests.runtime.service.scripted import BOUND_S, wait_until

WEATHER = ChatTool(
    name="weather",
    description="Tells it.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)


class Keys:
    """The key is the tenant."""

    def authenticate(self, headers: object) -> Caller:
        key = dict(headers).get("authorization", "").removeprefix("Bearer ")  # type: ignore[call-overload]
        if not key:
            raise ApiError("no key", status=401, code="invalid_api_key")
        roles = {"admin"} if key == "root" else {"user"}
        return Caller(tenant=key, roles=frozenset(roles))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx2.Client]:
    app = create_app(served.service, authenticator=Keys(), model_ids=("small", "other"))
    with serving_app(app) as (url, _):
        headers = {"Authorization": "Bearer ann"}
        with httpx2.Client(base_url=url, headers=headers, timeout=BOUND_S) as found:
            yield found


def asking(text: str, **more: object) -> ChatRequest:
    return ChatRequest(messages=(ChatMessage(role="user", content=text),), **more)  # type: ignore[arg-type]


def ask(client: httpx2.Client, body: bytes, key: str = "ann") -> list[object]:
    """The events of an answer."""
    answer = client.post(CHAT_PATH, content=body, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [
        event_from_json(line.removeprefix("data: "))
        for line in answer.text.split("\n")
        if line.startswith("data: ")
    ]


def test_an_answer_is_told_with_its_ids_and_what_was_cached(
    client: httpx2.Client, served: Served
) -> None:
    request = asking("accents, please")
    prompt = served.service.prepare(request).generate.prompt

    events = ask(client, chat_json(request))
    end = events[-1]

    assert isinstance(end, ChatFinished)
    text = "".join(event.text for event in events if isinstance(event, ContentDelta))
    assert text == "naïve — 東京 🙂\u2028 end"
    assert end.stats.prompt_tokens == len(prompt)
    assert end.stats.completion_tokens == len(end.token_ids)
    assert served.service.tokenizer.decode(end.token_ids) == text


def test_masks_and_tools_reach_the_grammar_and_change_no_prompt(client: httpx2.Client) -> None:
    tools = (WEATHER, ChatTool(name="other", description="x", parameters={"type": "object"}))
    free = asking("weather in Zürich?", tools=tools, loosens_tools=True)
    masked = asking(
        "weather in Zürich?",
        tools=tools,
        loosens_tools=True,
        allowed_tools=frozenset({"other"}),
        sampling=SamplingParams(max_tokens=3),
    )

    ends = [ask(client, chat_json(request)) for request in (free, masked, free)]
    stats = [end[-1].stats for end in ends]  # type: ignore[attr-defined]

    assert any(isinstance(event, ToolCallArguments) for event in ends[0])
    assert not any(isinstance(event, ToolCallArguments) for event in ends[1])
    assert {found.prompt_tokens for found in stats} == {stats[0].prompt_tokens}
    assert stats[1].cached_tokens == stats[0].prompt_tokens - 1


def test_the_tenant_is_the_keys(client: httpx2.Client) -> None:
    body = chat_json(asking("hello, who reads this one?", tenant="bob"))

    first, own, foreign = (ask(client, body, key)[-1] for key in ("ann", "ann", "bob"))

    assert own.stats.cached_tokens == first.stats.prompt_tokens - 1  # type: ignore[attr-defined]
    assert foreign.stats.cached_tokens == 0  # type: ignore[attr-defined]


def test_a_front_is_warmed_and_pinned_for_its_tenant_alone(
    client: httpx2.Client, served: Served
) -> None:
    front = ChatRequest(messages=(ChatMessage(role="system", content="Say hello. " * 20),))
    body = warm_json(front, pin=True, ttl_s=60, name="clerk")

    first = client.post(WARM_PATH, content=body).json()
    again = client.post(WARM_PATH, content=body).json()
    pins = asyncio.run(served.service.prefixes.pins("ann"))
    asyncio.run(served.service.prefixes.prune(ByTenant("ann")))

    assert first["tokens"] == again["tokens"] == again["cached_tokens"] > 20
    assert first["cached_tokens"] < first["tokens"]
    assert [pin.name for pin in pins] == ["clerk"]
    assert asyncio.run(served.service.prefixes.pins("bob")) == []


def test_a_server_says_what_it_is(client: httpx2.Client, served: Served) -> None:
    info = client.get(INFO_PATH).json()

    assert (info["version"], info["model"], info["models"]) == (1, "small", ["small", "other"])
    assert info["context_tokens"] == served.service.context_tokens


BODY = {"version": 1, "request": {"messages": [{"role": "user", "content": "hello"}]}}
MESSAGE = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("change", "param", "status"),
    [
        ({"version": 2}, "version", 400),
        ({"model": "gpt"}, "model", 404),
        ({"modell": "small"}, "modell", 400),
        ({"request": {"messages": [{"role": "usr"}]}}, "request.messages[0].role", 400),
        ({"request": {"messages": [{"role": "user", "txt": ""}]}}, "request.messages[0].txt", 400),
        ({"request": {"messages": [MESSAGE], "tenant": "bob"}}, None, 400),
        ({"request": {"messages": [MESSAGE], "history": {"ids": [1], "n_messages": 1}}}, None, 400),
        ({"request": {"messages": [MESSAGE], "session": "s" * 257}}, None, 400),
        ({"request": {"messages": [MESSAGE], "tags": [f"t{n}" for n in range(17)]}}, None, 400),
        ({"request": {"messages": []}}, "messages", 400),
        ({"request": {"messages": [MESSAGE], "sampling": {"temperature": -1}}}, None, 400),
    ],
)
@pytest.mark.parametrize("path", [CHAT_PATH, WARM_PATH])
def test_a_body_that_is_wrong_is_refused_by_field(
    client: httpx2.Client, path: str, change: dict[str, object], param: str | None, status: int
) -> None:
    answer = client.post(path, content=json.dumps({**BODY, **change}))

    error = answer.json()["error"]
    assert answer.status_code == status, answer.text
    assert param is None or error["param"] == param, error


@pytest.mark.parametrize("body", [b"", b"[]", b'{"a":', b"\xff\xfe", b'{"request": "\\ud800"}'])
def test_what_is_no_json_is_refused(client: httpx2.Client, body: bytes) -> None:
    assert client.post(CHAT_PATH, content=body).status_code == 400


def test_schemas_too_deep_to_walk_are_refused(client: httpx2.Client) -> None:
    deep: dict[str, object] = {}
    for _ in range(120):
        deep = {"items": deep}
    request = {"messages": [MESSAGE], "response_schema": deep}

    answer = client.post(CHAT_PATH, content=json.dumps({**BODY, "request": request}))

    assert answer.status_code == 400
    assert "nested deeper" in answer.text


def test_only_users_ask(client: httpx2.Client) -> None:
    for key, status in (("", 401), ("Bearer root", 403)):
        headers = {"Authorization": key}
        answers = [
            client.post(CHAT_PATH, json=BODY, headers=headers),
            client.post(WARM_PATH, json=BODY, headers=headers),
            client.get(INFO_PATH, headers=headers),
        ]
        assert {answer.status_code for answer in answers} == {status}


def test_a_client_that_leaves_frees_everything(client: httpx2.Client, served: Served) -> None:
    with client.stream("POST", CHAT_PATH, content=chat_json(asking("a novel"))) as answer:
        assert next(answer.iter_lines()).startswith("data: ")

    wait_until(lambda: served.idle)


def test_the_description_has_no_reference_to_nowhere(client: httpx2.Client) -> None:
    text = json.dumps(client.get("/openapi.json").json()["paths"][CHAT_PATH])

    assert "$defs" not in text
    assert '"tenant"' not in text
    for kind in (ChatBody, WarmBody):
        assert kind.model_json_schema()
