"""What surrounds the prompt: marks, cache fields, masks, answer forms, settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit.blocks import UserMessage
from agentkit.caching.plan.plan import Hints, PlacedMark
from agentkit.caching.policy import Ttl
from agentkit.caching.request import OpenAiOptions
from agentkit.context import Context
from agentkit.errors import ConfigurationError, RequestRefused
from agentkit.models.base import Settings, ToolName
from agentkit.models.hosted.openai_chat import (
    ALIBABA,
    DEEPSEEK,
    GROQ,
    MISTRAL,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    PROFILES,
    VLLM,
    XAI,
    ChatOptions,
    Profile,
)
from agentkit.models.hosted.openai_common import LostMarkWarning
from tests.agentkit.models.hosted.openai_chat.talk import (
    QUESTION,
    adapter,
    body,
    plan,
    sent,
    turns,
    without_marks,
)
from tests.agentkit.models.hosted.weather import FRONT, request

EXPLICIT = {"mode": "explicit"}
EPHEMERAL = {"type": "ephemeral"}


def names(profile: Profile) -> str:
    return profile.provider


def marked_texts(parsed: dict[str, Any], field: str) -> list[str]:
    return [
        part.get("text", part["type"])
        for message in parsed["messages"]
        for part in message["content"] or ()
        if field in part
    ]


@pytest.mark.parametrize("profile", [OPENAI, OPENROUTER, ALIBABA], ids=names)
def test_a_mark_adds_its_field_and_moves_no_other_byte(profile: Profile) -> None:
    made = turns(picture=True)[2]
    layout = adapter(profile).layout(made)
    marks = [i for i, piece in enumerate(layout.blocks) if piece.mark_at is not None]

    bare = body(made, profile=profile).data
    marked = body(made, plan(*marks), profile=profile).data

    assert marked != bare
    assert without_marks(marked) == bare
    assert profile.mark is not None
    field = f'"{profile.mark.name}":'.encode()
    assert marked.count(field) == len(marks)


def test_openais_marks_stand_on_system_user_and_tool_text() -> None:
    parsed = sent(turns()[1], plan(2, 5, 6, 11, mode="explicit"))

    assert marked_texts(parsed, "prompt_cache_breakpoint") == [
        "Be honest.",
        '<document uri="file:notes">\nUse Celsius.\n\n</document>',
        "How is it in Zürich?",
        "Error: no such word",
    ]
    assert parsed["messages"][0]["content"][0]["prompt_cache_breakpoint"] == EXPLICIT
    assert parsed["prompt_cache_options"] == EXPLICIT


def test_claude_behind_a_gateway_gets_its_marks() -> None:
    """C89: Claude through an OpenAI-shaped gateway is cached, with its own kind of mark."""
    long = PlacedMark(index=5, ttl=Ttl.ONE_HOUR)
    planned = plan(2, 11)
    made = sent(
        turns()[1],
        plan(marks=(planned.marks[0], long, planned.marks[1])),
        profile=OPENROUTER,
    )

    assert marked_texts(made, "cache_control")[0] == "Be honest."
    assert len(marked_texts(made, "cache_control")) == 3
    assert made["messages"][0]["content"][0]["cache_control"] == EPHEMERAL
    assert made["messages"][3]["content"][0]["cache_control"] == {**EPHEMERAL, "ttl": "1h"}
    assert made["messages"][-1]["role"] == "tool"
    assert made["messages"][-1]["content"][0]["cache_control"] == EPHEMERAL


def test_the_same_conversation_has_the_same_logical_marks_in_every_form() -> None:
    """C29: marks are by place in the conversation, and each server gets them in its own field."""
    places = (2, 6, 11)
    for profile, field in (
        (OPENAI, "prompt_cache_breakpoint"),
        (OPENROUTER, "cache_control"),
        (ALIBABA, "cache_control"),
    ):
        texts = marked_texts(sent(turns()[1], plan(*places), profile=profile), field)
        assert texts == ["Be honest.", "How is it in Zürich?", "Error: no such word"]
    for profile in (DEEPSEEK, VLLM, XAI, MISTRAL, GROQ, MOONSHOT):
        data = body(turns()[1], plan(), profile=profile).data
        assert not any(field in data for field in (b"cache_control", b"breakpoint", b"cachePoint"))


def test_a_mark_without_a_place_is_said_and_not_written() -> None:
    """C29: where there is no target, there is a warning, once, and no stray field."""
    made = turns()[1]
    api = adapter()
    layout = api.layout(made)

    with pytest.warns(LostMarkWarning, match=r"no cache mark can stand on \['tool'\]"):
        first = api.body(layout, plan(1, mode="explicit"), made)
    again = api.body(layout, plan(1, mode="explicit"), made)

    assert b"breakpoint" not in first.data
    assert first.data == again.data


def test_alibabas_marks_name_no_lifetime() -> None:
    mark = PlacedMark(index=2, ttl=Ttl.FIVE_MINUTES)
    parsed = sent(turns()[0], plan(marks=(mark,)), profile=ALIBABA)

    assert parsed["messages"][0]["content"][0]["cache_control"] == EPHEMERAL


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        (OPENAI, "prompt_cache_key"),
        (DEEPSEEK, "user_id"),
        (MISTRAL, "prompt_cache_key"),
        (MOONSHOT, "prompt_cache_key"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.provider.value,
)
def test_the_cache_key_goes_into_the_servers_field(profile: Profile, field: str) -> None:
    assert sent(turns()[0], plan(cache_key="k"), profile=profile)[field] == "k"
    assert field not in sent(turns()[0], profile=profile)


@pytest.mark.parametrize("profile", [VLLM, OPENROUTER, GROQ, ALIBABA], ids=names)
def test_a_server_without_such_a_field_is_not_sent_one(profile: Profile) -> None:
    assert sent(turns()[0], plan(cache_key="k"), profile=profile) == sent(
        turns()[0], profile=profile
    )


def test_xais_key_is_a_header() -> None:
    made = body(turns()[0], plan(cache_key="k"), XAI)

    assert made.headers["x-grok-conv-id"] == "k"
    assert b'"k"' not in made.data


def test_hints_are_written_down_as_they_are_planned() -> None:
    hints = Hints(
        body={"cache_salt": "s4lt", "session_id": "s", "priority": -1},
        headers={"X-Session-ID": "s"},
    )
    made = body(turns()[0], plan(hints=hints), VLLM, headers={"X-Mine": "1"})

    parsed = json.loads(made.data)
    assert (parsed["cache_salt"], parsed["session_id"], parsed["priority"]) == ("s4lt", "s", -1)
    assert made.headers == {"X-Mine": "1", "X-Session-ID": "s"}


def test_lifetimes_go_where_the_server_has_them() -> None:
    thirty = OpenAiOptions(api="chat", mode="explicit", ttl=Ttl.THIRTY_MINUTES)
    hour = OpenAiOptions(api="chat", ttl=Ttl.ONE_HOUR)
    day = OpenAiOptions(api="chat", retention="24h")
    made = turns()[0]

    assert sent(made, plan(openai=thirty))["prompt_cache_options"] == {**EXPLICIT, "ttl": "30m"}
    assert sent(made, plan(openai=hour), profile=MOONSHOT)["prompt_cache_options"] == {"ttl": "1h"}
    assert sent(made, plan(openai=day))["prompt_cache_retention"] == "24h"
    for options in (thirty, day):
        assert b"prompt_cache" not in body(made, plan(openai=options), VLLM).data


def test_what_every_request_has_is_written_only_if_it_says_something() -> None:
    assert set(sent(turns()[0])) == {"model", "tools", "messages", "stream", "stream_options"}
    assert "stream_options" not in sent(turns()[0], profile=MISTRAL)


def test_a_mask_is_a_choice_and_never_another_list_of_tools() -> None:
    made = request(Context(*FRONT, QUESTION), allowed_tools=frozenset(["weather"]))
    masked = sent(made, plan(mask=frozenset(["weather"])))

    assert masked["tool_choice"] == {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "weather"}}],
        },
    }
    assert masked["tools"] == sent(turns()[0])["tools"]
    assert "tool_choice" not in sent(made, plan(mask=frozenset(["weather"])), profile=VLLM)
    assert "tool_choice" not in sent(made, plan(mask=frozenset(["weather", "lookup"])))
    assert sent(made, plan(mask=frozenset()))["tool_choice"] == "none"


@pytest.mark.parametrize(
    ("choice", "at_openai", "at_mistral"),
    [
        ("auto", None, None),
        ("none", "none", "none"),
        ("required", "required", "any"),
        (
            ToolName("lookup"),
            {"type": "function", "function": {"name": "lookup"}},
            {"type": "function", "function": {"name": "lookup"}},
        ),
    ],
)
def test_choices_are_said_in_the_servers_words(
    choice: Any, at_openai: object, at_mistral: object
) -> None:
    made = request(Context(*FRONT, QUESTION), tool_choice=choice)

    assert sent(made).get("tool_choice") == at_openai
    assert sent(made, profile=MISTRAL).get("tool_choice") == at_mistral


def test_a_mask_of_one_required_tool_names_it_where_masks_are_unknown() -> None:
    made = request(Context(*FRONT, QUESTION), tool_choice="required")
    planned = plan(mask=frozenset(["weather"]))

    assert sent(made, planned, profile=VLLM)["tool_choice"] == {
        "type": "function",
        "function": {"name": "weather"},
    }
    assert sent(made, planned)["tool_choice"]["allowed_tools"]["mode"] == "required"


def test_answers_are_held_to_a_schema_strictly_where_that_is_possible() -> None:
    closed = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    loose = {"type": "object", "properties": {"a": {"type": "string"}}}

    made = sent(request(Context(QUESTION), output_schema=closed))["response_format"]
    assert made["json_schema"]["strict"] is True
    assert made["json_schema"]["schema"] == {**closed, "additionalProperties": False}
    made = sent(request(Context(QUESTION), output_schema=loose), profile=VLLM)["response_format"]
    assert made["json_schema"] == {"name": "answer", "schema": loose, "strict": False}
    assert "response_format" not in sent(
        request(Context(QUESTION), output_schema=closed), profile=DEEPSEEK
    )


@pytest.mark.parametrize("profile", [OPENAI, VLLM])
def test_an_answer_that_is_no_object_is_the_one_member_of_one(profile: Profile) -> None:
    numbers = {"type": "array", "items": {"type": "integer"}}
    made = sent(request(Context(QUESTION), output_schema=numbers), profile=profile)

    assert made["response_format"]["json_schema"]["strict"] is True
    assert made["response_format"]["json_schema"]["schema"] == {
        "type": "object",
        "properties": {"answer": numbers},
        "required": ["answer"],
        "additionalProperties": False,
    }


def test_settings_have_the_servers_names() -> None:
    made = request(
        Context(QUESTION),
        settings=Settings(temperature=0.0, top_p=0.5, seed=1, max_tokens=9, stop=("END",)),
    )

    at_openai, at_mistral = sent(made), sent(made, profile=MISTRAL)
    assert at_openai["max_completion_tokens"] == at_mistral["max_tokens"] == 9
    assert at_openai["seed"] == at_mistral["random_seed"] == 1
    assert (at_openai["temperature"], at_openai["top_p"], at_openai["stop"]) == (0.0, 0.5, ["END"])


def test_a_setting_that_a_server_lacks_is_refused_by_name() -> None:
    made = request(Context(QUESTION), settings=Settings(top_k=4))

    assert sent(made, profile=VLLM)["top_k"] == 4
    with pytest.raises(RequestRefused, match=r"openai:gpt-6-sol has no top_k, got 4; leave it out"):
        adapter().layout(made)


def test_options_are_the_same_in_every_request_and_cannot_replace_the_prompt() -> None:
    extra = {"thinking": {"type": "disabled"}}
    parsed = sent(turns()[0], profile=DEEPSEEK, body=extra, reasoning_effort="low")

    assert parsed["thinking"] == {"type": "disabled"}
    assert parsed["reasoning_effort"] == "low"
    with pytest.raises(ConfigurationError, match=r"cannot set \['messages'\]"):
        ChatOptions(body={"messages": []})


@pytest.mark.parametrize("profile", list(PROFILES.values()), ids=names)
def test_steering_one_answer_changes_no_byte_of_the_prompt(profile: Profile) -> None:
    plain = request(Context(*FRONT, QUESTION))
    steered = request(
        Context(*FRONT, QUESTION),
        tool_choice="required",
        allowed_tools=frozenset(["weather"]),
        settings=Settings(temperature=0.5, max_tokens=3),
    )
    api = adapter(profile)

    assert api.layout(steered).stable == api.layout(plain).stable
    first = api.body(api.layout(plain), plan(), plain).data
    second = api.body(api.layout(steered), plan(mask=frozenset(["weather"])), steered).data
    end = first.index(b',"stream":true')
    assert second[:end] == first[:end]


def test_every_row_of_the_table_is_whole() -> None:
    for name, profile in PROFILES.items():
        assert profile.provider == name
        assert (profile.base_url is None) == (profile.is_self_hosted or profile is OPENAI)
        made = request(Context(*FRONT, UserMessage.of("Go.")))
        assert json.loads(body(made, profile=profile).data)["messages"]
