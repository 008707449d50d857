"""Forms of servers: what of a schema a person may be asked to fill in, and the check of that."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset.forms import form_of, problem_with


def form(**properties: Any) -> str:
    return form_of({"type": "object", "properties": properties})


def test_a_form_keeps_its_fields_in_order_with_what_is_allowed() -> None:
    kept = form_of(
        {
            "$schema": "x",
            "type": "object",
            "properties": {
                "mail": {"type": "string", "format": "email", "pattern": "(a+)+$", "title": "Mail"},
                "age": {"type": "integer", "minimum": 0, "maximum": 150, "multipleOf": 7},
                "sure": {"type": "boolean", "default": False},
                "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Middle"]},
                "tone": {"type": "string", "oneOf": [{"const": "a", "title": "A", "x": 1}]},
                "many": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["x"]},
                    "maxItems": 2,
                },
            },
            "required": ["mail", "unknown"],
            "additionalProperties": {"$ref": "http://elsewhere"},
        }
    )
    assert json.loads(kept) == {
        "type": "object",
        "properties": {
            "mail": {"type": "string", "title": "Mail", "format": "email"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "sure": {"type": "boolean", "default": False},
            "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Middle"]},
            "tone": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            "many": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "maxItems": 2},
        },
        "required": ["mail"],
    }
    assert list(json.loads(kept)["properties"])[:2] == ["mail", "age"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (None, "no object with properties"),
        ({"type": "object"}, "no object with properties"),
        ({"properties": {"a": 1}}, "has no schema"),
        ({"properties": {"a": {"type": "object"}}}, "of type 'object'"),
        ({"properties": {"a": {"type": ["string", "null"]}}}, "of type"),
        ({"properties": {"a": {"type": "array", "items": {"type": "string"}}}}, "no choices"),
        ({"properties": {"a": {"type": "string", "oneOf": [{"const": 1}]}}}, "no text"),
        ({"properties": {}, "required": "a"}, "no list of names"),
        ({"properties": {f"f{i}": {"type": "string"} for i in range(101)}}, "101 fields"),
        ({"properties": {"\ud800": {"type": "string"}}}, "surrogate"),
        ({"properties": {"a": {"type": "number", "default": float("nan")}}}, "JSON"),
    ],
)
def test_what_is_no_form_is_refused(schema: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        form_of(schema)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"n": 1, "s": "m"}, None),
        ({"n": 1.5}, "n: it is not as the form wants it (type: 'integer')"),
        ({"n": 10}, "n: it is not as the form wants it (maximum: 9)"),
        ({"s": "xl"}, "s: it is not as the form wants it (enum: ['s', 'm'])"),
        ({"t": "c"}, "t: "),
        ({"other": 1}, "Additional properties"),
        ({"n": None}, "n: it is not as"),
    ],
)
def test_values_are_checked_field_by_field(values: dict[str, object], problem: str | None) -> None:
    schema = form(
        n={"type": "integer", "maximum": 9},
        s={"type": "string", "enum": ["s", "m"]},
        t={"type": "string", "oneOf": [{"const": "a"}, {"const": "b"}]},
    )
    found = problem_with(values, schema)
    assert (found is None) == (problem is None)
    assert problem is None or problem in (found or "")


def test_a_servers_pattern_cannot_keep_the_check_busy() -> None:
    began_s = time.process_time()
    assert (
        problem_with({"a": "a" * 50 + "!"}, form(a={"type": "string", "pattern": "(a+)+$"})) is None
    )
    assert time.process_time() - began_s < 5


def test_a_form_with_impossible_bounds_is_said_to_be_broken() -> None:
    assert "form itself" in (problem_with({}, form(a={"type": "string", "minLength": "x"})) or "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "a", "enum", "oneOf", "const", "items", "required"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON, JSON)
def test_any_schema_is_a_form_or_a_value_error(schema: object, value: object) -> None:
    for given_schema in (schema, {"properties": {"a": schema}, "required": ["a"]}):
        try:
            kept = form_of(given_schema)
        except ValueError:
            continue
        problem_with({"a": value}, kept)
