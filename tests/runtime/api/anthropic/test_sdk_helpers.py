"""Helpers of Anthropic's SDK: tool runner, parsing, counting, models, errors, retries."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import beta_async_tool, beta_tool
from anthropic.types import MessageTokensCount, ModelInfo
from pydantic import BaseModel

from tests.runtime.api.anthropic.cases import HELLO, SCHEMA, WEATHER, text, user
from tests.runtime.api.anthropic.strictly import strictly
from tests.runtime.api.serving import Served


class Forecast(BaseModel):
    city: str
    days: int


def told(city: str, days: int) -> str:
    return f"sunny for {days} days in {city}"


def test_the_tool_runner_runs_to_the_answer(client: anthropic.Anthropic) -> None:
    @beta_tool
    def weather(city: str, days: int) -> str:
        """Weather of a city."""
        return told(city, days)

    runner = client.beta.messages.tool_runner(
        model="scripted", max_tokens=200, tools=[weather], messages=[user("weather")]
    )
    messages = list(runner)

    assert [message.stop_reason for message in messages] == ["tool_use", "end_turn"]
    assert messages[-1].content[0].text == "It is sunny."  # type: ignore[union-attr]
    assert messages[1].usage.cache_read_input_tokens > messages[0].usage.input_tokens  # type: ignore[operator]


def test_the_tool_runner_streams_and_runs_calls_in_parallel(client: anthropic.Anthropic) -> None:
    cities: list[str] = []

    @beta_tool
    def weather(city: str, days: int) -> str:
        """Weather of a city."""
        cities.append(city)
        return told(city, days)

    runner = client.beta.messages.tool_runner(
        model="scripted", max_tokens=200, tools=[weather], messages=[user("both")], stream=True
    )
    finals = [stream.get_final_message() for stream in runner]

    assert cities == ["Oslo", "Rome"]
    assert [message.stop_reason for message in finals] == ["tool_use", "end_turn"]


def test_the_async_tool_runner_runs_to_the_answer(served: Served) -> None:
    @beta_async_tool
    async def weather(city: str, days: int) -> str:
        """Weather of a city."""
        return told(city, days)

    async def run() -> list[Any]:
        async with anthropic.AsyncAnthropic(base_url=served.url, api_key="none") as client:
            runner = client.beta.messages.tool_runner(
                model="scripted", max_tokens=200, tools=[weather], messages=[user("weather")]
            )
            return [message async for message in runner]

    assert [message.stop_reason for message in asyncio.run(run())] == ["tool_use", "end_turn"]


def test_a_failing_tool_is_told_to_the_model(client: anthropic.Anthropic) -> None:
    @beta_tool
    def weather(city: str, days: int) -> str:
        """Weather of a city."""
        raise ValueError("not sunny")

    runner = client.beta.messages.tool_runner(
        model="scripted", max_tokens=200, tools=[weather], messages=[user("weather")]
    )

    assert runner.until_done().content[0].text == "It is sunny."  # type: ignore[union-attr]


def test_parsing_gives_an_object_in_its_type(client: anthropic.Anthropic) -> None:
    parsed = client.messages.parse(
        model="scripted", max_tokens=50, messages=[user("form")], output_format=Forecast
    )

    assert parsed.parsed_output == Forecast(city="Oslo", days=2)


def test_a_stream_parses_too(client: anthropic.Anthropic) -> None:
    with client.messages.stream(
        model="scripted", max_tokens=50, messages=[user("form")], output_format=Forecast
    ) as stream:
        assert stream.get_final_message().parsed_output == Forecast(city="Oslo", days=2)


def test_the_older_name_of_a_schema_is_known(client: anthropic.Anthropic) -> None:
    message = client.messages.create(
        model="scripted",
        max_tokens=50,
        messages=[user("form")],
        extra_body={"output_format": {"type": "json_schema", "schema": SCHEMA}},
    )

    assert message.content[0].text == '{"city": "Oslo", "days": 2}'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"system": "Be kind."},
        {"tools": [WEATHER], "tool_choice": {"type": "any"}},
        {"system": [text("Be kind.", cache_control={"type": "ephemeral"})]},
    ],
)
def test_counted_tokens_are_those_of_the_prompt(
    client: anthropic.Anthropic, more: dict[str, Any]
) -> None:
    raw = client.messages.with_raw_response.count_tokens(
        model="scripted", messages=[user("weather")], **more
    )
    counted = strictly(MessageTokensCount, raw.http_response.json())
    usage = client.messages.create(
        model="scripted", max_tokens=100, messages=[user("weather")], **more
    ).usage

    assert usage.cache_read_input_tokens is not None
    assert usage.cache_creation_input_tokens is not None
    assert counted.input_tokens == (
        usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    )


def test_a_prompt_that_is_too_long_can_be_counted(client: anthropic.Anthropic) -> None:
    long = [user("word " * 5000)]

    counted = client.messages.count_tokens(model="scripted", messages=long)

    assert counted.input_tokens > 5000
    with pytest.raises(anthropic.BadRequestError, match="the limit is 4095"):
        client.messages.create(model="scripted", max_tokens=5, messages=long)


def test_models_are_told_in_the_shape_of_who_asks(
    served: Served, client: anthropic.Anthropic
) -> None:
    page = client.models.list()
    raw = client.models.with_raw_response.retrieve("scripted")
    model = strictly(ModelInfo, raw.http_response.json())

    assert [found.id for found in page] == ["scripted"]
    assert (model.id, model.max_input_tokens) == ("scripted", 4096)
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.models.retrieve("other")
    assert missing.value.request_id is not None
    assert httpx2.get(f"{served.url}/v1/models").json()["object"] == "list"
    assert httpx2.get(f"{served.url}/v1/models/scripted").json()["object"] == "model"


@pytest.mark.parametrize(
    ("body", "raised", "kind"),
    [
        ({"model": "other"}, anthropic.NotFoundError, "not_found_error"),
        ({"max_tokens": -1}, anthropic.BadRequestError, "invalid_request_error"),
        ({"max_tokens": "5"}, anthropic.BadRequestError, "invalid_request_error"),
        ({"messages": []}, anthropic.BadRequestError, "invalid_request_error"),
        ({"messages": [user("\ud800")]}, anthropic.BadRequestError, "invalid_request_error"),
        ({"temperature": 1.5}, anthropic.BadRequestError, "invalid_request_error"),
        ({"system": 5}, anthropic.BadRequestError, "invalid_request_error"),
        ({"tool_choice": {"type": "some"}}, anthropic.BadRequestError, "invalid_request_error"),
        ({"stop_sequences": [""]}, anthropic.BadRequestError, "invalid_request_error"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "x"}}}},
            anthropic.BadRequestError,
            "invalid_request_error",
        ),
        (
            {"tools": [{**WEATHER, "strict": True, "input_schema": {"type": "x"}}]},
            anthropic.BadRequestError,
            "invalid_request_error",
        ),
        ({"padding": "x" * 17_000_000}, anthropic.RequestTooLargeError, "request_too_large"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_failures_have_anthropics_shape_and_the_sdks_classes(
    client: anthropic.Anthropic,
    body: dict[str, Any],
    raised: type[anthropic.APIStatusError],
    kind: str,
) -> None:
    """Also those of a stream: it has not begun."""
    asked = {"model": "scripted", "max_tokens": 9, "messages": [user("hello")], "stream": True}
    with pytest.raises(raised) as error:
        client.post(
            "/v1/messages",
            cast_to=object,
            content=json.dumps({**asked, **body}).encode(),
            options={"headers": {"content-type": "application/json"}},
        )

    shape = error.value.body
    assert isinstance(shape, dict)
    assert set(shape) == {"type", "error", "request_id"}
    assert (shape["type"], shape["error"]["type"]) == ("error", kind)
    named = "body" if raised is anthropic.RequestTooLargeError else next(iter(body))
    assert named.partition("_")[0] in shape["error"]["message"]
    assert shape["request_id"] == error.value.request_id


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/nothing"])
def test_paths_and_methods_that_there_are_not_fail_in_the_same_shape(
    served: Served, path: str
) -> None:
    answer = httpx2.delete(f"{served.url}{path}")

    assert answer.status_code in (404, 405)
    assert answer.json()["type"] == "error"
    assert answer.headers["request-id"] == answer.json()["request_id"]


def test_half_a_body_is_an_invalid_request(served: Served) -> None:
    answer = httpx2.post(f"{served.url}/v1/messages", content=b'{"model": "scri')

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_the_beta_client_and_its_headers_are_accepted(client: anthropic.Anthropic) -> None:
    message = client.beta.messages.create(
        model="scripted",
        max_tokens=20,
        messages=[user("hello")],
        betas=["interleaved-thinking-2025-05-14"],
    )

    assert message.content[0].text == HELLO  # type: ignore[union-attr]
