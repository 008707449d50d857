"""What clients add to whatever they ask: taken where an answer is legal without it, and told."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from openai.types.responses import Response

from agentkit_runtime.api.openai.responses.thinking import carried, thinking_in
from agentkit_runtime.api.openai.unserved import unserved_header
from tests.runtime.api.openai.cases import ARGUMENTS, RESPONSE_TOOLS, TOOLS
from tests.runtime.api.openai.strict import strictly
from tests.runtime.api.serving import Served

HEADER = "x-agentkit-unserved"
SEARCH = {"type": "web_search", "external_web_access": True}


def respond(served: Served, **fields: Any) -> httpx2.Response:
    body = {"model": "scripted", "input": "weather", **fields}
    return httpx2.post(f"{served.url}/v1/responses", json=body, timeout=30)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_hosted_tool_among_functions_is_left_out_and_told(
    served: Served, is_streamed: bool
) -> None:
    tools = [SEARCH, *RESPONSE_TOOLS, {"type": "image_generation"}]

    found = respond(served, tools=tools, stream=is_streamed)

    assert found.status_code == 200
    assert found.headers[HEADER] == "web_search, image_generation"
    if not is_streamed:
        response = strictly(Response, found.json())
        assert [tool.type for tool in response.tools] == ["function", "function"]
        assert response.output[-1].arguments == ARGUMENTS  # type: ignore[union-attr]


def test_it_moves_nothing_of_the_prompt(served: Served) -> None:
    def ids(tools: list[Any]) -> Any:
        body = {"model": "scripted", "input": "weather", "tools": tools}
        return httpx2.post(f"{served.url}/v1/responses/render", json=body).json()["token_ids"]

    assert ids([SEARCH, *RESPONSE_TOOLS]) == ids(RESPONSE_TOOLS)


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [SEARCH]},
        {"tools": [*RESPONSE_TOOLS, {"type": "file_search", "vector_store_ids": ["v"]}]},
        {"tools": [*RESPONSE_TOOLS, {"type": "web_search\r\nx-other: 1"}]},
        {"tools": [*RESPONSE_TOOLS, SEARCH], "tool_choice": {"type": "web_search"}},
    ],
)
def test_one_that_was_surely_wanted_is_refused(served: Served, fields: dict[str, Any]) -> None:
    found = respond(served, **fields)

    assert found.status_code == 400
    assert found.json()["error"]["param"].startswith("tool")


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (
            [{"type": "namespace", "name": "n", "tools": []}, SEARCH],
            "tools[1].type is 'web_search'",
        ),
        (
            [{"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m"}]}],
            "a namespace holds only 'function' and 'custom'",
        ),
    ],
)
def test_what_is_wrong_with_tools_is_said_of_the_one(
    served: Served, tools: list[Any], said: str
) -> None:
    assert said in respond(served, tools=tools).json()["error"]["message"]


def test_a_header_tells_each_once_and_stays_short() -> None:
    many = [f"{number:064}.format" for number in range(1_000)]

    assert unserved_header(["web_search", "verbosity", "web_search"]) == {
        HEADER: "web_search, verbosity"
    }
    told = unserved_header(many)[HEADER]
    assert len(told) < 4_096
    assert told.endswith(f"{49:064}.format, and 950 more")


def test_hints_at_style_are_told_where_the_model_has_no_such_thing(served: Served) -> None:
    found = respond(
        served, input="hello", text={"verbosity": "low"}, reasoning={"effort": "medium"}
    )
    assert found.headers[HEADER] == "reasoning.effort, text.verbosity"

    body = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "weather"}],
        "tools": TOOLS,
        "verbosity": "high",
        "reasoning_effort": "high",
    }
    chat = httpx2.post(f"{served.url}/v1/chat/completions", json=body, timeout=30)
    assert chat.headers[HEADER] == "reasoning_effort, verbosity"


def test_an_ordinary_request_is_told_nothing(served: Served) -> None:
    usual = {"text": {"verbosity": "medium"}, "reasoning": {"effort": "none", "summary": "auto"}}

    assert HEADER not in respond(served, input="hello", tools=RESPONSE_TOOLS, **usual).headers


@pytest.mark.parametrize("text", ["", "naïve 🙂\nline", "x" * 1000])
def test_thinking_that_a_client_carries_comes_back(text: str) -> None:
    assert thinking_in(carried(text)) == text


@pytest.mark.parametrize("text", ["", "gAAAAsealed", "agentkit1.not base64!", "agentkit1./w=="])
def test_what_others_have_sealed_is_no_thinking_of_ours(text: str) -> None:
    assert thinking_in(text) == ""
