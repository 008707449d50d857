"""Grammars: what the model may say to which request, and that it always comes to an end."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator

from agentkit_runtime.chat import (
    ChatEvent,
    ChatMessage,
    ChatRequest,
    ChatTool,
    ToolCallArguments,
    ToolCallStart,
    ToolChoice,
    ToolName,
)
from agentkit_runtime.errors import RequestRejected, RuntimeFault
from agentkit_runtime.text.grammar import GrammarCompiler
from agentkit_runtime.text.reply_rules import MAX_PARALLEL_CALLS
from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.text.toolcalls import (
    HERMES,
    LLAMA3,
    MISTRAL,
    MISTRAL_ARGS,
    TOOL_FORMATS,
    ToolCallParser,
    ToolFormat,
)
from agentkit_runtime.types import Grammar
from tests.runtime.text.generation import generate, random_choice, stubborn_choice
from tests.runtime.text.vocabularies import spacing_tokenizer, tiny_metadata

Schema = dict[str, object]

WEATHER = ChatTool(
    name="weather",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "unit": {"enum": ["celsius", "kelvin"]},
        },
        "required": ["city", "unit"],
    },
)
NOW = ChatTool(name="now", description="", parameters={})
TOOLS = (WEATHER, NOW)


def request(
    *,
    tools: tuple[ChatTool, ...] = TOOLS,
    choice: ToolChoice = "auto",
    allowed: frozenset[str] | None = None,
    schema: Schema | None = None,
    parallel: bool = False,
) -> ChatRequest:
    return ChatRequest(
        messages=(ChatMessage(role="user", content="x"),),
        tools=tools,
        tool_choice=choice,
        allowed_tools=allowed,
        response_schema=schema,
        parallel_tool_calls=parallel,
    )


def compiled(
    compiler: GrammarCompiler, asked: ChatRequest, tool_format: ToolFormat = HERMES
) -> Grammar:
    grammar = compiler.compile_for(asked, tool_format)
    assert grammar is not None
    return grammar


def accepts(tokenizer: Tokenizer, grammar: Grammar, text: str) -> bool:
    """Whether the whole text may be said and may end there."""
    for token_id in tokenizer.encode(text):
        logits = torch.zeros(tokenizer.vocab_size)
        grammar.apply(logits)
        if logits[token_id] == -math.inf:
            return False
        grammar.accept(token_id)
    logits = torch.zeros(tokenizer.vocab_size)
    grammar.apply(logits)
    return all(logits[token_id] == 0 for token_id in tokenizer.eos_ids)


def calls_in(text: str, tool_format: ToolFormat) -> list[tuple[str, str]]:
    parameters = {tool.name: tool.parameters for tool in TOOLS}
    parser = ToolCallParser(tool_format, parameters=parameters)
    events: list[ChatEvent] = parser.push(text) + parser.finish()
    calls: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, ToolCallStart):
            calls.append((event.name, ""))
        elif isinstance(event, ToolCallArguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + event.text)
    return calls


# -- which grammar ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        request(tools=()),
        request(choice="none"),
        request(allowed=frozenset()),
    ],
)
def test_requests_that_allow_any_text_have_no_grammar(
    smollm2_compiler: GrammarCompiler, asked: ChatRequest
) -> None:
    assert smollm2_compiler.compile_for(asked, HERMES) is None


@pytest.mark.parametrize(
    ("asked", "said", "is_allowed"),
    [
        (
            request(choice="required"),
            '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "unit": "kelvin"}}\n'
            "</tool_call>",
            True,
        ),
        (request(choice="required"), "Hello", False),
        (request(choice="required"), '<tool_call>\n{"name": "delete"', False),
        (
            request(choice="required"),
            '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "unit": "rankine',
            False,
        ),
        (
            request(choice="required"),
            '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n<tool_call>',
            False,
        ),
        (
            request(choice="required", parallel=True),
            '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n'
            '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
            True,
        ),
        (
            request(choice=ToolName("now")),
            '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
            True,
        ),
        (request(choice=ToolName("now")), '<tool_call>\n{"name": "w', False),
        (
            request(choice="required", allowed=frozenset({"weather"})),
            '<tool_call>\n{"name": "n',
            False,
        ),
        (
            request(
                tools=(ChatTool(name='odd "näme"\\', description="", parameters={}),),
                choice="required",
            ),
            HERMES.call_text('odd "näme"\\', "{}"),
            True,
        ),
        (request(tools=(), schema={"type": "integer"}), "42", True),
        (request(tools=(), schema={"type": "integer"}), "forty", False),
        (request(choice="none", schema={"type": "integer"}), "<tool_call>", False),
        (request(choice="required", schema={"type": "integer"}), "42", False),
        (request(schema={"type": "integer"}), "42", True),
        (
            request(schema={"type": "integer"}),
            '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
            True,
        ),
        (request(schema={"type": "integer"}), "So: ", False),
        (request(), "Any text, really <tool", True),
    ],
)
def test_what_may_be_said(
    smollm2: Tokenizer,
    smollm2_compiler: GrammarCompiler,
    asked: ChatRequest,
    said: str,
    is_allowed: bool,
) -> None:
    assert accepts(smollm2, compiled(smollm2_compiler, asked), said) is is_allowed


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (request(choice=ToolName("gone")), "tool_choice"),
        (request(choice=ToolName("now"), allowed=frozenset({"weather"})), "tool_choice"),
        (request(choice="required", tools=()), "tool_choice"),
        (request(choice="required", allowed=frozenset()), "tool_choice"),
        (request(allowed=frozenset({"now", "gone"})), "allowed_tools"),
        (request(tools=(), schema={"not": {"type": "string"}}), "response_schema"),
        (request(tools=(), schema={"type": "frob"}), "response_schema"),
        (request(tools=(), schema={"enum": [object()]}), "response_schema"),
        (request(tools=(), schema={"const": math.nan}), "response_schema"),
        (
            request(tools=(NOW, ChatTool(name="f", description="", parameters={"$ref": "x:y"}))),
            "tools[1].parameters",
        ),
        (
            request(
                tools=(
                    NOW,
                    ChatTool(
                        name="f",
                        description="",
                        parameters={
                            "properties": {
                                "a": {
                                    "type": "array",
                                    "uniqueItems": True,
                                    "items": {"type": "null"},
                                }
                            }
                        },
                    ),
                ),
                allowed=frozenset({"f"}),
            ),
            "tools[1].parameters",
        ),
    ],
)
def test_requests_that_cannot_be_enforced_are_rejected_by_field(
    smollm2_compiler: GrammarCompiler, asked: ChatRequest, field: str
) -> None:
    with pytest.raises(RequestRejected) as caught:
        smollm2_compiler.compile_for(asked, HERMES)
    assert caught.value.field == field


# -- free text first -------------------------------------------------------------------------------


def test_free_text_is_neither_masked_nor_forced_until_the_trigger(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request())
    for token_id in smollm2.encode('I will call <tool, no: <tool_call. {"name": "'):
        logits = torch.randn(smollm2.vocab_size)
        before = logits.clone()
        grammar.apply(logits)
        assert torch.equal(logits, before)
        assert grammar.forced() == []
        assert not grammar.done
        grammar.accept(token_id)


def test_from_the_trigger_on_the_call_is_constrained(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request())
    for token_id in smollm2.encode("Let me look.\n<tool_call>"):
        grammar.accept(token_id)
    assert smollm2.decode(grammar.forced()) == '\n{"name": "'
    ids, ended = generate(smollm2, grammar, random_choice(smollm2, 1))
    text = "Let me look.\n<tool_call>" + smollm2.decode(ids)
    assert ended
    assert grammar.done
    ((name, arguments),) = calls_in(text, HERMES)
    assert name in {"weather", "now"}
    assert isinstance(json.loads(arguments), dict)


def test_a_trigger_that_shares_a_token_with_what_follows_still_counts() -> None:
    """In many vocabularies `>` and a line break are one token."""
    tokenizer = Tokenizer.from_gguf(tiny_metadata(merges=("> Ċ", "Ċ {"), pre="qwen2"))
    grammar = compiled(GrammarCompiler(tokenizer), request())
    ids = tokenizer.encode("ok\n<tool_call>\n")
    assert tokenizer.decode(ids[-1:]) == ">\n"
    for token_id in ids:
        grammar.accept(token_id)
    assert tokenizer.decode(grammar.forced()) == '{"name": "'


def test_what_follows_the_trigger_in_its_token_and_does_not_fit_leaves_the_text_free() -> None:
    tokenizer = Tokenizer.from_gguf(tiny_metadata(merges=("> <",)))
    grammar = compiled(GrammarCompiler(tokenizer), request())
    for token_id in tokenizer.encode("<tool_call><b"):
        grammar.accept(token_id)
    assert grammar.forced() == []
    for token_id in tokenizer.encode("<tool_call>"):
        grammar.accept(token_id)
    assert tokenizer.decode(grammar.forced()) == '\n{"name": "'


@pytest.mark.parametrize("kind", ["control", "user_defined"])
def test_tool_tags_that_are_tokens_of_the_vocabulary_are_generated_as_such(kind: str) -> None:
    control: tuple[str, ...] = ("<|im_start|>", "<|im_end|>")
    tags = ("<tool_call>", "</tool_call>")
    metadata = (
        tiny_metadata(control=(*control, *tags))
        if kind == "control"
        else tiny_metadata(control=control, user_defined=tags)
    )
    tokenizer = Tokenizer.from_gguf(metadata)
    asked = request(choice=ToolName("now"))
    ids, ended = generate(
        tokenizer, compiled(GrammarCompiler(tokenizer), asked), random_choice(tokenizer, 0)
    )
    assert ended
    assert (ids[0], ids[-1]) == (2, 3)
    assert tokenizer.decode(ids, skip_special=False) == HERMES.call_text("now", "{}")
    lazy = compiled(GrammarCompiler(tokenizer), request(tools=(NOW,)))
    lazy.accept(2)
    assert [2, *lazy.forced()] == ids
    spelt_out = compiled(GrammarCompiler(tokenizer), request(tools=(NOW,)))
    for character in "<tool_call>":
        spelt_out.accept(tokenizer.encode(character)[0])
    assert [2, *spelt_out.forced()] == ids


def test_a_whole_message_format_is_constrained_only_from_the_start(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request(tools=(NOW,)), LLAMA3)
    for token_id in smollm2.encode('{"name": "'):
        grammar.accept(token_id)
    assert smollm2.decode(grammar.forced()) == 'now", "parameters": {}}'
    free = compiled(smollm2_compiler, request(tools=(NOW,)), LLAMA3)
    for token_id in smollm2.encode('so {"name": "'):
        free.accept(token_id)
    assert free.forced() == []


# -- valid and finite ------------------------------------------------------------------------------

PERSON: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2},
        "address": {"$ref": "#/$defs/address"},
    },
    "required": ["name", "age", "tags", "address"],
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 9}, "open": {}},
            "required": ["street"],
        }
    },
}

SCHEMAS: list[Schema] = [
    {"type": "string"},
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2,4}$"},
    {"type": "string", "format": "date-time"},
    {"type": ["string", "null"], "maxLength": 3},
    {"type": "integer", "minimum": -3, "maximum": 900},
    {"type": "number"},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    {"enum": ["red", 5, None, {"a": [1]}]},
    {"const": "fixed"},
    {"type": "boolean"},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "integer"}], "items": False},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
    {
        "type": "object",
        "properties": {"x": {"type": "string", "format": "path"}},
        "required": ["x"],
    },
    PERSON,
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:40])
def test_answers_are_always_valid_under_the_schema_that_was_given(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, schema: Schema
) -> None:
    for seed in range(3):
        grammar = compiled(smollm2_compiler, request(tools=(), schema=schema))
        ids, ended = generate(smollm2, grammar, random_choice(smollm2, seed))
        assert ended
        Draft202012Validator(schema).validate(json.loads(smollm2.decode(ids)))


@pytest.mark.parametrize("tool_format", TOOL_FORMATS.values(), ids=lambda form: form.name)
def test_any_choices_of_tokens_make_valid_calls(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, tool_format: ToolFormat
) -> None:
    schemas = {tool.name: tool.parameters for tool in TOOLS}
    for seed in range(6):
        asked = request(choice="required", parallel=seed % 2 == 0)
        grammar = compiled(smollm2_compiler, asked, tool_format)
        ids, ended = generate(smollm2, grammar, random_choice(smollm2, seed))
        assert ended
        calls = calls_in(smollm2.decode(ids), tool_format)
        assert 1 <= len(calls) <= (MAX_PARALLEL_CALLS if asked.parallel_tool_calls else 1)
        for name, arguments in calls:
            Draft202012Validator(schemas[name]).validate(json.loads(arguments))


@pytest.mark.parametrize(
    ("schema", "liked", "n_chars"),
    [
        ({"type": "string"}, ("a",), 2_002),
        ({"type": "integer"}, ("1",), 16),
        ({"type": "number"}, ("1", "."), 26),
        ({}, ("1", "."), 26),
        ({"type": "array", "items": {"type": "null"}}, ("[", " null"), 256 * 6 + 2),
    ],
)
def test_a_model_that_never_wants_to_stop_is_stopped(
    smollm2: Tokenizer,
    smollm2_compiler: GrammarCompiler,
    schema: Schema,
    liked: tuple[str, ...],
    n_chars: int,
) -> None:
    """R47: an open schema must not let digits, letters or blanks go on for ever."""
    grammar = compiled(smollm2_compiler, request(tools=(), schema=schema))
    ids, ended = generate(smollm2, grammar, stubborn_choice(smollm2, *liked))
    text = smollm2.decode(ids)
    assert ended
    assert len(text) <= n_chars
    json.loads(text)


# -- the grammar object ----------------------------------------------------------------------------


def test_once_done_only_the_end_is_allowed_and_nothing_is_forced(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request(tools=(), schema={"const": True}))
    assert not grammar.done
    for token_id in smollm2.encode("true"):
        grammar.accept(token_id)
    assert grammar.done
    assert grammar.forced() == []
    logits = torch.zeros(smollm2.vocab_size)
    grammar.apply(logits)
    assert set(logits.isfinite().nonzero().flatten().tolist()) == set(smollm2.eos_ids)
    grammar.accept(min(smollm2.eos_ids))
    assert grammar.done


def test_where_the_text_may_end_or_go_on_both_are_allowed(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request(tools=(), schema={"type": "integer"}))
    grammar.accept(smollm2.encode("4")[0])
    logits = torch.zeros(smollm2.vocab_size)
    grammar.apply(logits)
    allowed = set(logits.isfinite().nonzero().flatten().tolist())
    assert allowed == {*smollm2.eos_ids, *(smollm2.encode(digit)[0] for digit in "0123456789")}
    grammar.accept(min(smollm2.eos_ids))
    assert grammar.done


def test_a_forbidden_token_is_a_clear_fault(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request(tools=(), schema={"type": "integer"}))
    wrong = smollm2.encode("hello")[0]
    with pytest.raises(RuntimeFault, match=str(wrong)):
        grammar.accept(wrong)
    done = compiled(smollm2_compiler, request(tools=(), schema={"const": 1}))
    done.accept(smollm2.encode("1")[0])
    with pytest.raises(RuntimeFault, match="complete"):
        done.accept(wrong)


def test_ids_past_the_vocabulary_are_never_allowed(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    """Models pad their logits to round widths."""
    grammar = compiled(smollm2_compiler, request(tools=(), schema={"type": "string"}))
    logits = torch.zeros(smollm2.vocab_size + 64)
    grammar.apply(logits)
    assert not logits[smollm2.vocab_size :].isfinite().any()


def test_each_generation_has_its_own_state(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    asked = request(tools=(), schema={"enum": ["ab", "cd"]})
    first, second = (compiled(smollm2_compiler, asked) for _ in range(2))
    for token_id in smollm2.encode('"ab"'):
        first.accept(token_id)
    assert first.done
    assert not second.done
    assert accepts(smollm2, second, '"cd"')


def test_mistral_calls_share_one_list(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request(choice="required", parallel=True), MISTRAL)
    text = '[TOOL_CALLS] [{"name": "now", "arguments": {}}, {"name": "now", "arguments": {}}]'
    assert accepts(smollm2, grammar, text)


def test_mistrals_newer_calls_each_have_their_own_mark(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request(choice="required", parallel=True), MISTRAL_ARGS)
    assert accepts(smollm2, grammar, "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}")


def test_forgotten_grammars_are_compiled_again(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    for length in range(1, 80):
        smollm2_compiler.compile_for(
            request(tools=(), schema={"type": "string", "maxLength": length}), HERMES
        )
    grammar = compiled(
        smollm2_compiler, request(tools=(), schema={"type": "string", "maxLength": 1})
    )
    assert accepts(smollm2, grammar, '"a"')


# -- control tokens --------------------------------------------------------------------------------

CONTROL_TEXTS = ("<|im_end|>", "a<|im_end|>b", "<|im_start|>", "x<|endoftext|>y")


@pytest.mark.parametrize("text", CONTROL_TEXTS)
@pytest.mark.parametrize(
    "schema_of",
    [
        lambda text: {"a": {"const": text}},
        lambda text: {"a": {"enum": [text]}},
        lambda text: {"a": {"enum": [f"{text}1", f"{text}2"]}},
        lambda text: {"a": {"type": "string", "pattern": f"^{text.replace('|', '[|]')}$"}},
        lambda text: {text: {"const": 1}},
    ],
)
def test_the_text_of_a_control_token_in_a_schema_stays_text(
    smollm2: Tokenizer,
    smollm2_compiler: GrammarCompiler,
    schema_of: Callable[[str], Schema],
    text: str,
) -> None:
    properties = schema_of(text)
    schema: Schema = {"type": "object", "properties": properties, "required": [*properties]}
    grammar = compiled(smollm2_compiler, request(tools=(), schema=schema))
    ids, ended = generate(smollm2, grammar, random_choice(smollm2, 2))
    assert ended
    assert not any(smollm2.is_special(token_id) for token_id in ids)
    Draft202012Validator(schema).validate(json.loads(smollm2.decode(ids)))


def test_the_text_of_a_control_token_in_a_tool_name_stays_text(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    tool = ChatTool(name="a<|im_end|>", description="", parameters={})
    grammar = compiled(smollm2_compiler, request(tools=(tool,), choice="required"))
    ids, ended = generate(smollm2, grammar, random_choice(smollm2, 3))
    assert ended
    assert not any(smollm2.is_special(token_id) for token_id in ids)
    assert calls_in(smollm2.decode(ids), HERMES) == [("a<|im_end|>", "{}")]


def test_a_vocabulary_without_an_end_token_refuses_grammars() -> None:
    tokenizer = Tokenizer.from_gguf(tiny_metadata())
    tokenizer._vocabulary = dataclasses.replace(tokenizer._vocabulary, eos_ids=frozenset())
    with pytest.raises(RequestRejected, match="end token"):
        GrammarCompiler(tokenizer).compile_for(request(), HERMES)


@pytest.mark.parametrize("kind", ["prepend", "metaspace"])
def test_a_vocabulary_that_puts_a_space_in_front_is_forced_to_exactly_the_grammar(
    tmp_path: Path, kind: str
) -> None:
    tokenizer = spacing_tokenizer(tmp_path, kind)
    grammar = compiled(GrammarCompiler(tokenizer), request(choice=ToolName("now")))
    ids, ended = generate(tokenizer, grammar, random_choice(tokenizer, 4))
    assert ended
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == HERMES.call_text("now", "{}")


# -- schemas that cannot be enforced ---------------------------------------------------------------

NEEDS_ITSELF: Schema = {
    "type": "object",
    "properties": {"a": {"$ref": "#"}},
    "required": ["a"],
}


def nested(depth: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


UNENFORCEABLE: list[Schema] = [
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": math.nan}}},
    {"type": "object", "properties": {"a": {"type": "integer", "maximum": math.inf}}},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2**70}}},
    {"type": "object", "properties": {"a": {"type": "number", "minimum": 1e300}}},
    {"type": "object", "properties": {"a": {"default": object()}}},
    {"type": "object", "properties": {1: {"type": "string"}}},  # type: ignore[dict-item]
    {"$ref": "#"},
    NEEDS_ITSELF,
    {"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [{"$ref": "#/$defs/n"}]}}},
    {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"$ref": "#"}, "minItems": 1}},
        "required": ["a"],
    },
    {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3000)}},
    {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^.*a.{12}$"}},
        "required": ["a"],
    },
    nested(400),
]


@pytest.mark.parametrize("schema", UNENFORCEABLE)
def test_schemas_that_cannot_be_enforced_are_refused_for_answers(
    smollm2_compiler: GrammarCompiler, schema: Schema
) -> None:
    with pytest.raises(RequestRejected) as caught:
        smollm2_compiler.compile_for(request(tools=(), schema=schema), HERMES)
    assert caught.value.field == "response_schema"


@pytest.mark.parametrize("schema", [*UNENFORCEABLE, {"type": "array"}, {"type": 5}, {"enum": [1]}])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_schemas_that_cannot_be_enforced_are_refused_for_tools(
    smollm2_compiler: GrammarCompiler, schema: Schema, choice: ToolChoice
) -> None:
    tool = ChatTool(name="f", description="", parameters=schema)
    with pytest.raises(RequestRejected) as caught:
        smollm2_compiler.compile_for(request(tools=(NOW, tool), choice=choice), HERMES)
    assert caught.value.field == "tools[1].parameters"


def test_a_tool_whose_parameters_are_no_object_is_named(smollm2_compiler: GrammarCompiler) -> None:
    tool = ChatTool(name="sort_all", description="", parameters={"type": "array"})
    with pytest.raises(RequestRejected, match="'sort_all'"):
        smollm2_compiler.compile_for(request(tools=(tool,)), HERMES)


@pytest.mark.parametrize(
    "schema",
    [
        {**NEEDS_ITSELF, "required": []},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
            "required": ["a"],
        },
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"$ref": "#/$defs/x"}},
            "required": ["a", "b"],
            "$defs": {"x": {"const": 1}},
        },
        {"type": "number", "minimum": 1e-9, "maximum": 2e-9},
        {"type": "number", "minimum": 0.1234567, "maximum": 0.1234567},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e-6},
        {"type": "integer", "minimum": 0, "maximum": 2**64},
        {"type": "object", "required": ["a"]},
        {"type": "object", "minProperties": 1},
        {"type": "object", "properties": {f"p{i}": {"const": i} for i in range(100)}},
    ],
)
def test_unusual_schemas_that_can_be_enforced_are(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler, schema: Schema
) -> None:
    grammar = compiled(smollm2_compiler, request(tools=(), schema=schema))
    ids, ended = generate(smollm2, grammar, random_choice(smollm2, 5))
    assert ended
    Draft202012Validator(schema).validate(json.loads(smollm2.decode(ids)))


# -- tokens that are guessed ahead -----------------------------------------------------------------


def test_guessed_tokens_are_accepted_as_far_as_they_fit_and_nothing_is_changed(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    """R47."""
    said = '<tool_call>\n{"name": "weather", "arguments": {"city": "'
    ids = smollm2.encode(said)
    grammar = compiled(smollm2_compiler, request(choice="required"))
    assert grammar.acceptable(ids) == len(ids)
    assert grammar.acceptable([*ids[:3], *ids]) == 3
    assert grammar.acceptable(smollm2.encode("No, thanks.")) == 0
    assert accepts(smollm2, grammar, said + 'Oslo", "unit": "kelvin"}}\n</tool_call>')
    assert grammar.acceptable(ids) == 0


def test_while_the_text_is_free_any_guess_will_do(
    smollm2: Tokenizer, smollm2_compiler: GrammarCompiler
) -> None:
    grammar = compiled(smollm2_compiler, request())
    free = smollm2.encode("No, thanks.")
    assert grammar.acceptable(free) == len(free)
    for token_id in smollm2.encode("<tool_call>"):
        grammar.accept(token_id)
    assert grammar.acceptable(free) == 0


def test_a_grammar_is_compiled_for_each_tenant(
    smollm2: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the time it takes would tell a tenant whether another has asked for the same form."""
    compiler = GrammarCompiler(smollm2)
    compile_now, compiled_for = compiler._compile, []

    def counted(source: str, plan: Any) -> Any:
        compiled_for.append(plan.tenant)
        return compile_now(source, plan)

    monkeypatch.setattr(compiler, "_compile", counted)
    for tenant in ("ann", "bob", "ann"):
        asked = dataclasses.replace(request(schema={"type": "integer"}), tenant=tenant)
        compiler.compile_for(asked, HERMES)

    assert compiled_for == ["ann", "bob"]


@pytest.mark.parametrize("tool_format", TOOL_FORMATS.values(), ids=TOOL_FORMATS)
def test_a_tool_whose_calls_could_not_be_read_is_refused_by_its_place(
    smollm2_compiler: GrammarCompiler, tool_format: ToolFormat
) -> None:
    """Else a forced call of it would come back as text."""
    for name in ("x" * 300, "a b", "a>b", "a(b", "a<b", "a\nb", "[", "a-b_9", "getWeather"):
        tools = (NOW, ChatTool(name=name, description="", parameters={}))
        said = tool_format.calls_text([(name, "{}")])
        parser = ToolCallParser(tool_format)
        is_read = any(
            isinstance(event, ToolCallStart) and event.name == name for event in parser.push(said)
        )
        if is_read:
            compiled(smollm2_compiler, request(tools=tools), tool_format)
            continue
        assert name not in ("a-b_9", "getWeather")
        with pytest.raises(RequestRejected) as caught:
            smollm2_compiler.compile_for(request(tools=tools), tool_format)
        assert caught.value.field == "tools[1].name"
