"""Gateways that look compatible, keep-alive, and diagnostics."""

from __future__ import annotations

import json
import warnings

import pytest
import respx

from agentkit.errors import RequestRefused
from agentkit.events import ModelEnd, UsageEvent
from agentkit.models.hosted.openai_common import CacheFieldsRefusedWarning
from agentkit.models.hosted.openai_responses import ResponsesAdapter
from agentkit.models.hosted.wire import Body
from tests.agentkit.models.hosted.openai_responses.talk import (
    URL,
    adapter,
    collect,
    completed,
    created,
    plan,
    refused,
    sse,
    text,
    turns,
)
from tests.agentkit.models.hosted.weather import request

MADE = turns()[1]
MARKED = plan(2, 7, cache_key="k")
OK = sse(created(), text("Hi"), completed({"input_tokens": 5}))


def finished(api: ResponsesAdapter) -> Body:
    return api.body(api.layout(MADE), MARKED, MADE)


def fields(router: respx.Router) -> list[set[str]]:
    """The cache fields of each request that arrived."""
    found = []
    for call in router.calls:
        data = call.request.content.decode()
        names = ("breakpoint", "options", "key", "retention")
        found.append({name for name in names if f'"prompt_cache_{name}"' in data})
    return found


async def test_a_server_that_rejects_marks_is_asked_once_more_without_and_remembered(
    httpx2_mock: respx.Router,
) -> None:
    """C86: a gateway answers 400 to fields that only the real API knows, at every request."""
    unknown = refused("Unknown parameter: 'input[0].content[0].prompt_cache_breakpoint'.")
    httpx2_mock.post(URL).mock(side_effect=[unknown, OK, OK])
    api = adapter()

    with pytest.warns(CacheFieldsRefusedWarning, match="does not know") as caught:
        events = await collect(api, finished(api))
    assert events[-1] == ModelEnd("stop")
    assert len(caught) == 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await collect(api, finished(api))

    # Options go with the marks: in explicit mode without marks nothing would be cached.
    assert fields(httpx2_mock) == [{"breakpoint", "options", "key"}, {"key"}, {"key"}]
    assert api.refused_fields == {"prompt_cache_breakpoint", "prompt_cache_options"}


async def test_without_its_marks_a_body_has_the_same_bytes_otherwise(
    httpx2_mock: respx.Router,
) -> None:
    httpx2_mock.post(URL).mock(
        side_effect=[
            refused("unknown field prompt_cache_breakpoint"),
            refused("unknown field prompt_cache_key"),
            OK,
        ]
    )
    api = adapter()

    with pytest.warns(CacheFieldsRefusedWarning):
        await collect(api, finished(api))

    last = httpx2_mock.calls.last.request.content
    assert last == api.body(api.layout(MADE), plan(mode="implicit"), MADE).data
    assert fields(httpx2_mock)[-1] == set()


async def test_a_refusal_for_another_reason_is_not_repeated_and_nothing_is_learned(
    httpx2_mock: respx.Router,
) -> None:
    route = httpx2_mock.post(URL).mock(return_value=refused("context too long"))
    api = adapter()

    with pytest.raises(RequestRefused):
        await collect(api, finished(api))

    assert route.call_count == 1
    assert api.refused_fields == frozenset()


async def test_a_server_that_refuses_also_the_bare_request_teaches_nothing(
    httpx2_mock: respx.Router,
) -> None:
    httpx2_mock.post(URL).mock(
        side_effect=[refused("prompt_cache_options is not supported"), refused("context too long")]
    )
    api = adapter()

    with pytest.raises(RequestRefused, match="context too long"):
        await collect(api, finished(api))

    assert api.refused_fields == frozenset()


async def test_a_field_that_was_not_sent_is_not_to_blame(httpx2_mock: respx.Router) -> None:
    route = httpx2_mock.post(URL).mock(return_value=refused("prompt_cache_retention?"))
    api = adapter()

    with pytest.raises(RequestRefused):
        await collect(api, finished(api))

    assert route.call_count == 1


async def test_a_touch_reads_the_same_prefix_and_generates_nothing(
    httpx2_mock: respx.Router,
) -> None:
    httpx2_mock.post(URL).mock(
        return_value=sse(created(), completed({"input_tokens": 9, "output_tokens": 0}))
    )
    api = adapter()
    body = finished(api)

    event = await api.touch(body)

    assert isinstance(event, UsageEvent)
    assert event.usage.input_tokens == 9
    warm = json.loads(httpx2_mock.calls.last.request.content)
    assert warm["prompt_cache_options"].pop("prewarm") is True
    assert warm == json.loads(body.data)


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-4.1", "somebody/llama"])
async def test_models_without_prewarming_are_not_touched(
    httpx2_mock: respx.Router, model: str
) -> None:
    api = adapter(model)

    assert await api.touch(api.body(api.layout(MADE), plan(mode="implicit"), MADE)) is None

    assert not httpx2_mock.calls


async def test_diagnostics_compare_with_the_runs_last_response(httpx2_mock: respx.Router) -> None:
    httpx2_mock.post(URL).mock(return_value=OK)
    api = adapter(diagnose=True)
    other = request(MADE.context, session="another")

    first = json.loads(finished(api).data)
    await collect(api, finished(api))
    second = json.loads(finished(api).data)
    elsewhere = json.loads(api.body(api.layout(other), MARKED, other).data)

    assert "comparison_response_id" not in first["prompt_cache_options"]
    assert second["prompt_cache_options"]["comparison_response_id"] == "resp_1"
    assert "comparison_response_id" not in elsewhere["prompt_cache_options"]


async def test_closing_the_stream_early_closes_the_response(httpx2_mock: respx.Router) -> None:
    httpx2_mock.post(URL).mock(return_value=OK)
    api = adapter()

    stream = api.stream(finished(api))
    first = await anext(stream)
    await stream.aclose()

    assert isinstance(first, UsageEvent)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
