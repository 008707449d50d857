"""Custom tools, by the official client, in both APIs: shown, called, told, and sent back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from tests.runtime.api.openai.strict import strictly, unknown_fields
from tests.runtime.api.serving import Served, served_script

PATCH = '*** Begin Patch\n+say "naïve" \\ 🙂\n*** End Patch'
LARK = 'start: "*** Begin Patch" /(.|\\n)*/'


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{said}\n</tool_call>"


ANSWERS = {
    "patch": call("apply_patch", input=PATCH),
    "explain": f"I change it.\n{call('apply_patch', input=PATCH)}",
    "spawn": call("agents__spawn", task="look"),
    "number": call("pick", input="42"),
    "letters": call("pick", input="forty-two"),
    "two": f"{call('apply_patch', input='a')}\n{call('clock')}\n{call('apply_patch', input='b')}",
    "done": "It is changed.",
}
CLOCK = {"name": "clock", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def served(smollm2_text: tuple[Tokenizer, ChatTemplate]) -> Iterator[Served]:
    with served_script(smollm2_text, ANSWERS) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def custom(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "custom", "name": name, "description": "Free text.", **fields}


def regex(definition: str) -> dict[str, str]:
    return {"type": "grammar", "syntax": "regex", "definition": definition}


APPLY = custom("apply_patch")
TOOLS = [APPLY, {"type": "function", **CLOCK}]
CHAT_APPLY = {"type": "custom", "custom": {"name": "apply_patch", "description": "Free text."}}
CHAT_TOOLS = [CHAT_APPLY, {"type": "function", "function": CLOCK}]


def post(served: Served, path: str, **fields: Any) -> httpx2.Response:
    return httpx2.post(f"{served.url}{path}", json={"model": "scripted", **fields}, timeout=30)


def respond(served: Served, **fields: Any) -> Response:
    found = post(served, "/v1/responses", **fields)
    assert found.status_code == 200, found.text
    return strictly(Response, found.json())


def cached(response: Response) -> tuple[int, int]:
    assert response.usage is not None
    return response.usage.input_tokens_details.cached_tokens, response.usage.total_tokens


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "required",
        {"type": "custom", "name": "apply_patch"},
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "custom", "name": "apply_patch"}],
        },
    ],
)
def test_a_response_has_the_raw_text_of_a_call(served: Served, choice: Any) -> None:
    response = respond(served, input="patch", tools=TOOLS, tool_choice=choice)

    item = response.output[-1]
    assert item.type == "custom_tool_call"
    assert (item.name, item.namespace) == ("apply_patch", None)
    assert item.input == PATCH
    assert response.tools[0].to_dict() == APPLY


def test_its_events_add_up_to_it(client: openai.OpenAI) -> None:
    told, events = "", []
    for event in client.responses.create(model="scripted", input="patch", tools=TOOLS, stream=True):  # type: ignore[call-overload]
        assert not list(unknown_fields(event))
        events.append(event)
        if event.type == "response.custom_tool_call_input.delta":
            told += event.delta
    (done,) = [e for e in events if e.type == "response.custom_tool_call_input.done"]
    assert told == done.input == PATCH
    assert events[-1].response.output[-1].input == PATCH
    assert [e.type for e in events][-3:] == [
        "response.custom_tool_call_input.done",
        "response.output_item.done",
        "response.completed",
    ]


@pytest.mark.parametrize("is_stored", [True, False])
def test_the_next_prompt_begins_with_the_call_token_for_token(
    served: Served, is_stored: bool
) -> None:
    asked: list[dict[str, Any]] = [{"role": "user", "content": f"explain {is_stored}"}]
    first = respond(served, input=asked, tools=TOOLS)
    called = first.output[-1]
    assert called.type == "custom_tool_call"
    result = {"type": "custom_tool_call_output", "call_id": called.call_id, "output": "done"}

    if is_stored:
        second = respond(served, input=[result], tools=TOOLS, previous_response_id=first.id)
    else:
        said = [item.to_dict() for item in first.output]
        second = respond(served, input=[*asked, *said, result], tools=TOOLS, store=False)

    assert second.output_text == "It is changed."
    n_cached, _ = cached(second)
    # All but the end of the turn, which was said and never computed.
    assert n_cached >= cached(first)[1] - 1


def test_several_calls_in_a_row_are_told_apart(served: Served, client: openai.OpenAI) -> None:
    expected = [("apply_patch", "a"), ("clock", "{}"), ("apply_patch", "b")]

    items = respond(served, input="two", tools=TOOLS).output
    assert [
        (item.name, item.input if item.type == "custom_tool_call" else item.arguments)  # type: ignore[union-attr]
        for item in items
    ] == expected

    told: list[list[str]] = []
    for chunk in client.chat.completions.create(  # type: ignore[call-overload]
        model="scripted",
        messages=[{"role": "user", "content": "two"}],
        tools=CHAT_TOOLS,
        stream=True,
    ):
        for piece in chunk.choices[0].delta.tool_calls or ():
            said = piece.custom if hasattr(piece, "custom") else piece.function.model_dump()
            if piece.id:
                told.append([said["name"], ""])
            told[piece.index][1] += said.get("input") or said.get("arguments") or ""
    assert [tuple(found) for found in told] == expected


def test_a_chat_has_the_raw_text_of_a_call(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="scripted",
        messages=[{"role": "user", "content": "patch"}],
        tools=CHAT_TOOLS,  # type: ignore[arg-type]
        tool_choice={"type": "custom", "custom": {"name": "apply_patch"}},
    )
    (choice,) = strictly(ChatCompletion, raw.http_response.json()).choices

    assert choice.finish_reason == "tool_calls"
    (called,) = choice.message.tool_calls or ()
    assert called.type == "custom"
    assert (called.custom.name, called.custom.input) == ("apply_patch", PATCH)


def test_a_chat_goes_on_from_a_custom_call(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "explain in a chat"}]
    first = client.chat.completions.create(model="scripted", messages=messages, tools=CHAT_TOOLS)  # type: ignore[call-overload]
    said = first.choices[0].message.to_dict()
    result = {
        "role": "tool",
        "tool_call_id": first.choices[0].message.tool_calls[0].id,
        "content": "done",
    }

    second = client.chat.completions.create(  # type: ignore[call-overload]
        model="scripted", messages=[*messages, said, result], tools=CHAT_TOOLS
    )

    assert second.choices[0].message.content == "It is changed."
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.total_tokens - 1


def test_listed_items_have_the_clients_shape(served: Served, client: openai.OpenAI) -> None:
    first = respond(served, input="patch", tools=TOOLS)
    called = first.output[-1]
    assert called.type == "custom_tool_call"
    result = {"type": "custom_tool_call_output", "call_id": called.call_id, "output": "done"}
    second = respond(served, input=[result], tools=TOOLS, previous_response_id=first.id)

    found = client.responses.input_items.list(second.id, order="asc").data
    assert [item.type for item in found] == [
        "message",
        "custom_tool_call",
        "custom_tool_call_output",
    ]
    assert not [list(unknown_fields(item)) for item in found if list(unknown_fields(item))]


def test_a_regex_holds_the_input(served: Served) -> None:
    tools = [custom("pick", format=regex("[0-9]+|a/b"))]

    item = respond(served, input="number", tools=tools, tool_choice="required").output[-1]
    assert (item.type, item.input) == ("custom_tool_call", "42")  # type: ignore[union-attr]


@pytest.mark.parametrize("definition", ["([", "(?=a)a", r"(a)\1"])
def test_a_regex_that_nothing_can_be_held_to_is_refused_by_name(
    served: Served, definition: str
) -> None:
    found = post(
        served,
        "/v1/responses",
        input="number",
        tools=[
            TOOLS[1],
            {"type": "namespace", "name": "n", "tools": [custom("pick", format=regex(definition))]},
        ],
    )
    assert found.status_code == 400
    assert found.json()["error"]["param"] == "tools[1].tools[0].format.definition"

    form = {"type": "grammar", "grammar": {"syntax": "regex", "definition": definition}}
    found = post(
        served,
        "/v1/chat/completions",
        messages=[{"role": "user", "content": "number"}],
        tools=[{"type": "custom", "custom": {"name": "pick", "format": form}}],
    )
    assert found.status_code == 400
    assert found.json()["error"]["param"] == "tools[0].custom.format.grammar.definition"


def test_a_lark_grammar_is_shown_to_the_model_and_told_as_not_held_to(served: Served) -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": LARK}
    fields = {"input": "patch", "tools": [custom("apply_patch", format=form)]}

    found = post(served, "/v1/responses", **fields)
    assert found.headers["x-agentkit-unserved"] == "apply_patch.format"
    shown = post(served, "/v1/responses/render", **fields).json()["token_ids"]
    text = served.service.tokenizer.decode(shown)
    assert "follows this Lark grammar" in text
    assert "*** Begin Patch" in text


SPAWN = {
    "name": "spawn",
    "parameters": {"type": "object", "properties": {"task": {"type": "string"}}},
}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Helpers.",
    "tools": [{"type": "function", **SPAWN}, custom("tell")],
}


def test_a_call_into_a_namespace_names_both_and_comes_back_so(served: Served) -> None:
    asked: list[dict[str, Any]] = [{"role": "user", "content": "spawn"}]
    first = respond(served, input=asked, tools=[AGENTS, *TOOLS])

    (called,) = first.output
    assert called.type == "function_call"
    assert (called.namespace, called.name) == ("agents", "spawn")
    assert first.tools[0].to_dict() == AGENTS

    result = {"type": "function_call_output", "call_id": called.call_id, "output": "done"}
    second = respond(
        served, input=[*asked, called.to_dict(), result], tools=[AGENTS, *TOOLS], store=False
    )
    assert second.output_text == "It is changed."
    assert cached(second)[0] >= cached(first)[1] - 1


def test_a_namespace_is_described_once_to_the_model(served: Served) -> None:
    shown = post(served, "/v1/responses/render", input="spawn", tools=[AGENTS]).json()["token_ids"]

    assert served.service.tokenizer.decode(shown).count("Helpers.") == 1


def test_a_tool_of_a_namespace_can_be_chosen(served: Served) -> None:
    choice = {"type": "function", "name": "spawn", "namespace": "agents"}
    (called,) = respond(served, input="spawn", tools=[AGENTS], tool_choice=choice).output
    assert called.type == "function_call"

    refused = post(
        served,
        "/v1/responses",
        input="spawn",
        tools=[AGENTS],
        tool_choice={**choice, "namespace": "others"},
    )
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tool_choice")


def test_parameters_in_a_namespace_that_cannot_be_enforced_are_named_where_they_are(
    served: Served,
) -> None:
    bad = {"type": "function", "name": "bad", "parameters": {"type": "array"}}
    group = {"type": "namespace", "name": "n", "tools": [{"type": "function", **CLOCK}, bad]}

    error = post(
        served, "/v1/responses", input="spawn", tools=[{"type": "web_search"}, group]
    ).json()["error"]

    assert error["param"] == "tools[1].tools[1].parameters"
    assert error["param"] in error["message"]


def test_tools_that_the_input_begins_with_are_the_requests(served: Served) -> None:
    brings = {"type": "additional_tools", "role": "developer", "tools": TOOLS}
    asked = {"role": "user", "content": "patch"}

    def ids(**fields: Any) -> Any:
        return post(served, "/v1/responses/render", **fields).json()["token_ids"]

    assert ids(input=[brings, asked]) == ids(input=[asked], tools=TOOLS)
    (called,) = respond(served, input=[brings, asked]).output
    assert (called.type, called.input) == ("custom_tool_call", PATCH)  # type: ignore[union-attr]
    late = post(served, "/v1/responses", input=[asked, brings])
    assert (late.status_code, late.json()["error"]["param"]) == (400, "input[1]")
