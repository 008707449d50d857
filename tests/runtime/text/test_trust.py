"""Strings from outside never become special tokens, and nothing else about them changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.trust import NONCHARACTERS, Marker, choose_mark

SPECIAL = ("<|im_start|>", "<|im_end|>", "<s>", "a><s", "</s>")
MARK = NONCHARACTERS[0]
PIECES = ("<|im_start|>", "<|im_end|>", "<|im", "_end|>", "<", "|>", "<s", ">", "a><s>", "x", " ")
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@given(text=HOSTILE)
def test_no_special_text_survives_marking(text: str) -> None:
    marked = Marker(SPECIAL).mark(text, MARK)
    assert not any(special in marked for special in SPECIAL)
    assert marked.replace(MARK, "") == text


@given(first=HOSTILE, second=HOSTILE)
def test_marked_strings_put_together_hold_no_special_text_either(first: str, second: str) -> None:
    marker = Marker(SPECIAL)
    joined = marker.mark(first, MARK) + marker.mark(second, MARK)
    assert not any(special in joined for special in SPECIAL)


def test_text_that_holds_nothing_special_is_not_touched() -> None:
    assert Marker(SPECIAL).mark("x > y, s < t.", MARK) == "x > y, s < t."


def test_without_special_tokens_nothing_is_marked() -> None:
    assert Marker(()).mark("<s>", MARK) == "<s>"


def test_the_mark_is_a_character_that_occurs_nowhere() -> None:
    assert choose_mark(["a", NONCHARACTERS[1], NONCHARACTERS[0]]) == NONCHARACTERS[2]
    assert choose_mark([]) == NONCHARACTERS[0]


def test_text_with_all_noncharacters_is_refused() -> None:
    with pytest.raises(RequestRejected, match="noncharacters"):
        choose_mark(["".join(NONCHARACTERS)])
