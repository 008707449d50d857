"""Results of MCP calls as text for the model."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.blocks import File, Image, ToolMessage, ToolResult
from agentkit.context import Segment
from agentkit.toolset import ToolOutput
from agentkit.toolset.mcp.calls.outputs import OutputSchema, PromisedOutputs
from agentkit.toolset.mcp.calls.results import cut, to_tool_output
from tests.agentkit.pictures import pdf, png, text


def blocks(*texts: str) -> list[dict]:
    return [{"type": "text", "text": text} for text in texts]


def shown(**result: object) -> ToolOutput:
    return to_tool_output(result, 10_000)


@pytest.mark.parametrize(
    ("texts", "structured", "content"),
    [
        (["a", "b"], None, "a\nb"),
        ([], None, "ok"),
        ([], {"b": 1, "a": [1, 2]}, '{"b":1,"a":[1,2]}'),
        (['{\n  "b": 1,\n  "a": 2\n}'], {"b": 1, "a": 2}, '{"b":1,"a":2}'),
        (["plain words"], {"result": "plain words"}, "plain words"),
        (["3"], {"result": 3}, "3"),
        (["x", "y"], {"result": ["x", "y"]}, "x\ny"),
        (["1", "2"], {"result": [1, 2]}, "[1,2]"),
        (['{"a": 1}', '{"a": 2}'], {"result": [{"a": 1}, {"a": 2}]}, '[{"a":1},{"a":2}]'),
        (["21 degrees"], {"celsius": 21}, '21 degrees\n{"celsius":21}'),
        (["nan"], {"x": math.nan}, 'nan\n{"x":"NaN"}'),
        (["caf\ud83d"], None, "caf?"),
    ],
)
def test_text_and_structured_content_are_shown_once(texts, structured, content):
    result: dict[str, object] = {"content": blocks(*texts)}
    if structured is not None:
        result["structuredContent"] = structured
    assert shown(**result).content == content


def test_an_error_keeps_text_and_structured_content():
    output = shown(content=blocks("quota exceeded"), structuredContent={"retry_s": 5}, isError=True)
    assert (output.is_error, output.content) == (True, 'quota exceeded\n{"retry_s":5}')
    assert output.structured == {"retry_s": 5}
    assert shown(content=[], isError=True) == ToolOutput.error("The tool failed without a message.")


def test_what_is_not_text_leaves_a_note_and_keeps_its_data():
    content = [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA", "mimeType": "x/y"}},
        {"type": "video", "data": "?"},
        {"type": "text"},
        "nonsense",
    ]
    output = shown(content=content)
    assert output.content.splitlines() == [
        "see",
        "[image: image/png, 3 bytes, not shown: its bytes are no PNG, JPEG, GIF or WebP]",
        "[audio: audio/wav, 6 bytes, not shown]",
        "[resource file:///a: a]",
        "[resource file:///b: unknown type]",
        "inside",
        "[resource file:///c: x/y, 3 bytes, not shown]",
        "[content of type 'video', not shown]",
        "[text block without text]",
        "[content of type 'unknown', not shown]",
    ]
    assert output.blocks[0] == content[1]
    assert len(output.blocks) == 7


def test_malformed_and_unanswerable_results_are_errors():
    assert shown(content="words").is_error
    assert "input from a person" in shown(resultType="input_required").content


def test_a_result_of_a_kind_that_nobody_knows_is_no_success():
    begun = shown(resultType="task", taskId="7")
    assert begun.is_error
    assert "result of the kind 'task'" in begun.content
    assert shown(resultType=["x"]).is_error
    assert shown(resultType="complete").content == "ok"
    told = shown(resultType="own", content=[{"type": "text", "text": "done"}])
    assert (told.content, told.is_error) == ("done", False)


@pytest.mark.parametrize("size", [10_000, 10_001, 50_000])
def test_a_long_result_is_cut_to_head_and_tail_within_the_limit(size):
    text = "a" * (size // 2) + "z" * (size - size // 2)
    result = cut(text, 10_000)
    assert len(result) <= 10_000
    if size == 10_000:
        assert result == text
    else:
        assert f"{size} characters in all" in result
        assert result.startswith("aaa")
        assert result.endswith("zzz")


def test_endless_nesting_is_an_error_for_the_model():
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    output = shown(content=blocks("t"), structuredContent={"a": deep})
    assert output == ToolOutput.error(
        "The server sent a result that is nested too deeply to be read."
    )


def image(data: str, mime: str = "image/png") -> dict:
    return {"type": "image", "data": data, "mimeType": mime}


def blob(data: str, mime: str, uri: str = "file:///docs/report") -> dict:
    return {"type": "resource", "resource": {"uri": uri, "blob": data, "mimeType": mime}}


def test_images_and_pdfs_are_attached_by_what_their_bytes_are():
    raw = png(3, 5)
    output = shown(
        content=[
            image(text(raw), "image/jpeg"),
            blob(text(raw), "application/octet-stream"),
            blob(text(pdf()), "application/pdf"),
        ]
    )
    picture = Image(media_type="image/png", data=text(raw), width=3, height=5)
    document = File.of_bytes(pdf(), "application/pdf", name="report.pdf")
    assert output.attachments == (picture, picture, document)
    assert output.content.splitlines() == [
        f"[image: image/png, {len(raw)} bytes, attached]",
        f"[resource file:///docs/report: image/png, {len(raw)} bytes, attached]",
        f"[resource file:///docs/report: application/pdf, {len(pdf())} bytes, attached]",
    ]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (image("not base64!"), "its bytes are no base64"),
        (image(text(png())[:-8]), "no whole image/png"),
        (image(text(b"<svg xmlns='x'/>"), "image/svg+xml"), "no PNG, JPEG, GIF or WebP"),
        ({"type": "image", "mimeType": "image/png"}, "there are no bytes"),
        ({"type": "image", "data": ["x"], "mimeType": 5}, "unknown type, no data, not shown]"),
        (blob(text(b"hello"), "application/pdf"), "no whole PDF"),
    ],
)
def test_an_image_that_lies_about_itself_is_a_note(block, reason):
    """In a context that only grows, one that a provider refuses would fail every later request."""
    output = shown(content=[block])
    assert output.attachments == ()
    assert reason in output.content
    assert output.blocks == (block,)


def test_attachments_are_bounded_in_size_and_number():
    one = image(text(png()))
    few = to_tool_output({"content": [one] * 3}, 10_000, 2 * len(png()))
    assert len(few.attachments) == 2
    assert "bytes, of" in few.content.splitlines()[2]
    many = shown(content=[one] * 30)
    assert len(many.attachments) == 20
    assert many.content.count("more than 20") == 10


def test_images_that_are_made_to_take_time_do_not_take_it():
    """Each inflated to 32 MB, and those that were refused then did not count: a minute."""
    bomb = image(text(png(9_000, 2_000)))
    began_s = time.process_time()
    output = to_tool_output({"content": [bomb] * 120}, 100_000)
    assert time.process_time() - began_s < 2
    assert output.attachments == ()
    assert output.content.count("9000 x 2000 pixels") == 100
    assert output.content.count("100 others were refused already") == 20


def test_text_that_comes_as_bytes_is_read():
    json_text = text(b'{"a": 1}')
    output = shown(
        content=[
            blob(text("café".encode()), "text/plain; charset=utf-8"),
            blob(json_text, "application/json"),
        ]
    )
    assert output.content.splitlines() == [
        "[resource file:///docs/report: text/plain; charset=utf-8]",
        "café",
        "[resource file:///docs/report: application/json]",
        '{"a": 1}',
    ]
    broken = shown(content=[blob("!", "text/plain")])
    assert broken.content == "[resource file:///docs/report: text/plain, 0 bytes, not shown]"


def test_what_is_for_the_user_only_is_kept_from_the_model():
    private = {"type": "text", "text": "secret", "annotations": {"audience": ["user"]}}
    for_both = {"type": "text", "text": "open", "annotations": {"audience": ["user", "assistant"]}}
    output = shown(
        content=[
            private,
            for_both,
            {**image(text(png())), **{"annotations": {"audience": ["user"]}}},
        ]
    )
    assert (
        output.content
        == "[text for the user only, not shown]\nopen\n[image for the user only, not shown]"
    )
    assert output.attachments == ()
    assert private in output.blocks


def test_an_image_beside_structured_content_does_not_say_it_twice():
    output = shown(content=[*blocks('{"a": 1}'), image(text(png()))], structuredContent={"a": 1})
    assert output.content.splitlines() == [
        '{"a":1}',
        f"[image: image/png, {len(png())} bytes, attached]",
    ]


def test_labels_of_a_server_are_short_and_on_one_line():
    link = {"type": "resource_link", "uri": "x" * 9999 + "\n\x1b[31m", "name": "a\nb\ud800"}
    content = [link, {"type": "new\nkind" * 999}, *[{"type": "?"}] * 2000]
    output = to_tool_output({"content": content}, 1_000_000)
    lines = output.content.splitlines()
    assert len(lines) == 1001
    assert max(map(len, lines)) < 1200
    assert "\x1b" not in output.content
    assert lines[-1] == "[1002 more blocks, not shown]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
DATA = st.sampled_from([text(png()), text(pdf()), "", "!", "AAAA", 5, None])
BLOCK = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "video"])},
        optional={
            "text": JSON,
            "data": DATA,
            "mimeType": JSON | st.sampled_from(["image/png", "application/pdf"]),
            "annotations": JSON | st.just({"audience": ["user"]}),
            "uri": JSON,
            "name": JSON,
            "resource": JSON
            | st.fixed_dictionaries(
                {}, optional={"uri": JSON, "text": JSON, "blob": DATA, "mimeType": JSON}
            ),
        },
    ),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "content": JSON | st.lists(BLOCK, max_size=5),
            "structuredContent": JSON,
            "isError": JSON,
            "resultType": JSON,
        },
    ),
    st.integers(1, 300),
)
def test_any_result_is_bounded_printable_and_can_be_part_of_a_conversation(result, max_chars):
    output = to_tool_output(result, max_chars)
    assert 0 < len(output.content) <= max(max_chars, 100)
    message = ToolMessage(
        (ToolResult(call_id="c", name="n", content=output.content, attachments=output.attachments),)
    )
    assert Segment.from_data(Segment(message).data).content == message
    json.dumps(output.structured, allow_nan=False)


def test_ten_megabytes_of_result_are_cut_before_anything_else_sees_them():
    """M41: huge results blew up the context."""
    output = shown(content=blocks("x" * 10_000_000), structuredContent={"result": "x" * 10_000_000})
    assert len(output.content) == 10_000
    assert "10000000 characters in all" in output.content


SCHEMA = {
    "type": "object",
    "properties": {"celsius": {"type": "number"}},
    "required": ["celsius"],
}


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"structuredContent": {"celsius": 21}}, None),
        ({"structuredContent": {"celsius": "warm"}}, "celsius: 'warm' is not of type 'number'"),
        ({"structuredContent": {}}, "the whole: 'celsius' is a required property"),
        ({"structuredContent": [1]}, "the whole: [1] is not of type 'object'"),
        ({"content": []}, "no structured content"),
        ({"content": [], "isError": True}, None),
    ],
)
def test_a_result_is_held_against_what_its_tool_promises(result, problem):
    found = OutputSchema(SCHEMA).problem_with(result)
    assert (found is None) == (problem is None)
    assert problem is None or problem in found


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"$ref": "http://127.0.0.1:1/x"},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"patternProperties": {"(a+)+$": {}}, "additionalProperties": False},
        {"description": "x" * 200_000},
    ],
)
def test_a_schema_that_cannot_be_checked_promises_nothing(schema):
    promised = OutputSchema(schema)
    for _ in range(2):
        assert promised.problem_with({"structuredContent": {"a" * 40 + "!": 1}}) is None


def test_a_schema_cannot_keep_the_check_busy():
    level = {"anyOf": [{"$ref": "#/$defs/l1"}] * 2}
    bomb = {
        "$defs": {f"l{i}": {"anyOf": [{"$ref": f"#/$defs/l{i + 1}"}] * 2} for i in range(1, 40)}
    }
    bomb["$defs"]["l40"] = {"type": "string"}
    began_s = time.process_time()
    assert OutputSchema({**bomb, **level}).problem_with({"structuredContent": 1}) is None
    pattern = {"type": "string", "pattern": "(a+)+$"}
    assert OutputSchema(pattern).problem_with({"structuredContent": "a" * 50 + "!"}) is None
    many = {"type": "array", "uniqueItems": True}
    assert (
        OutputSchema(many).problem_with({"structuredContent": [{"a": i} for i in range(9999)]})
        is None
    )
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize(
    ("items", "item"),
    [
        ({"enum": [{"a": number} for number in range(6_000)]}, {"a": 5_999}),
        ({"properties": {f"p{number}": {} for number in range(2_000)}}, {}),
        ({"dependentRequired": {f"p{number}": [] for number in range(2_000)}}, {}),
    ],
)
def test_what_a_keyword_holds_counts_as_work(items, item):
    """An enum of thousands for a list of thousands held up the event loop for minutes."""
    promised = OutputSchema({"properties": {"all": {"items": items}}})
    values = [item] * (190_000 // (len(json.dumps(item)) + 2))
    started = time.process_time()
    assert promised.problem_with({"structuredContent": {"all": values}}) is None
    assert time.process_time() - started < 10


def test_a_list_of_choices_is_checked_as_ever():
    promised = OutputSchema({"items": {"enum": [f"country {number}" for number in range(200)]}})
    problem = promised.problem_with({"structuredContent": ["country 199"] * 300 + ["none"]})
    assert problem is not None
    assert problem.startswith("300: ")


def test_promises_are_learnt_from_lists_and_forgotten_with_them():
    promised = PromisedOutputs()
    promised.learn(
        [{"name": "t", "outputSchema": SCHEMA}, "junk", {"name": 5}, {"outputSchema": {}}]
    )
    promised.learn("junk")
    assert promised.problem_with("t", {"structuredContent": {}})
    assert promised.problem_with("other", {"structuredContent": {}}) is None
    promised.learn([{"name": "t"}])
    assert promised.problem_with("t", {"structuredContent": {}}) is None
