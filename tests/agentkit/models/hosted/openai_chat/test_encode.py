"""What each profile's messages look like, byte by byte where it matters."""

from __future__ import annotations

import json

import pytest

from agentkit.blocks import (
    AssistantMessage,
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.request import Block
from agentkit.context import Context
from agentkit.errors import RequestRefused
from agentkit.models.hosted.openai_chat import (
    ALIBABA,
    DEEPSEEK,
    MISTRAL,
    MOONSHOT,
    OPENAI,
    OPENROUTER,
    PROFILES,
    VLLM,
    Profile,
)
from agentkit.models.hosted.openai_chat.pieces import Encoded, Piece
from agentkit.models.hosted.openai_chat.store import PieceStore
from agentkit.toolset import Toolset
from tests.agentkit.models.hosted.openai_chat.talk import (
    ARGUMENTS,
    FRONT,
    MODELS,
    QUESTION,
    RESULTS,
    RULES,
    TOOLSET,
    adapter,
    body,
    calls,
    detail,
    plan,
    request,
    sent,
    turns,
)

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


def test_an_image_is_a_part_of_its_bytes_or_of_the_url_that_was_given() -> None:
    signed = "https://x.test/a.png?sig=1"
    asked = UserMessage.of(
        "Look:",
        Image.of_bytes(b"\x89PNG", "image/png"),
        Image(media_type="image/png", url=signed),
    )

    for profile in (OPENAI, VLLM):
        parts = sent(request(Context(asked), Toolset()), profile=profile)["messages"][0]["content"]
        assert parts == [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            {"type": "image_url", "image_url": {"url": signed}},
        ]


def test_a_pdf_is_a_file_part_where_files_are_taken_and_refused_elsewhere() -> None:
    made = request(Context(UserMessage.of(File.of_bytes(b"%PDF", "application/pdf", name="r.pdf"))))

    part = sent(made)["messages"][0]["content"][0]
    assert part == {
        "type": "file",
        "file": {"filename": "r.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
    }
    with pytest.raises(RequestRefused, match=r"vllm:m takes no files .*'r.pdf'"):
        adapter(VLLM).layout(made)


def test_a_text_file_is_text_everywhere() -> None:
    made = request(Context(UserMessage.of(File.of_bytes("é".encode(), "text/plain", name="n"))))

    for profile in (OPENAI, DEEPSEEK):
        parts = sent(made, profile=profile)["messages"][0]["content"]
        assert parts == [{"type": "text", "text": '<file name="n">\né\n</file>'}]


def test_a_model_that_cannot_see_refuses_an_image_by_name() -> None:
    made = request(Context(UserMessage.of(Image.of_bytes(b"x", "image/png"))))

    with pytest.raises(RequestRefused, match="deepseek:deepseek-flash takes no images"):
        adapter(DEEPSEEK).layout(made)


def test_what_tools_show_comes_behind_all_results_of_the_turn() -> None:
    shown = ToolMessage(
        (
            ToolResult(
                call_id="call_1",
                name="weather",
                content="see",
                attachments=(
                    Image.of_bytes(b"x", "image/png"),
                    File.of_bytes(b"%PDF", "application/pdf", name="r.pdf"),
                ),
            ),
            ToolResult(call_id="call_2", name="lookup", content="ok"),
        )
    )
    made = request(Context(QUESTION, calls(), shown))

    assert [m["role"] for m in sent(made)["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    kinds = [part["type"] for part in sent(made)["messages"][-1]["content"]]
    assert kinds == ["text", "image_url", "file"]
    # What a model cannot be shown, it is not shown; the text of the result is all it gets.
    at_vllm = sent(made, profile=VLLM)["messages"][-1]
    assert [part["type"] for part in at_vllm["content"]] == ["text", "image_url"]
    assert [m["role"] for m in sent(made, profile=DEEPSEEK)["messages"]][-1] == "tool"


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
        assert all(wire.block.mark is None for wire in layout.blocks)


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


def test_mistral_gets_ids_that_it_takes_the_same_ones_every_time() -> None:
    first = sent(turns()[1], profile=MISTRAL)["messages"]
    again = sent(turns()[2], profile=MISTRAL)["messages"]

    ids = [call["id"] for call in first[5]["tool_calls"]]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert len(set(ids)) == 2
    assert [m["tool_call_id"] for m in first if m["role"] == "tool"] == ids
    assert again[: len(first)] == first
    kept = AssistantMessage((ToolCall(id="abcDEF123", name="weather", arguments="{}"),))
    result = ToolMessage((ToolResult(call_id="abcDEF123", name="weather", content="1"),))
    own = sent(request(Context(QUESTION, kept, result)), profile=MISTRAL)["messages"]
    assert own[1]["tool_calls"][0]["id"] == own[2]["tool_call_id"] == "abcDEF123"


def called(*ids: str, name: str = "weather") -> AssistantMessage:
    return AssistantMessage(tuple(ToolCall(id=each, name=name, arguments="{}") for each in ids))


def answered(*ids: str) -> ToolMessage:
    return ToolMessage(tuple(ToolResult(call_id=i, name="weather", content="1") for i in ids))


def ids_of(profile: Profile, *turns: str) -> list[tuple[str, str]]:
    """The id of each turn's call, and that of its result."""
    context = Context(QUESTION)
    for each in turns:
        context = context.append(called(each), answered(each))
    messages = sent(request(context), profile=profile)["messages"][1:]
    pairs = zip(messages[::2], messages[1::2], strict=True)
    return [(asks["tool_calls"][0]["id"], says["tool_call_id"]) for asks, says in pairs]


def test_ids_that_a_server_refuses_are_replaced_and_results_follow() -> None:
    long = "x" * 41
    (kept, replaced) = ids_of(OPENAI, "x" * 40, long)

    assert kept == ("x" * 40, "x" * 40)
    assert replaced[0] == replaced[1] != long
    assert len(replaced[0]) <= 40


def test_ids_that_come_again_are_told_apart_where_they_must_be() -> None:
    first, second, third = ids_of(OPENROUTER, "call_0", "call_0", "functions.f:0")

    assert first == ("call_0", "call_0")
    assert second[0] == second[1] != "call_0"
    assert third[0] == third[1] != "functions.f:0"
    assert ids_of(MOONSHOT, "functions.f:0", "functions.f:0") == [("functions.f:0",) * 2] * 2
    assert ids_of(OPENROUTER, "call_0")[0] == first  # whatever comes later


def test_names_of_tools_that_a_model_made_up_are_made_legal() -> None:
    made = request(Context(QUESTION, called("c", name="no such/tool"), answered("c")))

    assert sent(made)["messages"][1]["tool_calls"][0]["function"]["name"] == "no_such_tool"


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
    before = api._encoder._store.n_encoded

    api.layout(second)
    api.layout(third)
    api.layout(third)

    assert before == 6  # the tools, four system texts, the question
    assert api._encoder._store.n_encoded == 10  # calls, results, answer, follow-up


def test_what_is_kept_is_bounded_and_used_last() -> None:
    store = PieceStore(max_bytes=10)

    def get(name: str, size: int = 4) -> Encoded:
        data = Piece(block=Block(digest=b"", n_tokens=1), data=b"x" * size, segment=None)
        return store.get((name,), lambda: Encoded(pieces=(data,), messages=()))

    first = get("a")
    get("b")
    assert get("a") is first
    get("c")  # b was used least recently

    assert store.n_bytes == 8
    assert get("a") is first
    assert store.n_encoded == 3
    get("b")
    assert store.n_encoded == 4
    get("large", 100)
    assert store.n_bytes == 100
