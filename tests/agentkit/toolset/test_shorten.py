"""Long texts in part."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset.shorten import end_near, gap_in, line_at, n_lines

TEXTS = st.text(alphabet=st.sampled_from("ab ,\n\r\u0301\u200d\ufe0f😀"), min_size=30, max_size=400)


@given(text=TEXTS, shown=st.integers(0, 29))
def test_what_is_shown_is_the_texts_own_head_and_tail_and_no_longer_than_asked(
    text: str, shown: int
) -> None:
    gap = gap_in(text, shown)
    assert 0 <= gap.start <= gap.end <= len(text)
    assert gap.start + len(text) - gap.end <= shown
    head, tail = gap.around("NOTE").split("NOTE\n", 1)
    assert head.removesuffix("\n") == text[: gap.start].removesuffix("\n")
    assert tail == text[gap.end :]


@given(text=TEXTS, size=st.integers(1, 50))
def test_pages_follow_each_other_without_gaps_and_end(text: str, size: int) -> None:
    pages, start = [], 0
    while start < len(text):
        end = end_near(text, start, start + size)
        assert start < end <= start + size
        pages.append(text[start:end])
        start = end
    assert "".join(pages) == text


def test_lines_stay_whole_where_there_are_lines() -> None:
    text = "".join(f"line {n}: some words\n" for n in range(200))
    gap = gap_in(text, 1_000)
    head, tail = gap.around("NOTE").split("NOTE\n")
    assert head.endswith(" some words\n")
    assert tail.startswith("line 1")
    assert gap.size.endswith(
        f"(lines {head.count(chr(10)) + 1} to {200 - tail.count(chr(10))} of 200)"
    )


def test_elements_of_json_stay_whole() -> None:
    text = json.dumps([{"id": n, "name": "x" * 10} for n in range(500)], separators=(",", ":"))
    gap = gap_in(text, 1_000)
    assert text[gap.start - 1] == ","
    assert text[gap.end - 1] == ","


def test_an_accent_stays_with_its_letter() -> None:
    text = "e\u0301" * 500
    for shown in range(300, 310):
        gap = gap_in(text, shown)
        assert text[gap.start] == "e"
        assert text[gap.end] == "e"


def test_lines_are_counted_as_readers_do() -> None:
    assert [n_lines("a"), n_lines("a\n"), n_lines("a\nb")] == [1, 1, 2]
    assert [line_at("a\nb", 0), line_at("a\nb", 1), line_at("a\nb", 2)] == [1, 1, 2]
