"""Calls in Python: what the grammar allows, when it wakes, and which JSON literals are read as."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest
import torch
from jsonschema import Draft202012Validator

from agentkit_runtime.chat import (
    ChatMessage,
    ChatRequest,
    ChatTool,
    ChatToolCall,
    ToolCallArguments,
    ToolCallStart,
    ToolChoice,
)
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.python_literals import json_of
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.toolcalls import LLAMA3, PYTHONIC, ToolCallParser, ToolFormat
from agentkit_runtime.types import Grammar
from tests.runtime.text import templates
from tests.runtime.text.generation import generate, random_choice
from tests.runtime.text.replaying import say_ids

Schema = dict[str, object]
TEXT: Schema = {"type": "string", "maxLength": 40}
MIXED: Schema = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "n": {"type": "integer"},
        "flag": {"type": "boolean"},
        "level": {"enum": ["low", 3, None]},
        "note": {"type": ["string", "null"], "maxLength": 40},
        "rows": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["n", "note"],
}
NOW = ChatTool(name="now", description="", parameters={})


OPEN: Schema = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 3}},
    "additionalProperties": {"type": "integer"},
    "maxProperties": 3,
}


def tool(schema: Schema) -> ChatTool:
    return ChatTool(name="f", description="", parameters=schema)


def grammar_for(
    compiler: GrammarCompiler,
    *tools: ChatTool,
    choice: ToolChoice = "required",
    tool_format: ToolFormat = PYTHONIC,
) -> Grammar:
    asked = ChatRequest(
        messages=(ChatMessage(role="user", content="x"),),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=True,
    )
    grammar = compiler.compile_for(asked, tool_format)
    assert grammar is not None
    return grammar


def refused_at(tokenizer: Tokenizer, grammar: Grammar, text: str) -> str | None:
    """What is left of `text` where the grammar refuses it; None if it may be said."""
    ids = tokenizer.encode(text)
    for n, token_id in enumerate(ids):
        logits = torch.zeros(tokenizer.vocab_size)
        grammar.apply(logits)
        if logits[token_id] == -math.inf:
            return tokenizer.decode(ids[n:])
        grammar.accept(token_id)
    return None


@pytest.mark.parametrize(
    ("schema", "text", "is_allowed"),
    [
        (MIXED, '[f(n=1, note="x")]', True),
        (MIXED, '[f(name="a", n=1, flag=False, level=None, note=None, rows=[true])]', True),
        (MIXED, '[f(n=1, level="low", note=""), now(), f(n=2, note=None)]', True),
        (MIXED, "[f(n=1)]", False),
        (MIXED, '[f(note="x", n=1)]', False),
        (MIXED, '[f(n="1", note="x")]', False),
        (MIXED, '[f(n=1, flag=true, note="x")]', False),
        (MIXED, '[f(n=1, level="high", note="x")]', False),
        (MIXED, '[f(n=1, note="x", other=1)]', False),
        (MIXED, "[g(", False),
        (MIXED, "Hello", False),
        ({"type": "object", "properties": {"a": TEXT, "b": TEXT}}, "[f()]", True),
        ({"type": "object", "properties": {"a": TEXT, "b": TEXT}}, '[f(b="x")]', True),
        ({"type": "object", "properties": {"a": TEXT, "b": TEXT}}, '[f(, b="x")]', False),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "[f(x=1, y=2)]", True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "[f()]", True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, '[f(x="1")]', False),
        (OPEN, "[f(n=1, x=2)]", True),
        (OPEN, "[f(n=1, n=7)]", False),
        (OPEN, "[f(x=1, y=2, z=3, v=4)]", False),
        (OPEN, "[f(n=1, x=2, y=3)]", True),
        ({}, "[f()]", True),
        ({}, "[f(x=1)]", False),
    ],
)
def test_a_forced_call_is_held_to_the_tools_schema(
    smollm2: Tokenizer,
    smollm2_compiler: GrammarCompiler,
    schema: Schema,
    text: str,
    is_allowed: bool,
) -> None:
    grammar = grammar_for(smollm2_compiler, tool(schema), NOW)
    assert (refused_at(smollm2, grammar, text) is None) is is_allowed
    assert grammar.done is is_allowed


def test_any_choices_of_tokens_give_arguments_that_fit(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    for seed in range(6):
        grammar = grammar_for(smollm2_compiler, tool(MIXED))
        ids, ended = generate(smollm2, grammar, random_choice(smollm2, seed))
        assert ended
        parser = ToolCallParser(PYTHONIC)
        events = parser.push(smollm2.decode(ids)) + parser.finish()
        starts = [event for event in events if isinstance(event, ToolCallStart)]
        assert starts
        for start in starts:
            said = "".join(
                event.text
                for event in events
                if isinstance(event, ToolCallArguments) and event.index == start.index
            )
            Draft202012Validator(MIXED).validate(json.loads(said))


@pytest.mark.parametrize(
    "text",
    [
        "[1] says so.",
        "[link](https://a.b)",
        "[f",
        "[f]",
        "[nowhere(x=1)]",
        "Well, [now(x=1)]",
        " [now(x",
    ],
)
def test_text_that_begins_with_a_bracket_stays_free(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, text: str
) -> None:
    grammar = grammar_for(smollm2_compiler, tool(MIXED), NOW, choice="auto")
    assert refused_at(smollm2, grammar, f"{text} And [now(x=1)]") is None


@pytest.mark.parametrize(("text", "left"), [("[now(x=1)]", "x=1)]"), ('[f(n="1")]', '="1")]')])
def test_a_tools_name_behind_the_bracket_puts_its_schema_in_force(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, text: str, left: str
) -> None:
    grammar = grammar_for(smollm2_compiler, tool(MIXED), NOW, choice="auto")
    assert refused_at(smollm2, grammar, text) == left


def test_a_name_that_python_cannot_have_is_refused(smollm2_compiler: GrammarCompiler) -> None:
    schema: Schema = {"type": "object", "properties": {"a b": TEXT}}
    with pytest.raises(RequestRejected, match="'a b'") as caught:
        grammar_for(smollm2_compiler, NOW, tool(schema))
    assert caught.value.field == "tools[1].parameters"


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ('"a\\u00e9"', '"a\\u00e9"'),
        ("[1,  2.50]", "[1,  2.50]"),
        ("'a\"b'", '"a\\"b"'),
        (r"'\x41\u0042\U00000043\n\d\'\\'", '"ABC\\n\\\\d\'\\\\"'),
        (r"'\ud800'", '"\N{REPLACEMENT CHARACTER}"'),
        ("True", "true"),
        ("[True, None, (1, 'x')]", '[true, null, [1, "x"]]'),
        ("{'a': {'True': False}}", '{"a": {"True": false}}'),
        ("NaN", '"NaN"'),
        ("{1: 2}", '"{1: 2}"'),
        ("len(x)", '"len(x)"'),
        ("'open", '"\'open"'),
        ("[" * 100_000, json.dumps("[" * 100_000)),
    ],
)
def test_a_literal_is_read_as_json_and_what_is_none_as_text(literal: str, expected: str) -> None:
    assert json_of(literal) == expected
    assert json.loads(json_of(literal)) == json.loads(expected)


TAG = "<|python_tag|>"


@pytest.fixture(scope="module")
def tagged(smollm2_metadata: Mapping[str, object]) -> Tokenizer:
    """A vocabulary that has Llama's mark for code."""
    tokens = list(smollm2_metadata["tokenizer.ggml.tokens"])  # type: ignore[call-overload]
    tokens[3] = TAG
    return Tokenizer.from_gguf({**smollm2_metadata, "tokenizer.ggml.tokens": tokens})


def test_a_call_behind_llamas_mark_for_code_is_held_to_the_schema(tagged: Tokenizer) -> None:
    compiler = GrammarCompiler(tagged)
    begun = [3, *tagged.encode('{"name": "f", "parameters": {"n": ')]
    grammar = grammar_for(compiler, tool(MIXED), choice="auto", tool_format=LLAMA3)
    say_ids(grammar, begun)
    assert grammar.acceptable(tagged.encode('"1"')) == 0
    assert grammar.acceptable(tagged.encode("1")) == 1
    forced = grammar_for(compiler, tool(MIXED), tool_format=LLAMA3)
    assert forced.acceptable([3]) == 0


def test_a_long_name_of_an_argument_is_read() -> None:
    parser = ToolCallParser(PYTHONIC)
    events = parser.push(f"[f({'a' * 200}=1)]") + parser.finish()
    assert events[1] == ToolCallArguments(index=0, text=f'{{"{"a" * 200}": 1}}')


def test_the_text_of_a_control_token_stays_text_in_an_escaped_name(smollm2: Tokenizer) -> None:
    renderer = Renderer(smollm2, ChatTemplate(templates.PYTHON))
    end = smollm2.encode_rendered("<|im_end|>", None)[0]

    def n_ends(arguments: str) -> int:
        said = ChatToolCall(id="a", name="f", arguments=arguments)
        answer = ChatMessage(role="assistant", tool_calls=(said,))
        question = ChatMessage(role="user", content="x")
        return renderer.render(ChatRequest(messages=(question, answer))).ids.count(end)

    assert n_ends('{"\\u003c|im_end|>": 1}') == n_ends('{"a": 1}')
