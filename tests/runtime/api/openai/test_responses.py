"""The Responses API, by the official client, in front of a scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import openai
import pytest
from openai.types.responses import (
    Response,
    ResponseItemList,
    ResponseStreamEvent,
)
from openai.types.responses.response_input_param import ResponseInputParam
from pydantic import BaseModel, TypeAdapter

from tests.runtime.api.conftest import ANSWERS
from tests.runtime.api.openai.strict import strictly, unknown_fields
from tests.runtime.api.serving import Served

WEATHER = {
    "type": "function",
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
    "strict": True,
}
ARGUMENTS = '{"city": "Zürich", "days": 3}'
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def post(served: Served, **fields: object) -> httpx2.Response:
    body = {"model": "scripted", "input": "hello", **fields}
    return httpx2.post(f"{served.url}/v1/responses", json=body, timeout=30)


def answered(served: Served, **fields: object) -> Response:
    found = post(served, **fields)
    assert found.status_code == 200, found.text
    return strictly(Response, found.json())


def streamed(served: Served, **fields: object) -> list[ResponseStreamEvent]:
    """The events of a stream; each has its own name and number, and the client's type."""
    events = []
    for number, block in enumerate(post(served, stream=True, **fields).text.split("\n\n")[:-1]):
        name, data = block.split("\n")
        document = json.loads(data.removeprefix("data: "))
        assert name == f"event: {document['type']}"
        assert document["sequence_number"] == number
        event = EVENT.validate_python(document)
        assert not list(unknown_fields(event))
        events.append(event)
    return events


def refusal(served: Served, **fields: object) -> tuple[int, str, str]:
    found = post(served, **fields)
    error = found.json()["error"]
    return found.status_code, error["param"], error["code"]


def test_an_answer_has_the_clients_shape(served: Served) -> None:
    response = answered(served, instructions="Be brief.", metadata={"a": "b"}, user="u")

    assert (response.status, response.output_text) == ("completed", ANSWERS["hello"])
    assert (response.instructions, response.metadata) == ("Be brief.", {"a": "b"})
    assert response.usage is not None
    assert response.usage.total_tokens == (
        response.usage.input_tokens + response.usage.output_tokens
    )


def test_a_stream_tells_items_parts_and_text_in_order(served: Served) -> None:
    events = streamed(served)
    kinds = [event.type for event in events]

    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    told = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert told == ANSWERS["hello"]


def test_a_stream_and_a_whole_answer_say_the_same(served: Served) -> None:
    last = streamed(served, input="weather", tools=[WEATHER])[-1]
    whole = answered(served, input="weather", tools=[WEATHER])

    assert last.type == "response.completed"
    (streamed_call,), (whole_call,) = last.response.output, whole.output
    assert streamed_call.type == whole_call.type == "function_call"
    assert streamed_call.arguments == whole_call.arguments == ARGUMENTS


def test_a_call_streams_its_arguments(served: Served) -> None:
    events = streamed(served, input="weather", tools=[WEATHER])

    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    (done,) = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert "".join(deltas) == done.arguments == ARGUMENTS


def test_the_clients_stream_helper_assembles_it(client: openai.OpenAI) -> None:
    with client.responses.stream(model="scripted", input="hello") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()

    assert "response.output_text.delta" in kinds
    assert final.output_text == ANSWERS["hello"]


def test_a_conversation_goes_on_from_the_very_ids(served: Served, client: openai.OpenAI) -> None:
    tools = [WEATHER]
    first = client.responses.create(model="scripted", input="weather", tools=tools)  # type: ignore[arg-type]
    (call,) = first.output
    assert call.type == "function_call"
    result: ResponseInputParam = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    ]

    second = client.responses.create(
        model="scripted",
        input=result,
        tools=tools,  # type: ignore[arg-type]
        previous_response_id=first.id,
    )

    assert second.output_text == ANSWERS["sunny"]
    assert first.usage is not None
    assert second.usage is not None
    n_known = first.usage.input_tokens + first.usage.output_tokens
    # All that was read and said, but for the last token, whose KV was never needed.
    assert second.usage.input_tokens_details.cached_tokens in (n_known - 1, n_known)


def test_other_instructions_begin_another_prompt(client: openai.OpenAI) -> None:
    first = client.responses.create(model="scripted", input="hello", instructions="Be kind.")

    second = client.responses.create(
        model="scripted", input="sunny", instructions="Be curt.", previous_response_id=first.id
    )

    assert second.output_text == ANSWERS["sunny"]
    assert second.instructions == "Be curt."
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens < 10


def test_stored_responses_can_be_read_listed_and_deleted(
    served: Served, client: openai.OpenAI
) -> None:
    first = client.responses.create(model="scripted", input="hello")
    second = client.responses.create(
        model="scripted",
        input=[{"role": "user", "content": "sunny"}],
        previous_response_id=first.id,
    )

    assert client.responses.retrieve(second.id).output_text == ANSWERS["sunny"]
    page = httpx2.get(f"{served.url}/v1/responses/{second.id}/input_items?order=asc")
    items = strictly(ResponseItemList, page.json())
    assert [item.type for item in items.data] == ["message", "message", "message"]
    newest = client.responses.input_items.list(second.id, limit=1)
    assert newest.has_more
    assert len(list(newest)) == 3

    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)


def test_what_is_not_stored_is_as_unknown_as_what_never_was(
    served: Served, client: openai.OpenAI
) -> None:
    kept_not = client.responses.create(model="scripted", input="hello", store=False)

    said = []
    for response_id in (kept_not.id, "resp_made_up"):
        found = post(served, previous_response_id=response_id)
        assert found.status_code == 404
        said.append(found.json()["error"]["message"].replace(response_id, "ID"))
    assert said[0] == said[1]


def test_only_background_responses_can_be_cancelled(client: openai.OpenAI) -> None:
    done = client.responses.create(model="scripted", input="hello")

    with pytest.raises(openai.BadRequestError, match="background"):
        client.responses.cancel(done.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel("resp_made_up")


def test_an_answer_that_is_cut_is_incomplete(served: Served) -> None:
    cut = answered(served, max_output_tokens=2)

    assert cut.status == "incomplete"
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"
    assert streamed(served, max_output_tokens=2)[-1].type == "response.incomplete"


def test_prewarming_generates_nothing_and_is_complete(served: Served) -> None:
    text = "hello from a prompt that is warmed " * 4
    warm = answered(served, input=text, prompt_cache_options={"prewarm": True})

    assert (warm.status, warm.output) == ("completed", [])
    assert warm.usage is not None
    assert warm.usage.output_tokens == 0
    after = answered(served, input=text)
    assert after.usage is not None
    assert after.usage.input_tokens_details.cached_tokens == warm.usage.input_tokens - 1


def test_log_probabilities_come_with_the_text(served: Served) -> None:
    response = answered(served, include=["message.output_text.logprobs"], top_logprobs=2)

    (message,) = response.output
    assert message.type == "message"
    (part,) = message.content
    assert part.type == "output_text"
    assert part.logprobs is not None
    assert "".join(item.token for item in part.logprobs) == ANSWERS["hello"]
    assert {len(item.top_logprobs) for item in part.logprobs} == {2}


def test_an_answer_in_a_form_is_parsed_by_the_client(client: openai.OpenAI) -> None:
    class Place(BaseModel):
        city: str
        days: int

    parsed = client.responses.parse(model="scripted", input="place", text_format=Place)

    assert parsed.output_parsed == Place(city="Oslo", days=3)


def test_what_the_assistant_said_in_several_items_is_one_message(served: Served) -> None:
    items = [
        {"role": "user", "content": "weather"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": []},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": ARGUMENTS},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "sunny"}],
        },
    ]

    assert answered(served, input=items, tools=[WEATHER]).output_text == ANSWERS["sunny"]


REFUSED: list[tuple[dict[str, object], str, str | None]] = [
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "unsupported_parameter"),
    ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].type", "unsupported_parameter"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].name", None),
    ({"tools": [{"type": "function"}]}, "tools[0].name", None),
    ({"tool_choice": "required"}, "tool_choice", None),
    ({"tool_choice": {"type": "function", "name": "x"}}, "tool_choice", None),
    ({"background": True, "store": False}, "background", None),
    ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"),
    ({"truncation": "auto"}, "truncation", "unsupported_parameter"),
    ({"max_tokens": 5}, "max_tokens", "unsupported_parameter"),
    ({"stop": "x"}, "stop", "unsupported_parameter"),
    ({"text": {"verbosity": "loud"}}, "text.verbosity", "invalid_value"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", None),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "unsupported_content"),
    ({"input": [{"role": "user"}]}, "input[0].content", None),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        "input[0].content[0].type",
        "unsupported_content",
    ),
    (
        {"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]},
        "input[0].call_id",
        None,
    ),
    ({"include": ["everything"]}, "include[0]", "invalid_value"),
    ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
]


@pytest.mark.parametrize(("fields", "param", "code"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(
    served: Served, fields: dict[str, object], param: str, code: str | None
) -> None:
    assert refusal(served, **fields) == (400, param, code)


def test_a_schema_that_cannot_be_enforced_names_its_own_field(served: Served) -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "colour"}}

    status, param, _ = refusal(served, text={"format": form})

    assert (status, param) == (400, "text.format.schema")


def test_rendered_ids_are_those_of_the_real_request(served: Served) -> None:
    first = answered(served)
    for fields in ({"input": "sunny"}, {"input": "sunny", "previous_response_id": first.id}):
        body = {"model": "scripted", **fields}
        rendered = httpx2.post(f"{served.url}/v1/responses/render", json=body).json()
        usage = answered(served, **fields).usage

        assert usage is not None
        assert len(rendered["token_ids"]) == usage.input_tokens


def test_continued_ids_are_those_of_the_whole_conversation(served: Served) -> None:
    """Where the template only appends, which way the history came makes no difference."""
    first = answered(served)
    said = {"role": "assistant", "content": ANSWERS["hello"]}
    asked = [{"role": "user", "content": "hello"}, said, {"role": "user", "content": "sunny"}]

    rendered = [
        httpx2.post(f"{served.url}/v1/responses/render", json={"model": "scripted", **fields})
        for fields in ({"input": asked}, {"input": "sunny", "previous_response_id": first.id})
    ]

    assert rendered[0].json() == rendered[1].json()


def test_a_response_that_fails_on_the_way_says_so_and_is_not_stored(
    served: Served, client: openai.OpenAI
) -> None:
    events = streamed(served, input="the script has no answer to this")

    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.status == "failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(last.response.id)
    assert post(served, input="the script has no answer to this").status_code == 500
