"""What stands behind the prompt: cache fields, masks, choices, the answer's form, settings."""

from __future__ import annotations

import json
from datetime import date
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field

from agentkit.caching.chain import changed_settings, settings
from agentkit.caching.plan.plan import Hints, PlacedMark
from agentkit.caching.policy import OpenAiMarkPolicy, Provider, Ttl, policy_for
from agentkit.caching.request import OpenAiOptions
from agentkit.context import Context
from agentkit.errors import RequestRefused
from agentkit.models.base import Settings, ToolName
from agentkit.output import output_spec
from tests.agentkit.models.hosted.openai_responses.talk import (
    QUESTION,
    adapter,
    body,
    plan,
    sent,
    turns,
)
from tests.agentkit.models.hosted.weather import FRONT, request

ON = date(2026, 11, 29)


class City(BaseModel):
    """A city."""

    name: str
    zip_code: int


class Loose(BaseModel):
    name: str = Field(default="x", max_length=9)


def schema(of: type[Any]) -> dict[str, object]:
    return cast("dict[str, object]", output_spec(of).schema)


ASKED = turns()[0]


def test_a_plan_becomes_marks_options_and_a_key() -> None:
    planned = plan(
        marks=(PlacedMark(index=2, ttl=Ttl.TWELVE_HOURS), PlacedMark(index=7)),
        openai=OpenAiOptions(mode="explicit", ttl=Ttl.THIRTY_MINUTES),
        cache_key="team-1",
    )

    wire = sent(ASKED, planned)

    assert wire["prompt_cache_key"] == "team-1"
    assert wire["prompt_cache_options"] == {"mode": "explicit", "ttl": "30m"}
    assert wire["input"][0]["content"][0]["prompt_cache_breakpoint"] == {
        "mode": "explicit",
        "ttl": "12h",
    }
    assert wire["input"][-1]["content"][1]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert json.dumps(wire).count("prompt_cache_breakpoint") == 2


def test_defaults_are_left_out_so_that_older_models_take_the_request() -> None:
    planned = plan(openai=OpenAiOptions(mode="implicit", retention="24h"))

    wire = sent(ASKED, planned)

    assert [name for name in wire if "cache" in name] == ["prompt_cache_retention"]
    assert wire["prompt_cache_retention"] == "24h"


def test_hints_reach_body_and_headers() -> None:
    planned = plan(hints=Hints(body={"priority": 1}, headers={"x-session-id": "s"}))

    finished = body(ASKED, planned)

    assert json.loads(finished.data)["priority"] == 1
    assert finished.headers == {"x-session-id": "s"}


def test_a_mask_is_named_in_the_choice_and_the_tools_stay() -> None:
    free = body(ASKED, plan()).data
    masked = body(ASKED, plan(mask=frozenset(["weather"]))).data

    assert json.loads(masked)["tool_choice"] == {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "weather"}],
    }
    end = b'],"model"'
    assert masked[: masked.index(end)] == free[: free.index(end)]


@pytest.mark.parametrize(
    ("choice", "mask", "on_the_wire"),
    [
        ("auto", None, "auto"),
        ("required", None, "required"),
        ("none", None, "none"),
        ("none", {"weather"}, "none"),
        ("auto", set(), "none"),
        ("auto", {"gone"}, "none"),
        (ToolName("lookup"), {"weather"}, {"type": "function", "name": "lookup"}),
    ],
)
def test_choices_map_one_to_one(choice: Any, mask: set[str] | None, on_the_wire: object) -> None:
    made = request(ASKED.context, tool_choice=choice)
    planned = plan(mask=None if mask is None else frozenset(mask))

    assert sent(made, planned)["tool_choice"] == on_the_wire


def test_required_with_a_mask_requires_one_of_the_allowed() -> None:
    made = request(ASKED.context, tool_choice="required")

    choice = sent(made, plan(mask=frozenset(["weather", "lookup"])))["tool_choice"]

    assert choice["mode"] == "required"
    assert [tool["name"] for tool in choice["tools"]] == ["lookup", "weather"]


def test_a_forced_answer_keeps_the_tools_and_the_prompt() -> None:
    """C67: a retry that narrows the tool list to one tool misses the whole cache."""
    forced = request(ASKED.context, tool_choice=ToolName("lookup"))

    before, after = adapter().layout(ASKED), adapter().layout(forced)

    assert after.stable == before.stable
    assert after.cache_request.tools == before.cache_request.tools
    policy = policy_for(Provider.OPENAI, "gpt-6-sol", ON)
    assert isinstance(policy, OpenAiMarkPolicy)
    assert settings(after.cache_request, policy.invalidations) == (
        settings(before.cache_request, policy.invalidations)
    )


def test_another_answer_schema_is_named_as_what_loses_the_cache() -> None:
    """C68: a schema that changes between turns costs the prefix, and nothing says so."""
    policy = policy_for(Provider.OPENAI, "gpt-6-sol", ON)
    requests = [
        adapter().layout(request(ASKED.context, output_schema=form)).cache_request
        for form in (schema(City), schema(City), schema(Loose), None)
    ]
    keyed = [settings(seen, policy.invalidations) for seen in requests]

    assert changed_settings(keyed[0], keyed[1]) == []
    assert changed_settings(keyed[1], keyed[2]) == ["output_format"]
    assert changed_settings(keyed[2], keyed[3]) == ["output_format"]


def test_a_schema_that_can_be_strict_is_closed_and_strict() -> None:
    made = request(ASKED.context, output_schema=schema(City))

    form = sent(made)["text"]["format"]

    assert (form["type"], form["strict"]) == ("json_schema", True)
    assert form["schema"]["additionalProperties"] is False
    assert list(form["schema"]["properties"]) == ["name", "zip_code"]


def test_a_schema_that_cannot_is_sent_as_it_is() -> None:
    made = request(ASKED.context, output_schema=schema(Loose))

    form = sent(made)["text"]["format"]

    assert (form["strict"], form["schema"]) == (False, schema(Loose))


def test_an_answer_schema_leaves_the_prompt_alone() -> None:
    made = request(ASKED.context, output_schema=schema(City))

    assert adapter().layout(made).stable == adapter().layout(ASKED).stable


def test_options_are_on_the_wire() -> None:
    wire = sent(
        ASKED,
        effort="high",
        summary="auto",
        reasoning_context="all_turns",
        verbosity="low",
        service_tier="flex",
        parallel_tool_calls=False,
    )

    assert wire["reasoning"] == {
        "effort": "high",
        "summary": "auto",
        "context": "all_turns",
    }
    assert wire["text"] == {"verbosity": "low"}
    assert (wire["service_tier"], wire["parallel_tool_calls"]) == ("flex", False)


def test_what_is_not_set_is_not_sent() -> None:
    assert set(sent(ASKED)) == {
        *("tools", "input", "model", "store", "stream", "include", "tool_choice")
    }


def test_settings_are_translated() -> None:
    made = request(ASKED.context, settings=Settings(temperature=0.5, top_p=0.9, max_tokens=99))

    wire = sent(made)

    assert (wire["temperature"], wire["top_p"], wire["max_output_tokens"]) == (0.5, 0.9, 99)


@pytest.mark.parametrize("wrong", [{"top_k": 5}, {"seed": 7}, {"stop": ("x",)}])
def test_a_setting_that_the_api_has_not_is_refused_and_not_dropped(wrong: Any) -> None:
    made = request(ASKED.context, settings=Settings(**wrong))

    with pytest.raises(RequestRefused, match=f"the Responses API has no {next(iter(wrong))}"):
        adapter().layout(made)


def test_equal_requests_have_equal_bytes() -> None:
    made = request(Context(*FRONT, QUESTION), output_schema=schema(City))

    assert body(made, plan(2, 7)) == body(made, plan(2, 7))
    assert body(made, plan(2, 7)).data == body(made, plan(2, 7)).data
