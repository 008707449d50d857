"""How each named split cuts text. The expected pieces are read off the models' published rules."""

from __future__ import annotations

import pytest

from agentkit_runtime.errors import UnsupportedModel
from agentkit_runtime.text.pretokenizers import SPLIT_RULES, split_rule

SAMPLE = "I'LL pay 12345 euro\r\n\n  for xY"


def pieces(name: str, text: str) -> list[str]:
    cut = split_rule(name).build().pre_tokenize_str(text)
    return [text[start:end] for _, (start, end) in cut]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "gpt-2",
            ["I", "'", "LL", " pay", " 12345", " euro", "\r\n\n ", " for", " xY"],
        ),
        (
            "smollm",
            ["I", "'", "LL", " pay", " ", *"12345", " euro", "\r\n\n ", " for", " xY"],
        ),
        (
            "llama-bpe",
            ["I", "'LL", " pay", " ", "123", "45", " euro", "\r\n\n", " ", " for", " xY"],
        ),
        (
            "qwen2",
            ["I", "'LL", " pay", " ", *"12345", " euro", "\r\n\n", " ", " for", " xY"],
        ),
        (
            "tekken",
            ["I", "'LL", " pay", " ", *"12345", " euro", "\r\n\n", " ", " for", " x", "Y"],
        ),
        (
            "deepseek-v3",
            ["I", "'LL", " pay", " ", "123", "45", " euro", "\r\n\n", " ", " for", " xY"],
        ),
    ],
)
def test_text_is_cut_by_the_named_rule(name: str, expected: list[str]) -> None:
    assert pieces(name, SAMPLE) == expected


@pytest.mark.parametrize("name", sorted(SPLIT_RULES))
def test_no_rule_loses_a_character(name: str) -> None:
    text = SAMPLE + " 東京 — naïve ¼ \u0e01\u0e34 🙂‍🙂\t\x00 ſ 'ſ £5"
    assert "".join(pieces(name, text)) == text


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedModel, match=r"'mystery'.*smollm"):
        split_rule("mystery")
