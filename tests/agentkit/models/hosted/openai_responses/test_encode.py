"""How a context lies on the wire of the Responses API."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from agentkit.blocks import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    VendorItem,
)
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.context import Context, SystemPart, SystemText
from agentkit.errors import RequestRefused
from agentkit.models.hosted.openai_common import LostMarkWarning
from agentkit.toolset import Toolset, tool
from tests.agentkit.models.hosted.openai_responses.talk import (
    ARGUMENTS,
    CALLS,
    HISTORY,
    LABEL,
    NO_PLAN,
    QUESTION,
    REASONING,
    adapter,
    body,
    plan,
    sent,
    turns,
)
from tests.agentkit.models.hosted.weather import FRONT, RESULTS, request, weather


def test_tools_lead_then_rules_then_the_agents_front_then_history_then_volatile_text() -> None:
    wire = sent(request(Context(*FRONT, *HISTORY).with_volatile("It is noon.")))

    assert [tool["name"] for tool in wire["tools"]] == ["lookup", "weather"]
    assert [(item["type"], item.get("role")) for item in wire["input"]] == [
        *[("message", "developer")] * 4,
        ("message", "user"),
        ("reasoning", None),
        ("message", "assistant"),
        *[("function_call", None)] * 2,
        *[("function_call_output", None)] * 2,
        ("message", "assistant"),
        ("message", "user"),
        ("message", "user"),
    ]
    texts = [item["content"][0]["text"] for item in wire["input"][:4]]
    assert texts == [
        "Be honest.",
        "You are a weather desk.",
        "Q: Rome? A: 20 °C",
        '<document uri="file:notes">\nUse Celsius.\n\n</document>',
    ]
    assert wire["input"][-1]["content"] == [{"type": "input_text", "text": "It is noon."}]
    assert "instructions" not in wire


def test_tools_are_strict_where_that_is_wanted_and_their_schema_allows_it() -> None:
    @tool
    def loose(a: str = "x") -> str:
        """A default is no part of strict mode."""
        return a

    toolset = Toolset([loose, weather])
    made = request(Context(UserMessage.of("hi")), toolset)

    assert [each["strict"] for each in sent(made)["tools"]] == [False, False]
    strict = sent(made, strict_tools=True)["tools"]
    assert [(each["name"], each["strict"]) for each in strict] == [
        ("loose", False),
        ("weather", True),
    ]
    assert [each["parameters"] for each in strict] == [
        each["parameters"] for each in sent(made)["tools"]
    ]


def test_nothing_is_stored_and_reasoning_comes_along() -> None:
    wire = sent(turns()[0])

    assert (wire["store"], wire["stream"]) == (False, True)
    assert wire["include"] == ["reasoning.encrypted_content"]


def test_models_without_reasoning_are_not_asked_for_it() -> None:
    api, made = adapter("gpt-4.1"), turns()[0]

    wire = json.loads(api.body(api.layout(made), NO_PLAN, made).data)

    assert "include" not in wire


def test_images_and_files_go_in_as_parts() -> None:
    wire = sent(turns()[2])

    assert wire["input"][4]["content"][1] == {
        "type": "input_image",
        "detail": "auto",
        "image_url": "data:image/png;base64,iVBORw==",
    }
    assert wire["input"][-1]["content"][1] == {
        "type": "input_file",
        "filename": "r.pdf",
        "file_data": "data:application/pdf;base64,JVBERg==",
    }


def test_an_image_by_url_is_sent_as_it_came() -> None:
    signed = "https://x.example/i.png?sig=%2Fa&t=1"
    context = Context(UserMessage.of(Image(media_type="image/png", url=signed)))

    assert sent(request(context))["input"][0]["content"][0]["image_url"] == signed


def test_an_error_result_says_so_in_words() -> None:
    outputs = [i for i in sent(turns()[1])["input"] if i["type"] == "function_call_output"]

    assert outputs == [
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [{"type": "input_text", "text": "7 °C"}],
        },
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_text", "text": "Error: no such word"}],
        },
    ]


def test_what_a_tool_attaches_lies_behind_its_text() -> None:
    picture = Image.of_bytes(b"x", "image/png")
    result = ToolResult(call_id="c", name="lookup", content="see", attachments=(picture,))
    called = AssistantMessage((ToolCall(id="c", name="lookup", arguments="{}"),))
    made = request(Context(UserMessage.of("hi"), called, ToolMessage((result,))))

    output = sent(made)["input"][-1]["output"]

    assert [part["type"] for part in output] == ["input_text", "input_image"]
    kinds = [block.block.kind for block in adapter().layout(made).blocks[-2:]]
    assert kinds == [BlockKind.TOOL_RESULT, BlockKind.IMAGE]


def test_arguments_are_replayed_to_the_character() -> None:
    """C8: arguments parsed and printed again have other bytes than the model wrote."""
    finished = body(turns()[1]).data

    call = next(i for i in json.loads(finished)["input"] if i.get("call_id") == "call_1")
    assert call["arguments"] == ARGUMENTS
    assert json.dumps(ARGUMENTS, ensure_ascii=False).encode() in finished


def test_a_reasoning_item_is_replayed_to_the_byte_and_before_its_calls() -> None:
    finished = body(turns()[1]).data

    assert finished.count(REASONING.data.encode()) == 1
    assert finished.index(REASONING.data.encode()) < finished.index(b"function_call")


def test_foreign_thinking_and_vendor_items_are_left_out() -> None:
    """C85: a fallback to OpenAI fails on the fields of the vendor that answered before."""
    theirs = AssistantMessage(
        (
            Thinking("hm", "c2lnbmF0dXJl", "anthropic:claude-sonnet-5-5"),
            VendorItem(
                source="anthropic:claude-sonnet-5-5", data='{"type":"redacted_thinking","data":"x"}'
            ),
            Text("Hi"),
        )
    )
    only_thought = AssistantMessage((Thinking("hm", "c2lnbmF0dXJl", "anthropic:c"),))
    made = request(
        Context(UserMessage.of("a"), theirs, UserMessage.of("b"), only_thought, UserMessage.of("c"))
    )

    finished = body(made).data

    for stranger in (b"redacted", b"c2lnbmF0dXJl", b"thinking", b"cache_control"):
        assert stranger not in finished
    assert [item["role"] for item in json.loads(finished)["input"]] == [
        *("user", "assistant", "user", "user")
    ]


def test_items_of_another_openai_model_are_replayed() -> None:
    older = dataclasses.replace(REASONING, source="openai:gpt-6-astra")
    made = request(Context(UserMessage.of("a"), AssistantMessage((older,)), UserMessage.of("b")))

    assert older.data.encode() in body(made).data


def test_a_vendor_item_that_is_no_json_object_is_refused_by_name() -> None:
    bad = AssistantMessage((VendorItem(source=LABEL, data="[1]"),))

    with pytest.raises(
        RequestRefused, match="a vendor item of 'openai:gpt-6-sol' is no JSON object"
    ):
        body(request(Context(UserMessage.of("a"), bad, UserMessage.of("b"))))


def test_the_phase_of_a_message_goes_back_with_its_text() -> None:
    label = VendorItem(source=LABEL, data='{"phase":"commentary"}')
    made = request(
        Context(UserMessage.of("a"), AssistantMessage((label, Text("On it."), Text("So."))))
    )

    said = sent(made)["input"][1:]

    assert [(item["content"], item.get("phase")) for item in said] == [
        ("On it.", "commentary"),
        ("So.", None),
    ]


def test_a_mark_set_by_hand_is_on_the_block_and_on_the_wire() -> None:
    """C43: a message that is rebuilt on its way loses the mark, and nothing is cached."""
    marked = UserMessage.of("a", Text("b", "1h"), "c")
    made = request(Context(*FRONT, marked))
    api = adapter()

    layout = api.layout(made)
    [index] = [i for i, wire in enumerate(layout.blocks) if wire.block.mark is not None]
    mark = layout.blocks[index].block.mark
    assert mark is not None
    assert mark.ttl is Ttl.TWELVE_HOURS  # the next longer that OpenAI has

    wire = sent(made, plan(index))
    assert wire["input"][-1]["content"][1] == {
        "type": "input_text",
        "text": "b",
        "prompt_cache_breakpoint": {"mode": "explicit"},
    }


@pytest.mark.parametrize(
    ("wanted", "ttl"),
    [("default", None), ("5m", "30m"), ("30m", "30m"), ("1h", "12h"), ("12h", "12h")],
)
def test_a_lifetime_that_openai_has_not_becomes_the_next_longer(
    wanted: str, ttl: str | None
) -> None:
    made = request(Context(UserMessage.of(Text("a", wanted))))  # type: ignore[arg-type]

    mark = adapter().layout(made).blocks[-1].block.mark

    assert mark is not None
    assert mark.ttl == ttl


def test_a_mark_where_none_can_be_is_said_to_be_lost() -> None:
    """C29: a mark without a target is dropped, and nobody is told."""
    made = request(
        Context(UserMessage.of("a"), AssistantMessage((Text("b", "30m"),)), UserMessage.of("c"))
    )

    with pytest.warns(LostMarkWarning, match="no breakpoint on an assistant's text"):
        layout = adapter().layout(made)

    assert [wire.block.mark for wire in layout.blocks[-2:]] == [None, None]


def test_marks_move_no_other_byte() -> None:
    """C29: this API takes strings and lists of parts; which is sent never depends on marks."""
    made = turns()[2]
    layout = adapter().layout(made)
    markable = [i for i, item in enumerate(layout.pieces) if item.is_markable]
    splice = b',"prompt_cache_breakpoint":{"mode":"explicit"}'

    plain = body(made, plan()).data
    for index in markable:
        marked = body(made, plan(index)).data
        assert marked.count(splice) == 1
        assert marked.replace(splice, b"") == plain


def test_a_plan_that_marks_a_whole_item_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"pieces \[0\] are whole items"):
        body(turns()[0], plan(0))


def test_a_context_that_was_saved_and_loaded_is_sent_with_the_same_bytes() -> None:
    """C56: a run that is resumed elsewhere loses its thinking and renders its history anew."""
    context = Context(*FRONT, QUESTION, CALLS, RESULTS)
    before = adapter().layout(request(context))

    loaded = Context.load(context.dump()).append(AssistantMessage((Text("Done."),)))
    after = adapter().layout(request(loaded.append(UserMessage.of("And now?"))))

    assert REASONING.data.encode() in after.stable
    assert after.stable[: len(before.stable)] == before.stable


def test_empty_system_text_says_nothing() -> None:
    front = (SystemText(SystemPart.RULES, ""), SystemText(SystemPart.ROLE, "x"))

    wire = sent(request(Context(*front, UserMessage.of("a")), Toolset()))

    assert [item["role"] for item in wire["input"]] == ["developer", "user"]
    assert "tools" not in wire
    assert "tool_choice" not in wire


def test_the_client_is_not_imported_before_it_is_needed() -> None:
    folder = Path(__file__).parents[5] / "agentkit/models/hosted"
    for file in [folder / "openai_common.py", *(folder / "openai_responses").glob("*.py")]:
        lines = file.read_text().splitlines()
        assert not [line for line in lines if line.startswith(("import openai", "from openai"))]
