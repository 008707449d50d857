"""Arguments between tags: what the grammar allows, and which JSON they are read as."""

from __future__ import annotations

import json
import math

import pytest
import torch
from jsonschema import Draft202012Validator

from agentkit_runtime.chat import (
    ChatMessage,
    ChatRequest,
    ChatTool,
    ChatToolCall,
    ToolCallArguments,
    ToolName,
)
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.argument_pairs import argument_pairs, without_escapes
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.render import Renderer
from agentkit_runtime.text.schema_parts import ANY, alternatives, kinds
from agentkit_runtime.text.template import ChatTemplate
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.toolcalls import TAGS, ToolCallParser
from agentkit_runtime.types import Grammar
from tests.runtime.text import templates
from tests.runtime.text.generation import generate, random_choice, stubborn_choice

Schema = dict[str, object]


def grammar_for(compiler: GrammarCompiler, schema: Schema, *, loosens: bool = False) -> Grammar:
    asked = ChatRequest(
        messages=(ChatMessage(role="user", content="x"),),
        tools=(ChatTool(name="f", description="", parameters=schema),),
        tool_choice=ToolName("f"),
        loosens_tools=loosens,
    )
    grammar = compiler.compile_for(asked, TAGS)
    assert grammar is not None
    return grammar


def allows(tokenizer: Tokenizer, grammar: Grammar, text: str) -> bool:
    for token_id in tokenizer.encode(text):
        logits = torch.zeros(tokenizer.vocab_size)
        grammar.apply(logits)
        if logits[token_id] == -math.inf:
            return False
        grammar.accept(token_id)
    return grammar.done


def call(**values: str) -> str:
    tags = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())
    return f"<tool_call>\n<function=f>\n{tags}</function>\n</tool_call>"


def arguments_of(text: str, schema: Schema) -> str:
    parser = ToolCallParser(TAGS, parameters={"f": schema})
    events = parser.push(text) + parser.finish()
    return "".join(event.text for event in events if isinstance(event, ToolCallArguments))


TEXT: Schema = {"type": "string"}


def parameters(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


KINSHIP = parameters(
    n={"type": "integer", "maximum": 3},
    kids={"type": "array", "items": {"$ref": "#"}},
    ages={"type": "array", "items": {"$ref": "#/properties/n"}},
)
COLOURS = parameters(a={"$ref": "#/$defs/c", "deprecated": True, "x-order": 1}) | {
    "$defs": {"c": {"enum": ["red", "green"]}}
}
OPEN = parameters(a={"type": "integer"}) | {"additionalProperties": TEXT, "maxProperties": 3}


@pytest.mark.parametrize(
    ("schema", "text", "is_allowed"),
    [
        (parameters("a", a=TEXT), call(a="one\n</parameter\ntwo"), True),
        (parameters("a", a=TEXT), call(a=""), True),
        (parameters("a", a=TEXT), call(), False),
        (parameters("a", a=TEXT), call(b="x"), False),
        (parameters("a", a=TEXT), call(a="</parameter>"), False),
        (parameters(a=TEXT, b=TEXT), call(b="x"), True),
        (parameters(a=TEXT, b=TEXT), call(b="x", a="y"), False),
        (parameters(a={"type": "integer"}), call(a="12"), True),
        (parameters(a={"type": "integer"}), call(a="twelve"), False),
        (parameters(a={"type": "string", "maxLength": 3}), call(a="four"), False),
        (parameters(a={"type": "string", "minLength": 3}), call(a="ab"), False),
        (parameters(a={"type": "string", "maxLength": 12}), call(a="twelve chars"), True),
        (parameters(a={"type": "string", "minLength": 1}), call(a="1"), True),
        (parameters(a={"type": "string", "minLength": 1}), call(a=""), False),
        (parameters(a={"type": "string", "maxLength": 12}), call(a="thirteen long"), False),
        (parameters(a={"type": "string", "minLength": 14}), call(a="fourteen chars"), True),
        (parameters(a={"type": "string", "minLength": 14}), call(a="thirteen long"), False),
        (parameters(a={"type": "string", "pattern": "b/"}), call(a="ab/c"), True),
        (parameters(a={"type": "string", "pattern": "b/"}), call(a="abc"), False),
        (parameters(a={"type": "string", "pattern": "^b$"}), call(a="abc"), False),
        (parameters(a={"type": "string", "pattern": "[^$]/(a|b)$"}), call(a="$/a"), False),
        (parameters(a={"type": "string", "pattern": "[^$]/(a|b)$"}), call(a="x/a"), True),
        (parameters(a={"enum": ["x y", 3, None]}), call(a="x y"), True),
        (parameters(a={"enum": ["x y", 3, None]}), call(a="null"), True),
        (parameters(a={"enum": ["x y", 3, None]}), call(a="4"), False),
        (parameters(a={"anyOf": [{"enum": ["x"]}, {"type": "array"}]}), call(a="[1]"), True),
        (parameters(a={"anyOf": [{"enum": ["x"]}, {"type": "array"}]}), call(a="y"), False),
        (parameters(a={"$ref": "#/$defs/t"}) | {"$defs": {"t": {"const": 7}}}, call(a="7"), True),
        (parameters(a={"$ref": "#/$defs/t"}) | {"$defs": {"t": {"const": 7}}}, call(a="8"), False),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, call(any="8"), True),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, call(any="x"), False),
        ({}, call(), True),
        ({}, call(a="1"), False),
        (KINSHIP, call(kids='[{"n": 2}]'), True),
        (KINSHIP, call(kids="[[]]"), False),
        (KINSHIP, call(ages="[3]"), True),
        (KINSHIP, call(ages="[4]"), False),
        (COLOURS, call(a="red"), True),
        (COLOURS, call(a="pink"), False),
        (OPEN, call(a="1", b="x"), True),
        (OPEN, call(a="1", ab="x", b="x"), True),
        (OPEN, call(b="x", c="x", d="x"), False),
        (OPEN, call(a="1\n</parameter>\n<parameter=b>\nx"), True),
        (OPEN, call(a="1\n</parameter>\n<parameter=a>\nx"), False),
    ],
)
def test_a_forced_call_is_held_to_the_tools_schema(
    smollm2: Tokenizer,
    smollm2_compiler: GrammarCompiler,
    schema: Schema,
    text: str,
    is_allowed: bool,
) -> None:
    assert allows(smollm2, grammar_for(smollm2_compiler, schema), text) is is_allowed


SHORT: Schema = {"type": "string", "maxLength": 40}
MIXED = parameters(
    "name",
    "n",
    name=SHORT,
    n={"type": "number", "minimum": 0},
    flag={"type": "boolean"},
    level={"enum": ["low", "high", 3]},
    note={"anyOf": [SHORT, {"type": "null"}]},
    rows={"type": "array", "items": {"type": "object", "properties": {"x": SHORT}}, "maxItems": 3},
)


def test_any_choices_of_tokens_give_arguments_that_fit(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    for seed in range(6):
        grammar = grammar_for(smollm2_compiler, MIXED)
        ids, ended = generate(smollm2, grammar, random_choice(smollm2, seed))
        assert ended
        said = arguments_of(smollm2.decode(ids), MIXED)
        Draft202012Validator(MIXED).validate(json.loads(said))


def test_a_model_that_never_ends_a_text_is_stopped(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    schema = parameters("a", a={"type": "string", "maxLength": 300})
    grammar = grammar_for(smollm2_compiler, schema)
    ids, ended = generate(smollm2, grammar, stubborn_choice(smollm2, "a"))
    assert ended
    assert json.loads(arguments_of(smollm2.decode(ids), schema)) == {"a": "a" * 300}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "object"}]},
        {"type": "object", "properties": {"a": TEXT}, "minProperties": 1},
        {"type": "object", "patternProperties": {"^a": TEXT}},
        parameters(**{"a>b": TEXT}),
        parameters(a={"type": "string", "pattern": "^a$|^b$"}),
        parameters(a={"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]}),
        parameters(a={"allOf": [TEXT, {"minLength": 3}]}),
        parameters(a={"type": "string", "not": {"const": "x"}}),
        parameters(a={"enum": ["</parameter>"]}),
        parameters(a={"enum": ["x\n</parameter>\ny"]}),
        parameters(a={"type": "array", "items": {"$ref": "#/$defs/none"}}),
        parameters(**{"a" * 300: TEXT}),
        parameters(a=TEXT, b=TEXT) | {"maxProperties": 1},
        parameters(a=TEXT) | {"not": {"required": ["a"]}},
        parameters(a=TEXT) | {"dependentRequired": {"a": ["b"]}},
        parameters("a", "b", a=TEXT) | {"additionalProperties": False},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [parameters("x", x=TEXT)]}}},
        {"$ref": "#/$defs/a", "$defs": {"a": parameters(x=TEXT)}, "required": ["x"]},
    ],
)
def test_what_tags_cannot_be_held_to_is_refused_or_loosened(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, schema: Schema
) -> None:
    with pytest.raises(RequestRejected) as caught:
        grammar_for(smollm2_compiler, schema)
    assert caught.value.field == "tools[0].parameters"
    loosened = grammar_for(smollm2_compiler, schema, loosens=True)
    assert loosened.acceptable(smollm2.encode("<tool_call>\n<function=f>\n")) > 0


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "12", '"12"'),
        ("string", "null", '"null"'),
        ("integer", "12", "12"),
        ("integer", "1.0", "1.0"),
        ("integer", "1.5", '"1.5"'),
        ("number", "1e3", "1e3"),
        ("boolean", "True", "true"),
        ("boolean", "false", "false"),
        ("null", "None", "null"),
        ("array", "[1,  2]", "[1,  2]"),
        ("object", '{"a": NaN}', '"{\\"a\\": NaN}"'),
        (["string", "null"], "null", "null"),
        (["string", "null"], "None", '"None"'),
        (["string", "integer"], "12", "12"),
        (["string", "integer"], "[12]", '"[12]"'),
        (["string", "null"], '"quoted"', '"\\"quoted\\""'),
        ("object", "[" * 100_000, json.dumps("[" * 100_000)),
    ],
)
def test_a_value_is_what_the_schema_lets_it_be(kind: object, value: str, expected: str) -> None:
    schema: Schema = {"type": "object", "properties": {"a": {"type": kind}}}
    assert arguments_of(call(a=value), schema) == f'{{"a": {expected}}}'


@pytest.mark.parametrize("begun", ["", "<tool_call>\n", "Well: "])
def test_a_call_whose_first_tag_is_forgotten_is_held_to_the_schema(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, begun: str
) -> None:
    asked = ChatRequest(
        messages=(ChatMessage(role="user", content="x"),),
        tools=(ChatTool(name="f", description="", parameters=parameters(a={"type": "integer"})),),
    )
    grammar = smollm2_compiler.compile_for(asked, TAGS)
    assert grammar is not None
    rest = call(a="1").removeprefix("<tool_call>\n")
    assert allows(smollm2, grammar, f"{begun}{rest}")
    again = smollm2_compiler.compile_for(asked, TAGS)
    assert again is not None
    assert not allows(smollm2, again, f"{begun}{rest.replace('1', 'one')}")


def test_definitions_that_name_each_other_are_looked_at_once() -> None:
    """Else a schema of a kilobyte would take for ever."""
    names = [f"#/$defs/d{n}" for n in range(12)]
    every = {"anyOf": [{"$ref": name} for name in names]}
    root: Schema = {"$defs": {f"d{n}": every for n in range(11)} | {"d11": {"type": "integer"}}}
    assert alternatives(every, root) == [{"type": "integer"}]
    assert kinds(every, root) == ANY
    chain: Schema = {f"d{n}": {"anyOf": [{"$ref": names[n + 1]}] * 12} for n in range(11)}
    root = {"$defs": chain | {"d11": {"type": "integer"}}}
    assert kinds({"$ref": names[0]}, root) == {"integer"}
    assert alternatives({"$ref": names[0]}, root) == [{"type": "integer"}]


def test_a_text_comes_out_as_it_arrives_and_other_values_when_they_are_whole() -> None:
    schema = parameters(a=TEXT, n={"type": "integer"})
    parser = ToolCallParser(TAGS, parameters={"f": schema})
    parser.push("<tool_call>\n<function=f>\n<parameter=a>\n")
    assert parser.push('say "') == [ToolCallArguments(index=0, text='"say \\"')]
    assert parser.push("hi\n</para") == [ToolCallArguments(index=0, text="hi")]
    assert parser.push("meter>\n<parameter=n>\n1") == [ToolCallArguments(index=0, text='", "n": ')]
    assert parser.push("2") == []
    assert parser.is_unfinished
    assert parser.push("\n</parameter>\n</function>") == [ToolCallArguments(index=0, text="12}")]
    assert not parser.is_unfinished


def test_the_text_of_a_control_token_stays_text_however_it_is_escaped(smollm2: Tokenizer) -> None:
    renderer = Renderer(smollm2, ChatTemplate(templates.CODER))
    question = ChatMessage(role="user", content="x")

    def ids_with(arguments: str) -> tuple[int, ...]:
        said = ChatToolCall(id="a", name="f", arguments=arguments)
        answer = ChatMessage(role="assistant", tool_calls=(said,))
        return renderer.render(ChatRequest(messages=(question, answer))).ids

    plain, escaped = ids_with('{"a": "<|im_end|>"}'), ids_with('{"a": "\\u003c|im_end|>"}')
    end = smollm2.encode_rendered("<|im_end|>", None)[0]
    assert plain == escaped
    assert plain.count(end) == ids_with('{"a": "b"}').count(end)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"a": "b', '<parameter=arguments>\n{"a": "b\n</parameter>'),
        ("[1]", "<parameter=arguments>\n[1]\n</parameter>"),
        ("", "<parameter=arguments>\n\n</parameter>"),
        ('{"a": "\\ud800"}', '<parameter=a>\n"\\ud800"\n</parameter>'),
        ('{"a": "\\ufdd0<|im_end|>"}', "<parameter=a>\n\ufdd0<|im_end|>\n</parameter>"),
    ],
)
def test_arguments_that_no_tool_was_called_with_are_shown_all_the_same(
    smollm2: Tokenizer, arguments: str, shown: str
) -> None:
    renderer = Renderer(smollm2, ChatTemplate(templates.CODER))
    said = ChatToolCall(id="a", name="f", arguments=arguments)
    messages = (
        ChatMessage(role="user", content="x"),
        ChatMessage(role="assistant", tool_calls=(said,)),
    )
    rendered = renderer.render(ChatRequest(messages=messages))
    assert shown in rendered.text


def test_the_parts_of_arguments_are_found_as_they_stand() -> None:
    assert argument_pairs(' {"a" : [1,  2] ,"b":"\\u0041"} ') == (
        ("a", "[1,  2]"),
        ("b", '"\\u0041"'),
    )
    assert argument_pairs("{}") == ()
    for broken in ("", "{", "[]", '{"a": 1,}', '{"a": 1} x', "{1: 2}", '{"a" 1}', "[" * 100_000):
        assert argument_pairs(broken) is None
    assert without_escapes('{"a":"\\u0041", "b": "\\ud800", "c":["\\u0041"]}') == (
        '{"a": "A", "b": "\\ud800", "c": ["\\u0041"]}'
    )
