"""Errors of OpenAI's client become ours, through the client itself."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import httpx2
import pytest
import respx
from openai import AsyncOpenAI

from agentkit.errors import ConfigurationError, MissingExtra, ModelError, RequestRefused
from agentkit.events import ModelEvent, TextDelta
from agentkit.models.hosted.openai_common import (
    rejected_cache_fields,
    retry_after_s,
    says_unknown,
)
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.openai_responses.clients import new_client
from tests.agentkit.models.hosted.openai_responses.talk import (
    URL,
    adapter,
    collect,
    created,
    plan,
    refused,
    sse,
    text,
    turns,
)

PLAIN = plan(mode="implicit")


async def failure(router: respx.Router, **answer: Any) -> ModelError:
    """The error that a run sees, after exactly one request."""
    route = router.post(URL).mock(**answer)
    api, made = adapter(), turns()[0]
    finished = api.body(api.layout(made), PLAIN, made)
    with pytest.raises(ModelError) as caught:
        await collect(api, finished)
    assert route.call_count == 1, "the loop retries, not the client"
    return caught.value


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503])
async def test_passing_failures_may_be_retried(httpx2_mock: respx.Router, status: int) -> None:
    answer = httpx.Response(
        status, headers={"retry-after": "7"}, json={"error": {"message": "later"}}
    )

    error = await failure(httpx2_mock, return_value=answer)

    assert (error.retryable, error.retry_after_s) == (True, 7.0)
    assert "openai:gpt-6-sol" in str(error)


@pytest.mark.parametrize(
    ("exception", "says"),
    [(httpx.ConnectError("no route"), "cannot be reached"), (httpx.ReadTimeout("x"), "timed out")],
)
async def test_lost_connections_may_be_retried(
    httpx2_mock: respx.Router, exception: Exception, says: str
) -> None:
    error = await failure(httpx2_mock, side_effect=exception)

    assert error.retryable
    assert says in str(error)


async def test_an_exhausted_quota_is_not_retried(httpx2_mock: respx.Router) -> None:
    answer = refused("You exceeded your quota", 429, code="insufficient_quota")

    error = await failure(httpx2_mock, return_value=answer)

    assert not error.retryable
    assert "OPENAI_API_KEY has no quota left" in str(error)


async def test_a_request_above_the_whole_rate_limit_is_refused(httpx2_mock: respx.Router) -> None:
    answer = refused("Request too large for gpt-6-sol on tokens per min", 429, type="tokens")

    assert isinstance(await failure(httpx2_mock, return_value=answer), RequestRefused)


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_what_can_never_work_is_refused(httpx2_mock: respx.Router, status: int) -> None:
    error = await failure(httpx2_mock, return_value=refused("too long", status))

    assert isinstance(error, RequestRefused)
    assert not error.retryable


@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_key_names_the_variable(httpx2_mock: respx.Router, status: int) -> None:
    error = await failure(httpx2_mock, return_value=refused("bad key", status))

    assert not error.retryable
    assert "check the key in OPENAI_API_KEY" in str(error)


async def test_the_server_may_forbid_a_retry(httpx2_mock: respx.Router) -> None:
    answer = httpx.Response(500, headers={"x-should-retry": "false"}, json={})

    error = await failure(httpx2_mock, return_value=answer)

    assert not error.retryable
    assert not isinstance(error, RequestRefused)


async def test_a_stream_that_is_cut_off_may_be_retried(httpx2_mock: respx.Router) -> None:
    error = await failure(httpx2_mock, return_value=sse(created(), text("Hel")))

    assert error.retryable
    assert "cut off" in str(error)


async def test_an_error_inside_the_stream_is_translated(httpx2_mock: respx.Router) -> None:
    event = {"type": "error", "error": {"code": "server_error", "message": "oops"}}

    error = await failure(httpx2_mock, return_value=sse(created(), event))

    assert error.retryable
    assert "oops" in str(error)


async def test_a_stream_that_is_no_json_may_be_retried(httpx2_mock: respx.Router) -> None:
    headers = {"content-type": "text/event-stream"}
    answer = httpx.Response(200, headers=headers, content=b'data: {"type": "resp\n\n')

    error = await failure(httpx2_mock, return_value=answer)

    assert error.retryable
    assert "no JSON" in str(error)


async def test_a_connection_that_breaks_in_mid_answer_may_be_retried() -> None:
    class Broken(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield sse(created(), text("Hel")).content
            raise httpx2.RemoteProtocolError("peer closed")

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Broken())

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        api = ResponsesAdapter("gpt-6-sol", client=AsyncOpenAI(api_key="k", http_client=http))
        made, seen = turns()[0], list[ModelEvent]()

        async def watch() -> None:
            async for event in api.stream(api.body(api.layout(made), PLAIN, made)):
                seen.append(event)

        with pytest.raises(ModelError, match="cannot be reached") as caught:
            await watch()

    assert TextDelta("Hel") in seen
    assert caught.value.retryable


NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "2.5"}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 29 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "9s"}, None),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "4s",
            },
            4.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "later"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_from_every_form(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers, now=NOW) == seconds


def test_a_refusal_is_searched_for_the_cache_fields_that_it_names() -> None:
    assert rejected_cache_fields("Unknown parameter: 'prompt_cache_options'.") == (
        "prompt_cache_options",
    )
    assert rejected_cache_fields("context too long") == ()


@pytest.mark.parametrize(
    "message",
    [
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        "cache_control cannot be set for empty text blocks",
        "cache_control on 'thinking' is not permitted; mark a neighbour",
        "messages.0.content.0.cache_control.ttl: Input should be '5m' or '1h'",
    ],
)
def test_a_refusal_of_a_marks_place_or_lifetime_does_not_call_marks_unknown(message: str) -> None:
    assert not says_unknown(message, "cache_control")


@pytest.mark.parametrize(
    "message",
    [
        "Unrecognized request argument supplied: cache_control",
        "messages.0.content.0.cache_control: Extra inputs are not permitted",
        "cache_control is not supported by this model",
        "`cache_control` field is not allowed",
        "this endpoint does not support cache_control",
        "property 'cache_control' is unsupported",
        "Invalid value: 'cache_control'.",
    ],
)
def test_a_refusal_of_the_field_itself_calls_it_unknown(message: str) -> None:
    assert says_unknown(message, "cache_control")


def test_without_the_client_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(MissingExtra, match=r'pip install -c requirements.lock "\.\[openai\]"'):
        new_client("openai:gpt-6-sol", "OPENAI_API_KEY")


def test_without_a_key_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_ADMIN_KEY", raising=False)

    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
        new_client("openai:gpt-6-sol", "OPENAI_API_KEY")
