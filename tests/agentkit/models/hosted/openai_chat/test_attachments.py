"""Images and files, in messages and in results."""

from __future__ import annotations

import pytest

from agentkit.blocks import (
    File,
    Image,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from agentkit.context import Context
from agentkit.errors import RequestRefused
from agentkit.models.hosted.openai_chat import (
    DEEPSEEK,
    OPENAI,
    VLLM,
)
from agentkit.toolset import Toolset
from tests.agentkit.models.hosted.openai_chat.talk import QUESTION, adapter, calls, sent
from tests.agentkit.models.hosted.weather import request


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
