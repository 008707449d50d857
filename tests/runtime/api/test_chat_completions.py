"""The official client against a real server and the real engine; only the model is scripted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import openai
import pytest
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessageParam,
    ChatCompletionToolParam,
)
from pydantic import BaseModel

from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.serving import Served

WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "days": {"type": "integer", "minimum": 0, "maximum": 9},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
ARGUMENTS = '{"city": "Zürich", "days": 3}'


def user(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def post(served: Served, **fields: object) -> httpx2.Response:
    body = {"model": "scripted", "messages": user("hello"), **fields}
    return httpx2.post(f"{served.url}/v1/chat/completions", json=body, timeout=30)


def sse_documents(response: httpx2.Response) -> list[dict[str, object]]:
    """The events of a stream; checks that it ends properly."""
    *events, last, end = response.text.split("\n\n")
    assert (last, end) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def unknown_fields(value: object, path: str = "") -> list[str]:
    """Fields of a client's model that the client does not know."""
    if isinstance(value, BaseModel):
        extra = [f"{path}.{name}" for name in value.model_extra or ()]
        fields = ((name, getattr(value, name)) for name in type(value).model_fields)
        return extra + [
            bad for name, item in fields for bad in unknown_fields(item, f"{path}.{name}")
        ]
    if isinstance(value, list):
        return [bad for item in value for bad in unknown_fields(item, f"{path}[]")]
    return []


def test_the_client_gets_an_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="scripted", messages=user("hello"))

    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == (ANSWERS["hello"], "stop")
    assert (answer.model, answer.created) == ("scripted", 1_700_000_000)


async def test_the_async_client_gets_an_answer_and_a_stream(served: Served) -> None:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
        answer = await client.chat.completions.create(model="scripted", messages=user("accents"))
        stream = await client.chat.completions.create(
            model="scripted", messages=user("accents"), stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]

    assert answer.choices[0].message.content == "".join(pieces) == ANSWERS["accents"]


def test_the_client_gets_a_stream_with_usage_at_its_end(client: openai.OpenAI) -> None:
    """R46."""
    stream = client.chat.completions.create(
        model="scripted",
        messages=user("hello"),
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = list(stream)

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert (text, chunks[-1].choices[0].finish_reason) == (ANSWERS["hello"], "stop")
    assert len(chunks) > 3
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.prompt_tokens_details is not None


def test_cached_tokens_rise_when_a_prompt_comes_again(client: openai.OpenAI) -> None:
    """R46: usage says how much was read."""
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "A rule that no other test has. " * 5},
        *user("hello"),
    ]

    def ask() -> tuple[int, int]:
        answer = client.chat.completions.create(model="scripted", messages=messages)
        assert answer.usage is not None
        assert answer.usage.prompt_tokens_details is not None
        return answer.usage.prompt_tokens, answer.usage.prompt_tokens_details.cached_tokens or 0

    prompt_tokens, cached_first = ask()
    _, cached_again = ask()

    assert cached_first < 10
    assert cached_again == prompt_tokens - 1


def test_a_tool_call_and_its_result_make_a_conversation(client: openai.OpenAI) -> None:
    asked = client.chat.completions.create(
        model="scripted", messages=user("weather"), tools=[WEATHER]
    )
    (choice,) = asked.choices
    (call,) = choice.message.tool_calls or ()
    assert call.type == "function"
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert (call.function.name, call.function.arguments) == ("weather", ARGUMENTS)

    history: list[ChatCompletionMessageParam] = [
        *user("weather"),
        choice.message.to_dict(),  # type: ignore[list-item]
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    answered = client.chat.completions.create(model="scripted", messages=history, tools=[WEATHER])

    assert answered.choices[0].message.content == ANSWERS["sunny"]
    assert asked.usage is not None
    assert answered.usage is not None
    assert answered.usage.prompt_tokens_details is not None
    # The whole first turn, the call included, is read from the tree.
    known = asked.usage.prompt_tokens + asked.usage.completion_tokens - 1
    assert (answered.usage.prompt_tokens_details.cached_tokens or 0) >= known


def test_a_streamed_call_adds_up_to_the_whole_one(client: openai.OpenAI) -> None:
    """R43, over the wire."""
    with client.chat.completions.stream(
        model="scripted", messages=user("weather"), tools=[WEATHER]
    ) as stream:
        kinds = [event.type for event in stream]
        answer = stream.get_final_completion()

    (call,) = answer.choices[0].message.tool_calls or ()
    assert (call.function.name, call.function.arguments) == ("weather", ARGUMENTS)
    assert kinds.count("tool_calls.function.arguments.delta") > 1
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("asked", ["hello", "accents", "weather"])
def test_answers_hold_only_what_the_official_types_know(served: Served, asked: str) -> None:
    response = post(served, messages=user(asked), tools=[WEATHER])

    answer = ChatCompletion.model_validate(response.json(), strict=True)

    assert unknown_fields(answer) == []
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("asked", ["hello", "accents", "weather"])
@pytest.mark.parametrize("include_usage", [True, False])
def test_chunks_hold_only_what_the_official_types_know(
    served: Served, asked: str, include_usage: bool
) -> None:
    response = post(
        served,
        messages=user(asked),
        tools=[WEATHER],
        stream=True,
        stream_options={"include_usage": include_usage},
    )

    for document in sse_documents(response):
        chunk = ChatCompletionChunk.model_validate(document, strict=True)
        assert unknown_fields(chunk) == []
    assert response.headers["content-type"].startswith("text/event-stream")


def test_a_stream_can_be_read_byte_by_byte(served: Served) -> None:
    """The bytes are cut at every place, and the official decoder puts them together."""
    from openai._streaming import SSEDecoder

    raw = post(served, messages=user("accents"), stream=True).content
    events = list(SSEDecoder().iter_bytes(iter(raw[i : i + 1] for i in range(len(raw)))))

    assert events[-1].data == "[DONE]"
    pieces = [json.loads(event.data)["choices"][0]["delta"] for event in events[:-1]]
    assert "".join(piece.get("content") or "" for piece in pieces) == ANSWERS["accents"]


def test_every_answer_has_its_own_id(served: Served) -> None:
    ids = [post(served).json()["id"] for _ in range(3)]

    assert len(set(ids)) == 3


def test_models_are_listed_and_found_by_name(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.models.retrieve("scripted").owned_by == "agentkit-radix"
    with pytest.raises(openai.NotFoundError) as raised:
        client.models.retrieve("org/other")
    assert raised.value.code == "model_not_found"


def test_health_is_ok_while_the_engine_runs(served: Served) -> None:
    response = httpx2.get(f"{served.url}/health")

    assert (response.status_code, response.json()["status"]) == (200, "ok")


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="known: scripted") as raised:
        client.chat.completions.create(model="gpt-5", messages=user("hello"))

    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("stream", [True, False])
def test_a_prompt_beyond_the_context_is_refused_before_a_stream_begins(
    client: openai.OpenAI, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match=r"\d+ tokens and the limit is 4095") as raised:
        client.chat.completions.create(
            model="scripted", messages=user("word " * 5000), stream=stream
        )

    assert (raised.value.code, raised.value.param) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize("stream", [True, False])
def test_a_schema_that_no_grammar_can_keep_is_refused(served: Served, stream: bool) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}

    response = post(served, response_format=form, stream=stream)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "response_format"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/chat/completions", b"{", 400),
        ("POST", "/v1/chat/completions", b'{"model": "\xff"}', 400),
        ("POST", "/v1/chat/completions", b"", 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
        ("POST", "/v1/chat/completions", b"[" * 100_000, 400),
        ("POST", "/v1/chat/completions", b'{"model": "scripted"}', 400),
        ("POST", "/v1/nothing", b"{}", 404),
        ("DELETE", "/v1/models", b"", 405),
    ],
)
def test_every_failure_has_the_same_shape(
    served: Served, method: str, path: str, body: bytes, status: int
) -> None:
    headers = {"content-type": "application/json"}
    response = httpx2.request(method, served.url + path, content=body, headers=headers)

    error = response.json()["error"]
    assert response.status_code == status
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["message"]


def test_a_refused_field_is_named_over_the_wire(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="scripted", messages=user("hello"), store=True)

    assert (raised.value.param, raised.value.code) == ("store", "unsupported_parameter")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": float("nan")}}},
        {"type": "object", "properties": {"a": {"type": "number", "maximum": float("inf")}}},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2**70}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"pattern": "^.*a.{12}$"}}, "required": ["a"]},
    ],
)
@pytest.mark.parametrize("place", ["tool", "answer"])
def test_schemas_that_cannot_be_enforced_are_the_clients_mistake(
    served: Served, schema: dict[str, object], place: str
) -> None:
    fields: dict[str, object] = (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}
        if place == "tool"
        else {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": schema},
            }
        }
    )
    body = json.dumps({"model": "scripted", "messages": user("hello"), **fields})
    response = httpx2.post(
        f"{served.url}/v1/chat/completions",
        content=body,
        headers={"content-type": "application/json"},
        timeout=30,
    )
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    wanted = "tools[0].function.parameters" if place == "tool" else "response_format"
    assert error["param"] == wanted


# -- several answers, log-probabilities ------------------------------------------------------------


def test_several_answers_are_choices_of_one_completion(client: openai.OpenAI) -> None:
    one = client.chat.completions.create(model="scripted", messages=user("hello"))
    answer = client.chat.completions.create(model="scripted", messages=user("hello"), n=3)

    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {ANSWERS["hello"]}
    assert one.usage is not None
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == one.usage.prompt_tokens
    assert answer.usage.completion_tokens == 3 * one.usage.completion_tokens


def test_several_answers_are_streamed_side_by_side_with_one_usage(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="scripted",
            messages=user("hello"),
            n=2,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    texts = ["", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""

    assert texts == [ANSWERS["hello"]] * 2
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    assert len(usages) == 1
    assert chunks[-1].usage is usages[0]
    finished = [c.index for chunk in chunks for c in chunk.choices if c.finish_reason == "stop"]
    assert sorted(finished) == [0, 1]


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_are_told_of_the_text_that_was_generated(
    client: openai.OpenAI, stream: bool
) -> None:
    asked = {"model": "scripted", "messages": user("accents"), "logprobs": True, "top_logprobs": 2}
    if stream:
        chunks = list(client.chat.completions.create(**asked, stream=True))  # type: ignore[call-overload]
        assert not [bad for chunk in chunks for bad in unknown_fields(chunk)]
        told = [choice.logprobs for chunk in chunks for choice in chunk.choices]
        tokens = [item for part in told if part for item in part.content or ()]
    else:
        answer = client.chat.completions.create(**asked)  # type: ignore[call-overload]
        assert not unknown_fields(answer)
        tokens = answer.choices[0].logprobs.content

    said = b"".join(bytes(item.bytes) for item in tokens)
    assert said.decode() == ANSWERS["accents"]
    assert all(len(item.top_logprobs) == 2 for item in tokens)
    assert all(item.logprob == pytest.approx(0.0, abs=1e-6) for item in tokens)
    assert all(item.top_logprobs[0].token == item.token for item in tokens)


def test_without_asking_nothing_is_told_of_probabilities(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="scripted", messages=user("hello"))
    assert answer.choices[0].logprobs is None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_an_answer_whose_deadline_passes_is_a_timeout(served: Served, path: str) -> None:
    answer = httpx2.post(
        served.url + path,
        json={
            "model": "scripted",
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "novel"}],
        },
        headers={"x-agentkit-deadline-s": "0.000001"},
    )

    assert answer.status_code == 504
    assert "the deadline of 1e-06 s passed" in answer.json()["error"]["message"]
