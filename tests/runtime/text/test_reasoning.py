"""Thinking is told from the answer, however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.chat import ContentDelta, ReasoningDelta
from agentkit_runtime.text.reasoning import (
    ReasoningParser,
    ReasoningTags,
    opens_reasoning,
    reasoning_tags,
)

TAGS = ReasoningTags("<think>", "</think>")


def parsed(pieces: list[str], *, is_open: bool = False) -> tuple[str, str]:
    """What was thought, and what was answered."""
    parser = ReasoningParser(TAGS, is_open=is_open)
    events = [event for piece in pieces for event in parser.push(piece)]
    events += parser.finish()
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    return thought, "".join(event.text for event in events if isinstance(event, ContentDelta))


@pytest.mark.parametrize(
    ("text", "is_open", "thought", "answer"),
    [
        ("<think>\nTwo and two.\n</think>\n\nFour.", False, "Two and two.", "Four."),
        ("<think>\n\n</think>\n\nFour.", False, "", "Four."),
        ("Four.", False, "", "Four."),
        ("  Four.", False, "", "  Four."),
        ("Two and two.\n</think>\nFour.", True, "Two and two.", "Four."),
        ("<think>Two and two.</think>Four.", True, "Two and two.", "Four."),
        ("<think>Two and", False, "Two and", ""),
        ("Two and </thi", True, "Two and </thi", ""),
        ("<thinking>no tag</thinking>", False, "", "<thinking>no tag</thinking>"),
        ("I write <think>a</think>.", False, "", "I write <think>a</think>."),
        ("<think>a</think>b<think>c</think>", False, "a", "b<think>c</think>"),
        ("<think>a < b </think> c ", False, "a < b", "c "),
        ("", False, "", ""),
        (" \n", False, "", " \n"),
        (" \n", True, "", ""),
    ],
)
def test_thinking_and_answer_are_told_apart(
    text: str, is_open: bool, thought: str, answer: str
) -> None:
    assert parsed([text], is_open=is_open) == (thought, answer)


_WORDS = st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", ">", " ", "\n", "a", "<"])


@given(st.lists(_WORDS, max_size=12), st.data(), st.booleans())
def test_every_split_of_the_text_gives_the_same(
    words: list[str], data: st.DataObject, is_open: bool
) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert parsed(pieces, is_open=is_open) == parsed([text], is_open=is_open)


def test_an_answer_is_not_held_back() -> None:
    parser = ReasoningParser(TAGS)
    parser.push("<think>a</think>")

    assert parser.push("b") == [ContentDelta("b")]


def test_the_template_says_whether_a_family_thinks() -> None:
    assert reasoning_tags("{{ content.split('</think>')[-1] }}") == TAGS
    assert reasoning_tags("[THINK]{{ thinking }}[/THINK]") == ReasoningTags("[THINK]", "[/THINK]")
    assert reasoning_tags("{{ content }}") is None


def test_a_prompt_may_have_begun_the_thinking() -> None:
    assert opens_reasoning("<|im_start|>assistant\n<think>\n", TAGS)
    assert not opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n", TAGS)
