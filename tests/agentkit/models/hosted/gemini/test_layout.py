"""How a request lies on Gemini's wire."""

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
from agentkit.caching.plan.draft import SharedBy
from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Role
from agentkit.context import Context
from agentkit.errors import RequestRefused
from agentkit.models.base import Reuse, Settings, ToolName
from agentkit.models.hosted.gemini import GeminiAdapter, GeminiOptions
from agentkit.toolset import Toolset
from tests.agentkit.models.hosted.gemini.talk import (
    FRONT,
    HISTORY,
    LABEL,
    MODEL,
    TOOLSET,
    context,
    finished,
    json_of,
    plan,
    request,
)


@pytest.fixture
def adapter() -> GeminiAdapter:
    return GeminiAdapter(MODEL)


def test_tools_lead_then_the_system_instruction_then_contents_then_volatile_text(
    adapter: GeminiAdapter,
) -> None:
    body = json_of(finished(adapter, request(context().with_volatile("It is noon."))).data)

    assert list(body) == ["tools", "systemInstruction", "contents"]
    declared = body["tools"][0]["functionDeclarations"]
    assert [each["name"] for each in declared] == ["add", "look"]
    assert declared[0]["parametersJsonSchema"] == dict(TOOLSET.specs[0].parameters)
    assert [part["text"] for part in body["systemInstruction"]["parts"]] == [
        "Be honest.",
        "You look and add.",
        "Q: 1+1\nA: 2",
        '<document uri="a.md">\nOne.\n\n</document>',
    ]
    roles = [content["role"] for content in body["contents"]]
    assert roles == ["user", "model", "user", "user", "model", "user", "user"]
    assert body["contents"][-1]["parts"] == [{"text": "It is noon."}]


def test_a_turn_comes_back_in_the_parts_that_it_came_in(adapter: GeminiAdapter) -> None:
    body = json_of(finished(adapter, request(context())).data)

    assert body["contents"][1]["parts"] == [
        {"text": "I should look.", "thought": True},
        {"text": "Two looks. "},
        {
            "functionCall": {"id": "fc-1", "name": "look", "args": {"zoom": 1.0, "path": "aé"}},
            "thoughtSignature": "c2lnbmVk",
        },
        {"functionCall": {"name": "add", "args": {"b": 2, "a": 1}}},
    ]
    assert body["contents"][4]["parts"] == [
        {"text": "A boat."},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]


def test_arguments_are_sent_in_the_models_own_characters(adapter: GeminiAdapter) -> None:
    data = finished(adapter, request(context())).data

    assert b'"args":{ "zoom":1.0,"path" : "a\\u00e9" }' in data
    assert b'"args":{"b":2,"a":1}' in data


@pytest.mark.parametrize("arguments", ['{"a": 1', "[1]", "", '{"a": NaN}', '{"a": "\\ud800"}'])
def test_arguments_that_are_no_json_object_travel_within_one(
    adapter: GeminiAdapter, arguments: str
) -> None:
    turn = AssistantMessage((ToolCall(id="c", name="add", arguments=arguments),))
    answer = ToolMessage((ToolResult(call_id="c", name="add", content="no", is_error=True),))

    body = json_of(finished(adapter, request(Context(UserMessage.of("x"), turn, answer))).data)

    call = body["contents"][1]["parts"][0]["functionCall"]
    assert call["args"] == {"malformed_arguments": arguments}


def test_results_say_what_failed_and_show_attachments_behind_all_answers(
    adapter: GeminiAdapter,
) -> None:
    body = json_of(finished(adapter, request(context())).data)

    assert body["contents"][2]["parts"] == [
        {"functionResponse": {"id": "fc-1", "name": "look", "response": {"output": "a boat"}}},
        {"functionResponse": {"name": "add", "response": {"error": "no"}}},
    ]
    assert body["contents"][3]["parts"] == [
        {"text": "Attached to the result of look:"},
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://x.test/b.jpg"}},
    ]
    assert body["contents"][5]["parts"][1] == {
        "inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}
    }


def test_blocks_and_cache_request_agree(adapter: GeminiAdapter) -> None:
    layout = adapter.layout(request(context().with_volatile("now")))

    assert tuple(wire.block for wire in layout.blocks) == tuple(layout.cache_request.blocks)
    assert [message.role for message in layout.cache_request.messages][:4] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.USER,
    ]
    assert [wire.block.kind for wire in layout.blocks[6:10]] == [
        BlockKind.TEXT,
        BlockKind.IMAGE,
        BlockKind.THINKING,
        BlockKind.TEXT,
    ]
    assert layout.n_volatile == 1
    assert [wire.segment for wire in layout.blocks[:7]] == [1, 1, 0, 2, 3, 4, 5]
    assert layout.blocks[-1].segment is None


def test_what_is_shared_ends_with_the_rules_the_front_and_each_earlier_request(
    adapter: GeminiAdapter,
) -> None:
    reuse = Reuse(turns_left=0)
    layout = adapter.layout(request(context().with_volatile("now"), reuse=reuse))

    assert [(each.end, each.by) for each in layout.shared] == [
        (3, SharedBy.ORGANIZATION),
        (6, SharedBy.AGENT),
        (8, SharedBy.RUN),
        (16, SharedBy.RUN),
        (20, SharedBy.RUN),
    ]
    assert [bool(each.reads) for each in layout.shared] == [True, True, False, False, False]


def test_each_request_of_a_run_extends_the_bytes_of_the_one_before(adapter: GeminiAdapter) -> None:
    earlier: tuple[bytes, ...] = ()
    head = b""
    for n_messages in range(1, len(HISTORY) + 1):
        wanted = request(context(n_messages).with_volatile(f"at {n_messages}"))
        layout = adapter.layout(wanted)
        data = adapter.body(layout, plan(layout), wanted).data
        assert layout.stable[: len(earlier)] == earlier
        assert data.startswith(head)
        earlier = layout.stable
        # Up to the content of the volatile text, which is the last.
        head = data[: data.rindex(b',{"role":"user","parts":[{"text":"at ')]
        assert layout.stable[-1] in head


def test_a_mask_a_choice_settings_and_a_schema_change_no_byte_before_the_end_of_the_contents(
    adapter: GeminiAdapter,
) -> None:
    plain = finished(adapter, request(context())).data
    steered = request(
        context(),
        tool_choice="required",
        allowed_tools=frozenset(("add",)),
        output_schema={"type": "object", "properties": {"z": {}, "a": {}}},
        settings=Settings(temperature=0, top_p=0.5, top_k=4, seed=7, max_tokens=99, stop=("END",)),
    )
    layout = adapter.layout(steered)
    data = adapter.body(layout, plan(layout), steered).data

    assert data.startswith(plain[:-1])
    body = json_of(data)
    assert body["toolConfig"]["functionCallingConfig"] == {
        "mode": "ANY",
        "allowedFunctionNames": ["add"],
    }
    assert body["generationConfig"] == {
        "temperature": 0,
        "topP": 0.5,
        "topK": 4,
        "seed": 7,
        "maxOutputTokens": 99,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"z": {}, "a": {}}},
    }
    assert list(body["generationConfig"]["responseJsonSchema"]["properties"]) == ["z", "a"]


def test_a_mask_is_written_only_where_the_plan_says_so(adapter: GeminiAdapter) -> None:
    masked = request(context(), allowed_tools=frozenset(("look", "gone")))

    assert finished(adapter, masked).data == finished(adapter, request(context())).data
    body = json_of(finished(adapter, masked, mask=masked.allowed_tools).data)
    assert body["toolConfig"]["functionCallingConfig"] == {
        "mode": "VALIDATED",
        "allowedFunctionNames": ["look"],
    }


def test_choices_have_the_apis_words(adapter: GeminiAdapter) -> None:
    def config(**changes: object) -> object:
        body = json_of(finished(adapter, request(context(), **changes)).data)
        return body["toolConfig"]["functionCallingConfig"]

    assert config(tool_choice="none") == {"mode": "NONE"}
    assert config(tool_choice="required") == {"mode": "ANY"}
    assert config(tool_choice=ToolName("add")) == {"mode": "ANY", "allowedFunctionNames": ["add"]}


def test_a_choice_that_no_tool_fits_is_refused_before_anything_is_sent(
    adapter: GeminiAdapter,
) -> None:
    bare = Context(UserMessage.of("x"))

    with pytest.raises(RequestRefused, match="needs a tool"):
        finished(adapter, request(bare, Toolset(), tool_choice="required"))
    assert "toolConfig" not in json_of(
        finished(adapter, request(bare, Toolset(), tool_choice="none")).data
    )


def test_options_of_the_adapter_are_part_of_every_request() -> None:
    options = GeminiOptions(
        thinking_level="low",
        include_thoughts=True,
        media_resolution="high",
        safety={"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"},
    )
    adapter = GeminiAdapter(MODEL, options=options)

    body = json_of(finished(adapter, request(context())).data)

    assert body["generationConfig"] == {
        "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
        "mediaResolution": "MEDIA_RESOLUTION_HIGH",
    }
    assert body["safetySettings"] == [
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}
    ]
    assert adapter.layout(request(context())).cache_request.identity.thinking == "level:low"


def test_empty_text_is_never_sent_and_a_request_without_content_is_refused(
    adapter: GeminiAdapter,
) -> None:
    body = json_of(finished(adapter, request(Context(UserMessage.of("", "x")), Toolset())).data)

    assert body == {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}
    with pytest.raises(RequestRefused, match="something to answer"):
        adapter.layout(request(Context(*FRONT, UserMessage.of(""))))


def test_segments_are_encoded_once(adapter: GeminiAdapter) -> None:
    first = adapter.layout(request(context(3)))
    second = adapter.layout(request(context()))

    for one, other in zip(first.blocks, second.blocks, strict=False):
        assert one is other


def test_layouts_do_not_depend_on_what_was_laid_out_before(adapter: GeminiAdapter) -> None:
    adapter.layout(request(Context(*HISTORY[:1])))
    adapter.layout(request(context(2)))

    assert adapter.layout(request(context())) == GeminiAdapter(MODEL).layout(request(context()))


def test_what_other_vendors_signed_is_left_out(adapter: GeminiAdapter) -> None:
    """C85: a conversation that another vendor's model began has none of its fields here."""
    foreign = AssistantMessage(
        (
            Thinking("hm", "sig-a", "anthropic:claude-sonnet-5-5"),
            VendorItem(source="openai:gpt-6.2-sol", data='{"type":"reasoning","id":"rs_1"}'),
            Thinking("from a sibling", "sig-g", "gemini:gemini-4-argon"),
            Text("Adding."),
            ToolCall(id="toolu_1", name="add", arguments="{}"),
            ToolCall(id="toolu_2", name="add", arguments="{}"),
        )
    )
    results = ToolMessage(
        (
            ToolResult(call_id="toolu_1", name="add", content="0"),
            ToolResult(call_id="toolu_2", name="add", content="0"),
        )
    )
    data = finished(adapter, request(Context(UserMessage.of("x"), foreign, results))).data

    for leaked in (b"sig-a", b"hm", b"rs_1", b"reasoning", b"sig-g", b"cache_control"):
        assert leaked not in data
    # Gemini 3 refuses a call that nobody signed; the first of a turn has the documented stand-in.
    parts = json_of(data)["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [
        None,
        "skip_thought_signature_validator",
        None,
    ]


def test_older_models_are_sent_no_stand_in_for_a_signature() -> None:
    turn = AssistantMessage((ToolCall(id="c", name="add", arguments="{}"),))
    answer = ToolMessage((ToolResult(call_id="c", name="add", content="0"),))
    talk = request(Context(UserMessage.of("x"), turn, answer))

    assert b"thoughtSignature" not in finished(GeminiAdapter("gemini-2.5-flash"), talk).data
    assert b"thoughtSignature" in finished(GeminiAdapter("gemini-3.8-flash"), talk).data


def test_own_signatures_go_back_with_their_parts_and_borders_keep_texts_apart() -> None:
    turn = AssistantMessage(
        (
            Thinking("signed thought", "c2ln", LABEL),
            VendorItem(source=LABEL, data='{"thoughtSignature":"dA=="}'),
            Text("signed"),
            VendorItem(source=LABEL, data="{}"),
            Text("not signed"),
            VendorItem(source=LABEL, data='{"executableCode":{"code":"1"}}'),
        )
    )
    talk = request(Context(UserMessage.of("x"), turn, UserMessage.of("y")))

    body = json_of(finished(GeminiAdapter(MODEL), talk).data)

    assert body["contents"][1]["parts"] == [
        {"text": "signed thought", "thought": True, "thoughtSignature": "c2ln"},
        {"text": "signed", "thoughtSignature": "dA=="},
        {"text": "not signed"},
        {"executableCode": {"code": "1"}},
    ]


def test_a_plan_with_marks_is_an_error(adapter: GeminiAdapter) -> None:
    from agentkit.caching.plan.plan import PlacedMark

    with pytest.raises(ValueError, match="no cache marks"):
        finished(adapter, request(context()), marks=(PlacedMark(index=0),))


def test_bytes_are_the_same_in_every_process(adapter: GeminiAdapter) -> None:
    data = finished(adapter, request(context())).data

    assert data == finished(GeminiAdapter(MODEL), request(Context.load(context().dump()))).data
    assert json.loads(data)
