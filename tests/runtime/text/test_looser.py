"""Tools whose schemas no grammar can be held to: the calls are held to a looser one."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from agentkit.toolset import ToolSpec
from agentkit.toolset.provider_forms import schema_report
from agentkit.toolset.provider_forms.local import UNENFORCED
from agentkit_runtime.chat import ChatRequest, ChatTool
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.looser import UNKNOWN_KEYWORDS, looser
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.toolcalls import HERMES
from tests.runtime.text.generation import generate, random_choice
from tests.runtime.text.test_grammar import NOW, UNENFORCEABLE, Schema, request

WORDS: dict[str, Schema] = {
    "not": {"not": {"required": ["z"]}},
    "if": {"if": {"required": ["a"]}, "then": {"required": ["a"]}, "else": {}},
    "contains": {"properties": {"x": {"type": "array", "contains": {"const": 1}}}},
    "minContains": {"properties": {"x": {"type": "array", "minContains": 0, "maxContains": 9}}},
    "uniqueItems": {"properties": {"x": {"type": "array", "uniqueItems": True}}},
    "dependentRequired": {"dependentRequired": {"a": ["b"]}},
    "dependentSchemas": {"dependentSchemas": {"a": {"required": ["b"]}}},
    "propertyNames": {"propertyNames": {"maxLength": 3}},
    "unevaluatedProperties": {"unevaluatedProperties": False},
    "unevaluatedItems": {"properties": {"x": {"type": "array", "unevaluatedItems": False}}},
}

HUGE = next(each for each in UNENFORCEABLE if len(str(each)) > 50_000)
"""It takes half a minute to find out."""


def tool(schema: Schema, name: str = "f") -> ChatTool:
    return ChatTool(name=name, description="", parameters=schema)


def loose(*tools: ChatTool, loosens: bool = True) -> ChatRequest:
    return replace(request(tools=tools, choice="required"), loosens_tools=loosens)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_the_grammar_does_not_know_is_left_out_and_told_of(
    smollm2_compiler: GrammarCompiler, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        **WORDS[word],
    }
    odd = tool(schema, f"f_{word}")
    with pytest.raises(RequestRejected, match="Unimplemented"):
        smollm2_compiler.compile_for(loose(odd, loosens=False), HERMES)

    with caplog.at_level(logging.WARNING, "agentkit_runtime.text"):
        for _ in range(2):
            assert smollm2_compiler.compile_for(loose(odd), HERMES) is not None

    (line,) = [each.getMessage() for each in caplog.records]
    assert f"f_{word}" in line
    told = {note.keyword for note in schema_report(_spec(schema), "local")}
    assert word in told


def _spec(schema: Schema) -> ToolSpec:
    return ToolSpec(name="f", description="", parameters=schema)


def test_both_packages_know_the_same_words() -> None:
    assert UNENFORCED == UNKNOWN_KEYWORDS


@pytest.mark.parametrize("schema", [each for each in UNENFORCEABLE if each is not HUGE])
def test_whatever_a_tools_schema_is_calls_are_held_to_an_object_at_least(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, schema: Schema
) -> None:
    asked = loose(NOW, tool(schema))
    grammar = smollm2_compiler.compile_for(asked, HERMES)
    assert grammar is not None

    ids, ended = generate(smollm2, grammar, random_choice(smollm2, 3))

    assert ended
    text = b"".join(map(smollm2.token_bytes, ids)).decode()
    call = json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>").strip())
    assert isinstance(call["arguments"], dict)


def test_what_the_grammar_knows_is_still_kept_to(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    odd = tool(
        {
            "type": "object",
            "properties": {
                "kind": {"oneOf": [{"const": "a"}, {"const": "b"}, {"enum": ["a", "c"]}]},
                "word": {"type": "string", "pattern": "^(?=a)b$", "maxLength": 4},
            },
            "required": ["kind", "word"],
        }
    )
    for seed in range(5):
        grammar = smollm2_compiler.compile_for(loose(odd), HERMES)
        assert grammar is not None
        ids, _ = generate(smollm2, grammar, random_choice(smollm2, seed))
        text = b"".join(map(smollm2.token_bytes, ids)).decode()
        call = json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>").strip())
        assert call["arguments"]["kind"] in ("a", "b", "c")
        assert len(call["arguments"]["word"]) <= 4


def test_other_tools_of_the_request_are_held_to_their_schemas_as_before(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    steps = list(looser({"not": {}, "type": "object"}))
    assert [dict(step.parameters) for step in steps] == [
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
    ]
    good = tool({"type": "object", "properties": {"n": {"const": 7}}, "required": ["n"]}, "good")
    asked = loose(tool({"not": {}, "type": "object"}, "bad"), good)
    seen = set()
    for seed in range(12):
        grammar = smollm2_compiler.compile_for(asked, HERMES)
        assert grammar is not None
        ids, _ = generate(smollm2, grammar, random_choice(smollm2, seed))
        text = b"".join(map(smollm2.token_bytes, ids)).decode()
        call = json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>").strip())
        seen.add(call["name"])
        assert call["name"] != "good" or call["arguments"] == {"n": 7}
    assert "good" in seen
