"""Schemas as MCP servers in the field write them, in the form of each provider."""

from __future__ import annotations

import json
import logging
import os
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from agentkit.toolset import ToolSpec
from agentkit.toolset.provider_forms import (
    DIALECTS,
    Dialect,
    Effect,
    schema_form,
    schema_problems,
    schema_report,
    tool_problems,
)
from agentkit.toolset.provider_forms.form import _FORMS
from agentkit.toolset.provider_forms.modern import modern
from agentkit.toolset.provider_forms.notes import Notes
from agentkit.toolset.provider_forms.pointers import resolve, subschemas
from agentkit.toolset.provider_forms.usual import is_usual

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "schemas/oddities.json").read_text()
)
VALIDATORS = {
    4: jsonschema.Draft4Validator,
    7: jsonschema.Draft7Validator,
    2020: jsonschema.Draft202012Validator,
}


def schema_of(case: dict[str, Any]) -> dict[str, Any]:
    match case.get("schema_from"):
        case "huge_enum":
            cities = [f"city {number}" for number in range(2_000)]
            return {"type": "object", "properties": {"city": {"type": "string", "enum": cities}}}
        case "deep":
            inner: dict[str, Any] = {"type": "string"}
            for _ in range(14):
                inner = {"type": "object", "properties": {"in": inner}}
            return {"type": "object", "properties": {"deep": inner}}
        case _:
            schema: dict[str, Any] = case["schema"]
            return schema


def spec(schema: dict[str, Any], name: str = "srv__do") -> ToolSpec:
    return ToolSpec(name=name, description="Does it.", parameters=schema, source="MCP server 'srv'")


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def validates(schema: Any, instance: Any, draft: int = 2020) -> bool:
    return bool(VALIDATORS[draft](plain(schema)).is_valid(instance))


def every_case_and_dialect() -> list[Any]:
    return [
        pytest.param(case, dialect, id=f"{case['name']}-{dialect}")
        for case in CASES
        for dialect in DIALECTS
    ]


@pytest.mark.parametrize(("case", "dialect"), every_case_and_dialect())
def test_a_form_is_taken_by_its_api_and_allows_what_the_schema_allows(
    case: dict[str, Any], dialect: Dialect
) -> None:
    """M7, M8: requests were refused for one tool's schema."""
    made = spec(schema_of(case))
    form = schema_form(made, dialect)

    assert tool_problems(made, dialect) == ()
    for instance in case["instances"]:
        if not case.get("malformed"):
            assert validates(schema_of(case), instance, case.get("draft", 2020)), "a bad example"
        assert validates(form.parameters, instance), instance
    for instance in case.get("refuses", ()):
        if not case.get("malformed"):
            assert not validates(schema_of(case), instance, case.get("draft", 2020)), (
                "a bad example"
            )
        loose = {note.pointer for note in form.notes if note.effect is Effect.LOOSENED}
        assert loose or not validates(form.parameters, instance), instance
    if "says" in case and dialect != "local":
        assert case["says"] in str(form.parameters.get("description"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_form_does_not_depend_on_the_order_of_keys(case: dict[str, Any]) -> None:
    first = spec(schema_of(case))
    for seed in range(3):
        again = spec(_shuffled(schema_of(case), random.Random(seed)))
        assert again.bytes == first.bytes
        for dialect in DIALECTS:
            assert schema_form(again, dialect) == schema_form(first, dialect)


def _shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, _shuffled(part, rng)) for key, part in value.items()]
        rng.shuffle(items)
        return dict(items)
    return [_shuffled(part, rng) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_usual_schema_is_sent_as_it_is_and_there_is_nothing_to_tell(dialect: Dialect) -> None:
    usual = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    made = spec(usual)

    assert schema_form(made, dialect).parameters == made.parameters
    assert schema_report(made, dialect) == ()
    assert tool_problems(made, dialect) == ()


def test_a_report_says_what_was_lost_and_where() -> None:
    made = spec(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "pattern": "^x"},
                "b c": {"$ref": "#/$defs/T", "description": "d"},
            },
            "anyOf": [{"required": ["a"]}, {"required": ["b c"]}],
            "$defs": {"T": {"not": {"type": "null"}}},
        }
    )

    told = {
        dialect: [
            (note.pointer, note.keyword, note.effect) for note in schema_report(made, dialect)
        ]
        for dialect in DIALECTS
    }

    assert told == {
        "anthropic": [
            ("/anyOf", "anyOf", Effect.LOOSENED),
            ("/properties/b c", "b c", Effect.LOOSENED),
        ],
        "openai": [("/anyOf", "anyOf", Effect.LOOSENED)],
        "gemini": [
            ("/anyOf", "anyOf", Effect.LOOSENED),
            ("/properties/a/pattern", "pattern", Effect.NOT_ENFORCED),
            ("/properties/b c/$ref", "$ref", Effect.REWRITTEN),
            ("/$defs/T/not", "not", Effect.NOT_ENFORCED),
        ],
        "local": [("/$defs/T/not", "not", Effect.NOT_ENFORCED)],
    }
    assert all(note.detail and str(note) for note in schema_report(made, "gemini"))


def test_what_is_loosened_is_logged_once_for_each_tool(caplog: pytest.LogCaptureFixture) -> None:
    made = spec({"type": "object", "oneOf": [{"required": ["z"]}]}, name="srv__logged_once")

    with caplog.at_level(logging.INFO, "agentkit.toolset"):
        for _ in range(3):
            schema_form(made, "anthropic")

    (line,) = [each.getMessage() for each in caplog.records if "srv__logged_once" in each.message]
    assert "/oneOf" in line


def test_a_description_that_azure_refuses_is_told_of() -> None:
    long = ToolSpec(name="t", description="d" * 1_025, parameters={"type": "object"})

    (note,) = schema_report(long, "openai")
    assert (note.effect, note.keyword) == (Effect.MAY_BE_REFUSED, "description")
    assert schema_report(long, "anthropic") == ()


def test_a_name_that_an_api_does_not_take_is_a_problem() -> None:
    digit = spec({"type": "object"}, name="2slides__make")

    assert tool_problems(digit, "anthropic") == ()
    assert "does not match" in tool_problems(digit, "gemini")[0]


REFUSED: list[tuple[Dialect, dict[str, Any], str]] = [
    ("anthropic", {"type": "object", "anyOf": [{}]}, "top level"),
    ("anthropic", {"type": "object", "properties": {"a b": {}}}, "should match"),
    ("anthropic", {"type": "object", "properties": {"x": {"exclusiveMinimum": True}}}, "2020-12"),
    ("anthropic", {"type": "object", "properties": {"x": {"$ref": "#/no"}}}, "names nothing"),
    ("openai", {"type": "object", "not": {}}, "top level"),
    ("openai", {"type": "object", "properties": {"x": {"type": ["array"]}}}, "missing items"),
    ("openai", {"type": "object", "properties": {"x": True}}, "true or false"),
    ("openai", {"type": "string"}, "must be an object"),
    (
        "gemini",
        {"type": "object", "properties": {"x": {"$ref": "#", "description": "d"}}},
        "alongside",
    ),
    (
        "gemini",
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/definitions/X"}},
            "definitions": {"X": {}},
        },
        "undefined schema",
    ),
    (
        "gemini",
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/X"}},
            "$defs": {
                "X": {
                    "type": "object",
                    "properties": {"x": {"$ref": "#/$defs/X"}},
                    "required": ["x"],
                }
            },
        },
        "cyclic",
    ),
    ("local", {"type": "object", "enum": [1]}, "not an enum"),
]


@pytest.mark.parametrize(("dialect", "schema", "problem"), REFUSED)
def test_the_validators_refuse_what_the_apis_refuse(
    dialect: Dialect, schema: dict[str, Any], problem: str
) -> None:
    assert any(problem in each for each in schema_problems(schema, dialect))


NAMES = st.sampled_from(["a", "b", "c d", "ok"])
LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        {},
        {"type": "string", "minLength": 1},
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"type": "array"},
        {"type": "array", "items": False},
        {"type": "array", "prefixItems": [{"type": "integer"}, True]},
        {"enum": ["x", 1, None]},
        {"const": "x"},
        {"$ref": "#/$defs/A"},
        {"$ref": "#/$defs/B", "description": "b"},
        {"$ref": "#"},
        {"$ref": "#/properties/a"},
        {"type": "strange"},
        {"not": {"type": "integer"}},
        True,
        False,
    ]
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "patternProperties": st.fixed_dictionaries({"^[ab]": inner}),
            "unevaluatedProperties": st.just(False),
            "minProperties": st.integers(0, 2),
        },
    )


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    composed = st.one_of(
        st.fixed_dictionaries({"anyOf": some}),
        st.fixed_dictionaries({"oneOf": some}),
        st.fixed_dictionaries({"allOf": some}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner}),
    )
    return st.one_of(_objects(inner), composed)


SCHEMAS = st.recursive(LEAVES, _composed, max_leaves=6)
ROOTS = st.builds(
    lambda root, extra, definitions: {**root, **extra, "$defs": definitions},
    _objects(SCHEMAS),
    st.fixed_dictionaries(
        {},
        optional={
            "anyOf": st.lists(_objects(SCHEMAS), min_size=1, max_size=2),
            "oneOf": st.lists(SCHEMAS, min_size=1, max_size=2),
            "allOf": st.lists(_objects(SCHEMAS), min_size=1, max_size=2),
            "$ref": st.sampled_from(["#/$defs/A", "#/$defs/B"]),
            "not": LEAVES,
        },
    ),
    st.fixed_dictionaries({"A": SCHEMAS, "B": SCHEMAS}),
)
VALUES = st.recursive(
    st.sampled_from(["x", "", 1, None, True]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=4,
)
INSTANCES = st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=6)


@given(ROOTS, INSTANCES)
@settings(
    max_examples=int(os.environ.get("FORMS_EXAMPLES", "30")),
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
def test_whatever_a_server_writes_is_taken_by_every_api_and_never_narrowed(
    schema: dict[str, Any], instances: list[dict[str, Any]]
) -> None:
    made = spec(schema)
    assume(not _loops(plain(made.parameters)))
    fits = [each for each in [{}, *instances] if _is_valid(plain(made.parameters), each)]
    for dialect in DIALECTS:
        form = schema_form(made, dialect)
        assert tool_problems(made, dialect) == ()
        for instance in fits:
            assert _is_valid(plain(form.parameters), instance), (dialect, instance)


def _loops(root: Any) -> bool:
    """Whether a value must be checked against one schema for ever, as JSON Schema forbids."""

    def leads_back(node: Any, path: tuple[int, ...]) -> bool:
        if not isinstance(node, dict):
            return False
        if id(node) in path:
            return True
        target = resolve(node["$ref"], root) if isinstance(node.get("$ref"), str) else None
        parts = [target, *(node.get(key) for key in ("if", "then", "not"))]
        parts += [each for key in ("allOf", "anyOf", "oneOf") for each in node.get(key, ())]
        return any(leads_back(part, (*path, id(node))) for part in parts)

    return any(leads_back(node, ()) for _, node in subschemas(root))


def _is_valid(schema: Any, instance: Any) -> bool:
    """By the schema as it is, with types that do not exist, and references to nothing, left out."""
    return bool(
        jsonschema.Draft202012Validator(_without_unknown(schema, schema)).is_valid(instance)
    )


def _without_unknown(value: Any, root: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_unknown(part, root)
            for key, part in value.items()
            if not (key == "type" and part == "strange")
            and not (part == "#/properties/a" and "a" not in root["properties"])
        }
    return [_without_unknown(part, root) for part in value] if isinstance(value, list) else value


@given(ROOTS)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_a_schema_that_is_taken_for_usual_comes_out_of_the_long_way_as_it_was(
    schema: dict[str, Any],
) -> None:
    plainer = {key: part for key, part in schema.items() if key in ("type", "properties")}
    for each in (schema, plainer, *(schema_of(case) for case in CASES)):
        made = spec(each)
        for dialect in DIALECTS:
            if is_usual(made.parameters, dialect):
                notes = Notes()
                form = _FORMS[dialect](modern(made.parameters, notes), notes)
                assert plain(form) == plain(made.parameters)
                assert notes.all == ()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("bad", [0, 1.5, None, True, [], {"a": 1}, "a b"])
@pytest.mark.parametrize(
    "key",
    [
        *("$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor"),
        *("$recursiveRef", "$vocabulary", "$comment", "$schema", "$ref"),
        "dependencies",
    ],
)
def test_a_keyword_of_the_core_with_any_value_is_taken_by_every_api(
    key: str, bad: object, dialect: Dialect
) -> None:
    inner = {"type": "string", key: bad}
    whole = spec({"type": "object", "properties": {"a": inner}, key: bad})
    assert tool_problems(whole, dialect) == ()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("more", [{"enum": []}, {"enum": [{"a": "x"}]}, {"const": {"a": "x"}}])
def test_what_a_root_must_be_is_said_where_it_cannot_be_sent(
    more: dict[str, Any], dialect: Dialect
) -> None:
    whole = spec({"type": "object", "properties": {"a": {"type": "string"}}, **more})
    assert tool_problems(whole, dialect) == ()
    if dialect == "local":
        form = schema_form(whole, dialect)
        assert "It is " in str(form.parameters["description"])
        assert {note.effect for note in form.notes} == {Effect.LOOSENED}
