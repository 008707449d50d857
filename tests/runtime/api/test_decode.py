"""Bodies of chat completions: what is understood, and what is refused by name."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from agentkit_runtime.api.failure import ApiError, from_validation
from agentkit_runtime.api.openai.decode import decode
from agentkit_runtime.api.openai.request import ChatCompletionBody
from agentkit_runtime.chat import ChatMessage, ChatRequest, ChatToolCall, ToolName
from agentkit_runtime.types import Priority


class Plain:
    """A model without thinking, whose template has the given switches."""

    def __init__(self, *options: str, thinks: bool = False) -> None:
        self._options = options
        self.thinks = thinks

    def template_has(self, option: str) -> bool:
        return option in self._options


USER = {"role": "user", "content": "hi"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"z": {}, "a": {}}},
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"z":  1}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def decoded(model: Plain | None = None, /, **fields: object) -> ChatRequest:
    body = ChatCompletionBody.model_validate({"model": "m", "messages": [USER], **fields})
    return decode(body, request_id="r", service=model or Plain())


def refusal(**fields: object) -> ApiError:
    """The error of a bad body, from whichever check finds it."""
    try:
        decoded(**fields)
    except ApiError as error:
        return error
    except ValidationError as error:
        return from_validation(error.errors())  # type: ignore[arg-type]
    raise AssertionError("the body was accepted")


def test_a_bare_request_is_greedy_and_unbounded() -> None:
    request = decoded()

    assert request.messages == (ChatMessage(role="user", content="hi"),)
    assert (request.sampling.temperature, request.sampling.max_tokens) == (0.0, None)
    assert (request.tenant, request.request_id) == ("default", "r")


def test_developer_messages_are_system_messages() -> None:
    request = decoded(messages=[{"role": "developer", "content": "Be brief."}, USER])

    assert request.messages[0] == ChatMessage(role="system", content="Be brief.")


def test_text_parts_are_joined_with_line_breaks() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two "}]

    assert decoded(messages=[{"role": "user", "content": parts}]).messages[0].content == "one\ntwo "


def test_what_an_assistant_refused_is_what_it_said() -> None:
    refused = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}

    assert decoded(messages=[USER, refused, USER]).messages[1].content == "No."


def test_a_verbosity_changes_no_prompt_and_one_that_is_none_is_refused() -> None:
    assert decoded(verbosity="low") == decoded(verbosity="medium") == decoded()
    assert refusal(verbosity="loud").param == "verbosity"


def test_of_a_list_that_is_too_long_its_length_is_told_and_not_that_it_is_no_string() -> None:
    error = refusal(stop=["x"] * 17)
    assert (error.param, "at most 16 items" in error.message) == ("stop", True), error.message


@pytest.mark.parametrize("field", ["max_output_tokens", "stop_sequences", "system", "input"])
def test_what_another_api_calls_so_is_refused_and_not_passed_over(field: str) -> None:
    assert refusal(**{field: "x"}).param == field


def test_tool_history_keeps_the_argument_text_exactly() -> None:
    answer = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}

    messages = decoded(messages=[USER, ASKED, answer], tools=[WEATHER]).messages

    assert messages[1].tool_calls == (ChatToolCall(id="c1", name="weather", arguments='{"z":  1}'),)
    assert messages[2] == ChatMessage(role="tool", content="sunny", tool_call_id="c1")


def test_tool_parameters_keep_their_key_order() -> None:
    (tool,) = decoded(tools=[WEATHER]).tools

    assert json.dumps(tool.parameters) == json.dumps(WEATHER["function"]["parameters"])  # type: ignore[index]


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    assert decoded(tools=[CLOCK]).tools[0].parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_plain_tool_choices_pass_through(choice: str) -> None:
    assert decoded(tools=[WEATHER], tool_choice=choice).tool_choice == choice


def test_a_named_tool_choice_forces_that_tool() -> None:
    choice = {"type": "function", "function": {"name": "weather"}}

    assert decoded(tools=[WEATHER], tool_choice=choice).tool_choice == ToolName("weather")


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools_become_a_mask_and_leave_the_list_alone(mode: str) -> None:
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "clock"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}

    request = decoded(tools=[WEATHER, CLOCK], tool_choice=choice)

    assert (request.tool_choice, request.allowed_tools) == (mode, frozenset({"clock"}))
    assert [tool.name for tool in request.tools] == ["weather", "clock"]


def test_parallel_calls_are_on_unless_switched_off() -> None:
    assert decoded(tools=[WEATHER]).parallel_tool_calls
    assert not decoded(tools=[WEATHER], parallel_tool_calls=False).parallel_tool_calls


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}},
            {"type": "integer"},
        ),
    ],
)
def test_response_formats_become_schemas(form: object, schema: object) -> None:
    assert decoded(response_format=form).response_schema == schema


def test_sampling_fields_are_carried_over() -> None:
    sampling = decoded(
        temperature=0.5, top_p=0.9, top_k=40, seed=-1, stop=["a", "b"], max_completion_tokens=7
    ).sampling

    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 40)
    assert (sampling.seed, sampling.stop, sampling.max_tokens) == (-1, ("a", "b"), 7)


def test_top_p_zero_is_greedy() -> None:
    assert decoded(temperature=1, top_p=0).sampling.temperature == 0.0


def test_a_single_stop_string_is_a_list_of_one() -> None:
    assert decoded(stop="END").sampling.stop == ("END",)


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "u", "metadata": {"a": "b"}, "safety_identifier": "s"},
        {"n": 1, "logprobs": False, "logit_bias": {}, "presence_penalty": 0.0, "store": False},
        {"n": None, "logprobs": None, "audio": None, "modalities": ["text"]},
        {"a_field_from_the_future": 1, "prediction": {"type": "content", "content": "x"}},
        {"cache_salt": "chosen by the client", "service_tier": "auto"},
    ],
)
def test_fields_that_change_nothing_are_accepted(fields: dict[str, object]) -> None:
    assert decoded(**fields) == decoded()


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 3}, 3),
        ({"logprobs": False, "top_logprobs": 0}, None),
    ],
)
def test_logprobs_are_asked_for(fields: dict[str, object], asked: int | None) -> None:
    assert decoded(**fields).sampling.logprobs == asked


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


BAD_REQUESTS: list[tuple[dict[str, object], str | None]] = [
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"logprobs": 3}, "logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logit_bias": {"five": -100}}, "logit_bias"),
    ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"store": True}, "store"),
    ({"min_p": 1.1}, "min_p"),
    ({"prompt_cache_key": "k" * 257}, "prompt_cache_key"),
    ({"service_tier": "slow"}, "service_tier"),
    ({"guided_json": {}}, "guided_json"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "0.5"}, "temperature"),
    ({"temperature": float("nan")}, "temperature"),
    ({"top_p": 1.5}, "top_p"),
    ({"top_k": -1}, "top_k"),
    ({"seed": 2**64}, "seed"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": ["x"] * 17}, "stop"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
    ({"messages": [USER, {"role": "user"}]}, "messages[1].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].type",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
        "messages[0].content[0].text",
    ),
    ({"messages": [{**USER, "tool_calls": [CALL]}]}, "messages[0].tool_calls"),
    (
        {"messages": [USER, {"role": "tool", "content": "x", "tool_call_id": "c1"}]},
        "messages[1].tool_call_id",
    ),
    ({"messages": [USER, ASKED, {"role": "tool", "content": "x"}]}, "messages[2].tool_call_id"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}]},
        "messages[0].tool_calls[0]",
    ),
    ({"tools": [{"type": "custom"}]}, "tools[0].custom"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": "always"}, "tool_choice"),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "clock"}}},
        "tool_choice",
    ),
    ({"tools": [WEATHER], "tool_choice": {"type": "custom"}}, "tool_choice"),
    (
        {
            "tools": [WEATHER],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [CLOCK]},
            },
        },
        "tool_choice.allowed_tools.tools[0]",
    ),
    (
        {
            "tools": [WEATHER],
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": []},
            },
        },
        "tool_choice.allowed_tools.tools",
    ),
    ({"stop": ["\udfff"]}, "stop[0]"),
    ({"\ud800": 1}, None),
    ({"metadata": nested(101)}, "metadata"),
    (
        {"tools": [{**CLOCK, "function": {"name": "clock", "parameters": {"\ud800": 1}}}]},
        "tools[0].function.parameters",
    ),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
]


@pytest.mark.parametrize(("fields", "param"), BAD_REQUESTS)
def test_bad_requests_are_refused_by_name(fields: dict[str, object], param: str | None) -> None:
    error = refusal(**fields)

    assert (error.status, error.param) == (400, param)
    assert error.message


def test_penalties_biases_and_the_rest_of_sampling_get_through() -> None:
    sampling = decoded(
        frequency_penalty=0.5,
        presence_penalty=-0.5,
        repetition_penalty=1.1,
        min_p=0.05,
        logit_bias={"7": -100, "9": 1.5},
        max_tokens=0,
    ).sampling

    assert (sampling.frequency_penalty, sampling.presence_penalty) == (0.5, -0.5)
    assert (sampling.repetition_penalty, sampling.min_p) == (1.1, 0.05)
    assert (sampling.logit_bias, sampling.max_tokens) == (((7, -100.0), (9, 1.5)), 0)


@pytest.mark.parametrize(
    ("tier", "priority"),
    [("auto", Priority.NORMAL), ("flex", Priority.BATCH), ("priority", Priority.INTERACTIVE)],
)
def test_a_service_tier_is_a_priority(tier: str, priority: Priority) -> None:
    assert decoded(service_tier=tier).priority is priority


def test_a_prompt_cache_key_names_the_session() -> None:
    assert decoded(prompt_cache_key="chat-7").session == "chat-7"
    assert decoded(prompt_cache_key="").session is None


@pytest.mark.parametrize(
    ("model", "effort", "options"),
    [
        (Plain("enable_thinking"), "none", {"enable_thinking": False}),
        (Plain("enable_thinking"), "high", {"enable_thinking": True}),
        (Plain("thinking"), "low", {"thinking": True}),
        (Plain("reasoning_effort"), "low", {"reasoning_effort": "low"}),
        (Plain(thinks=True), "high", {}),
        (Plain(), "none", {}),
        (Plain(), "high", {}),
        (Plain(thinks=True), "none", {}),
    ],
)
def test_an_effort_turns_the_switch_that_the_template_has(
    model: Plain, effort: str, options: dict[str, object]
) -> None:
    assert decoded(model, reasoning_effort=effort).template_options == options


def test_what_the_assistant_thought_comes_back_as_its_reasoning() -> None:
    said = {"role": "assistant", "content": "4", "reasoning_content": "2 + 2"}

    assert decoded(messages=[USER, said, USER]).messages[1].reasoning == "2 + 2"


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ('{"city":"Zürich","days":[1,2],"o":{}}', '{"city": "Zürich", "days": [1, 2], "o": {}}'),
        ('{"city": "Zürich", "days": [1, 2]}', '{"city": "Zürich", "days": [1, 2]}'),
        ('{"a":1, "b":2}', '{"a":1, "b":2}'),
        ('{"a":1.50}', '{"a":1.50}'),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
        ("{}", "{}"),
        ('{"a":', '{"a":'),
        ('{"a":"\\ud800"}', '{"a":"\\ud800"}'),
        ('{"a":"\x7f"}', '{"a": "\\u007f"}'),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", None),
    ],
)
def test_arguments_that_a_client_wrote_again_without_spaces_are_read_as_generated(
    sent: str, read: str | None
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": sent}}
    request = decoded(messages=[USER, {"role": "assistant", "content": None, "tool_calls": [call]}])

    assert request.messages[1].tool_calls[0].arguments == (sent if read is None else read)
