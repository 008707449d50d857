"""Free text in and out of the arguments of a call."""

from __future__ import annotations

import json
import random

import pytest
from llguidance import LLMatcher, LLTokenizer

from agentkit_runtime.api.openai.custom import InputReader, arguments_of, custom_tool, input_of
from agentkit_runtime.text.lark import lark_schema

TEXTS = [
    "",
    "plain",
    'a "b" \\ c/d',
    "l1\nl2\r\t\x08\x0c\x01\x7f",
    "naïve 東京 🙂\u2028",
    '"}',
    "\\u0041",
]


def in_pieces(arguments: str, rng: random.Random) -> str:
    reader, told, at = InputReader(), "", 0
    while at < len(arguments):
        step = rng.randint(1, 4)
        told += reader.read(arguments[at : at + step])
        at += step
    return told + reader.finish()


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_however_its_arguments_arrive(text: str) -> None:
    rng = random.Random(7)
    for arguments in (
        arguments_of(text),
        json.dumps({"input": text}),
        f' {{ "input" :{json.dumps(text)} }}',
    ):
        assert input_of(arguments) == text
        assert {in_pieces(arguments, rng) for _ in range(20)} == {text}


@pytest.mark.parametrize("text", TEXTS)
def test_arguments_are_spelled_as_the_grammar_engine_takes_them(text: str) -> None:
    shown = custom_tool("pick", None, None)
    grammar = LLMatcher.grammar_from_lark(f"start: {lark_schema(dict(shown.parameters))}")
    matcher = LLMatcher(LLTokenizer("byte"), grammar)
    whole = [*arguments_of(text).encode()]

    assert matcher.try_consume_tokens(whole) == len(whole), text


def test_a_text_is_told_before_it_is_whole() -> None:
    reader = InputReader()

    assert [reader.read(part) for part in ('{"inp', 'ut": "ab', "c\\", 'n"}')] == [
        "",
        "ab",
        "c",
        "\n",
    ]


@pytest.mark.parametrize("half", ["\\ud83d", "\\ud83dx", "\\ude42"])
def test_half_a_character_ends_the_text_and_is_none_of_it(half: str) -> None:
    assert input_of(f'{{"input": "a{half}b"}}') == "a"


@pytest.mark.parametrize("arguments", ["{}", '{"text": "a"}', '{"input": 5}', "[1]", ""])
def test_other_arguments_are_the_input_themselves(arguments: str) -> None:
    assert input_of(arguments) == arguments


def test_what_is_cut_off_ends_with_the_last_whole_character() -> None:
    assert input_of('{"input": "ab\\u00') == "ab"
