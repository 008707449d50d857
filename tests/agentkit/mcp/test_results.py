"""Results of MCP calls as text for the model."""

from __future__ import annotations

import math

import pytest

from agentkit.toolset import ToolOutput
from agentkit.toolset.mcp.results import cut, to_tool_output


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
