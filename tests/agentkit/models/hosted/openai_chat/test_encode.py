"""What each profile's messages look like, byte by byte where it matters."""

from __future__ import annotations

import json

import pytest

from agentkit.blocks import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.request import Mark
from agentkit.context import Context
from agentkit.models.hosted.openai_chat import (
    ALIBABA,
    DEEPSEEK,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    PROFILES,
    VLLM,
    Profile,
)
from agentkit.toolset import Toolset
from tests.agentkit.models.hosted.openai_chat.talk import (
    ARGUMENTS,
    MODELS,
    QUESTION,
    adapter,
    body,
    calls,
    detail,
    plan,
    sent,
    turns,
)
from tests.agentkit.models.hosted.weather import FRONT, RESULTS, RULES, TOOLSET, request

ALL = list(PROFILES.values())


def names(profile: Profile) -> str:
    return profile.provider


def test_tools_come_first_then_the_team_then_the_agent_then_the_run() -> None:
    made = request(Context(*FRONT, QUESTION).with_volatile("It is noon."))

    data = body(made).data
    parsed = json.loads(data)

    assert list(parsed)[:3] == ["model", "tools", "messages"]
    assert [tool["function"]["name"] for tool in parsed["tools"]] == ["lookup", "weather"]
    assert [(m["role"], m["content"][0]["text"][:12]) for m in parsed["messages"]] == [
        ("developer", "Be honest."),
        ("developer", "You are a we"),
        ("developer", "Q: Rome? A: "),
        ("developer", "<document ur"),
        ("user", "How is it in"),
        ("user", "It is noon."),
    ]


def test_a_tool_is_its_pinned_bytes() -> None:
    data = body(turns()[0]).data

    for spec in TOOLSET.specs:
        assert b'{"type":"function","function":' + spec.bytes + b"}" in data


def test_without_tools_nothing_is_said_about_tools() -> None:
    parsed = sent(request(Context(RULES, QUESTION), Toolset()), parallel_tool_calls=False)

    assert not parsed.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


@pytest.mark.parametrize("profile", ALL, ids=names)
def test_the_exact_arguments_of_a_call_are_sent_back(profile: Profile) -> None:
    """C8: arguments with odd spacing and key order go back as the text that they were."""
    parsed = sent(turns()[1], profile=profile)

    assistant = next(m for m in parsed["messages"] if m["role"] == "assistant")
    assert assistant["tool_calls"][0]["function"]["arguments"] == ARGUMENTS
    assert (
        json.dumps(ARGUMENTS, ensure_ascii=False).encode() in body(turns()[1], profile=profile).data
    )


@pytest.mark.parametrize("profile", ALL, ids=names)
def test_each_result_is_a_message_and_errors_say_so(profile: Profile) -> None:
    parsed = sent(turns()[1], profile=profile)

    said = [m["content"] for m in parsed["messages"] if m["role"] == "tool"]
    texts = [c if isinstance(c, str) else c[0]["text"] for c in said]
    assert texts == ["7 °C", "Error: no such word"]


@pytest.mark.parametrize("profile", ALL, ids=names)
def test_content_is_a_list_exactly_where_marks_may_stand(profile: Profile) -> None:
    parsed = sent(turns()[2], profile=profile)

    kinds = {type(m["content"]) for m in parsed["messages"]}
    assert kinds == ({list} if profile.mark else {str})


def test_an_empty_result_is_said_to_be_empty() -> None:
    call = AssistantMessage((ToolCall(id="c", name="weather", arguments="{}"),))
    result = ToolMessage((ToolResult(call_id="c", name="weather", content=""),))

    parsed = sent(request(Context(QUESTION, call, result)))

    assert parsed["messages"][-1]["content"] == [{"type": "text", "text": "(empty)"}]


@pytest.mark.parametrize("profile", ALL, ids=names)
def test_foreign_reasoning_items_and_marks_stay_behind(profile: Profile) -> None:
    """C85: after a switch of vendors the other one's fields are not sent on."""
    said = AssistantMessage(
        (
            Thinking("secret thought", "sig", "anthropic:claude-sonnet-5-5"),
            VendorItem(source="anthropic:claude-sonnet-5-5", data='{"redacted":"secret"}'),
            VendorItem(source="openai:gpt-6-sol", data='{"type":"reasoning","x":"secret"}'),
            Text("ok"),
            ToolCall(id="toolu_1", name="weather", arguments="{}"),
        )
    )
    result = ToolMessage((ToolResult(call_id="toolu_1", name="weather", content="1"),))
    marked = UserMessage.of(Text("Go.", breakpoint="1h"))
    made = request(Context(*FRONT, marked, said, result))

    api = adapter(profile, model="claude-x" if profile is OPENROUTER else None)
    layout = api.layout(made)
    data = api.body(layout, plan(), made).data

    assert b"secret" not in data
    # The plan decides on marks; by itself nothing of a vendor's is written.
    assert b"cache_control" not in data
    assert b"breakpoint" not in data
    if profile.mark is None:
        # What the user wanted is told to the plan, which says that it does nothing here.
        assert all(wire.block.mark in (None, Mark()) for wire in layout.blocks)


def test_deepseek_gets_its_reasoning_with_calls_for_ever_and_never_without() -> None:
    label = f"deepseek:{MODELS['deepseek']}"
    thought = AssistantMessage((Thinking("hm", source=label), Text("fine")))
    made = request(Context(QUESTION, calls(label), RESULTS, thought, UserMessage.of("More.")))

    assistants = [m for m in sent(made, profile=DEEPSEEK)["messages"] if m["role"] == "assistant"]

    assert assistants[0]["reasoning_content"] == "I should look."
    assert "reasoning_content" not in assistants[1]


def test_deepseek_gets_empty_reasoning_for_calls_of_another_model() -> None:
    made = request(Context(QUESTION, calls("anthropic:x"), RESULTS))

    assistant = sent(made, profile=DEEPSEEK)["messages"][1]
    assert assistant["reasoning_content"] == ""
    assert "reasoning_content" not in sent(made, profile=MOONSHOT)["messages"][1]


def test_openrouter_gets_reasoning_details_as_they_came() -> None:
    label = f"openrouter:{MODELS['openrouter']}"
    said = AssistantMessage((Text("Looking."), detail(label, "é"), *calls(label).calls))

    assistant = sent(request(Context(QUESTION, said, RESULTS)), profile=OPENROUTER)["messages"][1]

    assert assistant["reasoning_details"] == [{"type": "reasoning.text", "text": "é", "index": 0}]
    assert list(assistant) == ["role", "content", "reasoning_details", "tool_calls"]


def test_a_turn_without_words_and_calls_leaves_no_message() -> None:
    silent = AssistantMessage((Thinking("hm", source="x"), Text("")))

    parsed = sent(request(Context(QUESTION, silent, UserMessage.of("Well?"))))

    assert [m["role"] for m in parsed["messages"]] == ["user", "user"]


def test_a_turn_of_calls_alone_has_content_that_its_server_takes() -> None:
    only = AssistantMessage(calls().calls)
    made = request(Context(QUESTION, only, RESULTS))

    assert sent(made)["messages"][1]["content"] is None
    assert sent(made, profile=VLLM)["messages"][1]["content"] == ""


def test_an_empty_question_is_still_a_message() -> None:
    for profile in (OPENAI, VLLM):
        (message,) = sent(request(Context(UserMessage(())), Toolset()), profile=profile)["messages"]
        assert message["role"] == "user"


@pytest.mark.parametrize("profile", [OPENAI, VLLM, ALIBABA], ids=names)
def test_one_system_message_holds_all_texts_and_shares_its_beginning(profile: Profile) -> None:
    api = adapter(profile, one_system_message=True)
    made = turns()[0]
    layout = api.layout(made)
    parsed = json.loads(api.body(layout, plan(), made).data)

    system, question = parsed["messages"]
    text = system["content"]
    texts = text.split("\n\n") if isinstance(text, str) else [part["text"] for part in text]
    assert texts[:3] == ["Be honest.", "You are a weather desk.", "Q: Rome? A: 20 °C"]
    assert texts[3] == '<document uri="file:notes">\nUse Celsius.\n\n</document>' or texts[3:] == [
        '<document uri="file:notes">\nUse Celsius.',
        "</document>",
    ]
    assert question["role"] == "user"
    other = api.layout(request(Context(RULES, *FRONT[1:2], FRONT[3], QUESTION)))
    # Two tools and the rules.
    assert [b.block.digest for b in layout.blocks[:3]] == [b.block.digest for b in other.blocks[:3]]
    assert len(layout.cache_request.system) == 4


def test_segments_are_encoded_once() -> None:
    api = adapter()
    first, second, third = turns()
    api.layout(first)
    before = len(api._encoder._store)

    api.layout(second)
    api.layout(third)
    api.layout(third)

    assert before == 6  # the tools, four system texts, the question
    assert len(api._encoder._store) == 10  # calls, results, answer, follow-up
