"""The official client's helpers, failures and retries."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import BaseModel

from agentkit_runtime.api import create_app
from agentkit_runtime.api.asked import Asked, OpenGate, Ticket
from agentkit_runtime.api.failure import ApiError
from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.openai.cases import ARGUMENTS, FUNCTION
from tests.runtime.api.serving import Served, serving_app
from tests.runtime.service.scripted import wait_until


class Place(BaseModel):
    city: str
    days: int


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_a_chat_is_parsed_into_a_model(client: openai.OpenAI) -> None:
    parsed = client.chat.completions.parse(
        model="scripted",
        messages=[{"role": "user", "content": "place"}],
        response_format=Place,
    )

    assert parsed.choices[0].message.parsed == Place(city="Oslo", days=3)


def test_a_call_is_parsed_into_a_model(client: openai.OpenAI) -> None:
    parsed = client.chat.completions.parse(
        model="scripted",
        messages=[{"role": "user", "content": "weather"}],
        tools=[openai.pydantic_function_tool(Place, name="weather")],
    )

    (call,) = parsed.choices[0].message.tool_calls or ()
    assert call.function.parsed_arguments == Place(city="Zürich", days=3)


def test_a_stream_is_parsed_into_a_model(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="scripted",
        messages=[{"role": "user", "content": "place"}],
        response_format=Place,
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()

    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.parsed == Place(city="Oslo", days=3)


def test_a_response_stream_is_parsed_into_a_model(client: openai.OpenAI) -> None:
    with client.responses.stream(model="scripted", input="place", text_format=Place) as stream:
        final = stream.get_final_response()

    assert final.output_parsed == Place(city="Oslo", days=3)


@pytest.mark.parametrize("stream", [False, True])
def test_the_tool_runner_runs_a_session(client: openai.OpenAI, stream: bool) -> None:
    asked: list[dict[str, object]] = []

    def weather(arguments: dict[str, object]) -> str:
        asked.append(arguments)
        return "sunny"

    runner = ResponsesToolRunner(
        functions=[RegisteredFunction({"type": "function", **FUNCTION}, weather)]  # type: ignore[typeddict-item]
    )
    params: ResponseCreateParamsNonStreaming = {"model": "scripted", "input": "weather"}
    final = runner.run(client, params, stream=stream)

    assert asked == [{"city": "Zürich", "days": 3}]
    assert final.output_text == ANSWERS["sunny"]


def test_raw_answers_have_headers_and_can_be_read_in_pieces(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="scripted", messages=[{"role": "user", "content": "hello"}]
    )
    assert raw.headers["content-type"] == "application/json"

    with client.responses.with_streaming_response.create(
        model="scripted", input="hello", stream=True
    ) as streamed:
        assert streamed.headers["content-type"].startswith("text/event-stream")
        lines = list(streamed.iter_lines())
    assert sum(line.startswith("event: response.completed") for line in lines) == 1


def test_models_are_listed_in_pages_and_found(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.models.retrieve("scripted").owned_by


def test_a_conversation_by_chat_completions_reads_its_prefix(client: openai.OpenAI) -> None:
    system = "You answer in one short sentence. " * 8
    cached = []
    for text in ("hello", "sunny"):
        done = client.chat.completions.create(
            model="scripted",
            messages=[{"role": "system", "content": system}, {"role": "user", "content": text}],
        )
        assert done.usage is not None
        assert done.usage.prompt_tokens_details is not None
        cached.append(done.usage.prompt_tokens_details.cached_tokens or 0)

    assert cached[1] > cached[0]


def test_each_failure_is_the_clients_own_exception(client: openai.OpenAI) -> None:
    messages = [{"role": "user", "content": "hello"}]
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(
            model="scripted",
            messages=messages,  # type: ignore[arg-type]
            temperature=9,
        )
    assert (bad.value.param, bad.value.code, bad.value.type) == (
        "temperature",
        "invalid_value",
        "invalid_request_error",
    )
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="gpt-9", input="hello")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model="scripted", prompt="x " * 60_000)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "prompt")


class Busy:
    """Refuses the first requests."""

    def __init__(self, n_refused: int) -> None:
        self.n_left = n_refused

    def enter(self, asked: Asked) -> Ticket:
        if self.n_left:
            self.n_left -= 1
            raise ApiError("too much at once", status=429, code="rate_limited", retry_after_s=3)
        return OpenGate().enter(asked)


@pytest.fixture(scope="module")
def gate() -> Busy:
    return Busy(0)


@pytest.fixture(scope="module")
def busy_url(served: Served, gate: Busy) -> Iterator[str]:
    with serving_app(create_app(served.service, gate=gate)) as (url, _):
        yield f"{url}/v1"


def test_the_client_comes_back_when_it_is_told_to(
    busy_url: str, gate: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("openai._base_client.time.sleep", waited.append)
    gate.n_left = 2
    with openai.OpenAI(base_url=busy_url, api_key="none", max_retries=2) as patient:
        answer = patient.responses.create(model="scripted", input="hello")

    assert answer.output_text == ANSWERS["hello"]
    assert waited == [3, 3]


def ask(client: openai.OpenAI, api: str, stream: bool) -> None:
    match api:
        case "chat":
            client.chat.completions.create(
                model="scripted", messages=[{"role": "user", "content": "hello"}], stream=stream
            )
        case "responses":
            client.responses.create(model="scripted", input="hello", stream=stream)
        case _:
            client.completions.create(model="scripted", prompt="hello", stream=stream)


@pytest.mark.parametrize("api", ["chat", "responses", "completions"])
@pytest.mark.parametrize("stream", [False, True])
def test_too_much_is_a_rate_limit_error_before_anything_is_sent(
    busy_url: str, gate: Busy, api: str, stream: bool
) -> None:
    gate.n_left = 1
    with (
        openai.OpenAI(base_url=busy_url, api_key="none", max_retries=0) as hasty,
        pytest.raises(openai.RateLimitError) as refused,
    ):
        ask(hasty, api, stream)
    assert refused.value.response.headers["retry-after"] == "3"
    assert refused.value.type == "rate_limit_error"


def test_a_stream_that_the_caller_leaves_frees_its_place(
    served: Served, client: openai.OpenAI
) -> None:
    with client.responses.create(model="scripted", input="novel", stream=True) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                break

    wait_until(lambda: served.idle)


def test_arguments_are_told_as_they_were_generated(client: openai.OpenAI) -> None:
    answer = client.responses.create(
        model="scripted",
        input="weather",
        tools=[{"type": "function", **FUNCTION}],  # type: ignore[list-item]
    )

    (call,) = answer.output
    assert call.type == "function_call"
    assert call.arguments == ARGUMENTS
