"""Canonical bytes of schemas."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.toolset.canonical import canonical_json, canonical_schema

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "title",
                    "type",
                    "required",
                    "enum",
                    "properties",
                    "items",
                    "anyOf",
                    "default",
                    "$defs",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
SCHEMAS = st.dictionaries(
    st.sampled_from(
        ["properties", "required", "$defs", "description", "default", "anyOf", "title"]
    ),
    JSON,
)


def shuffled(value: object, source: random.Random) -> object:
    if isinstance(value, dict):
        keys = list(value)
        source.shuffle(keys)
        return {key: shuffled(value[key], source) for key in keys}
    if isinstance(value, list):
        return [shuffled(member, source) for member in value]
    return value


def test_json_is_compact_sorted_utf8():
    value = {"b": 1, "a": ["ü", True, None, 1.5], "Z": "\u2028"}
    assert canonical_json(value) == '{"Z":"\u2028","a":["ü",true,null,1.5],"b":1}'.encode()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "Out of range"),
        ({"x": float("inf")}, "Out of range"),
        ("\ud83d", "lone surrogate"),
        ({1: "x"}, "keys must be strings"),
        ({"x": {1, 2}}, "not a JSON value"),
    ],
)
def test_what_has_no_one_form_is_refused(value, words):
    with pytest.raises(ValueError, match=words):
        canonical_json(value)


def test_noise_is_dropped_but_a_property_named_title_stays():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "convertArguments",
        "type": "object",
        "properties": {
            "title": {"title": "Title", "type": "string", "description": "the title"},
            "nested": {"type": "object", "title": "N", "properties": {"title": {"type": "null"}}},
        },
        "required": ["title", "nested"],
    }
    assert canonical_schema(schema) == {
        "properties": {
            "nested": {"properties": {"title": {"type": "null"}}, "type": "object"},
            "title": {"description": "the title", "type": "string"},
        },
        "required": ["nested", "title"],
        "type": "object",
    }


def test_a_default_object_with_a_title_key_keeps_it():
    schema = {"properties": {"x": {"default": {"title": "Mr", "$schema": "s"}}}}
    assert canonical_schema(schema)["properties"]["x"]["default"] == {"$schema": "s", "title": "Mr"}


def test_missing_properties_and_items_are_filled():
    schema = {
        "type": "object",
        "properties": {"l": {"type": ["null", "array"]}, "o": {"type": "object"}},
    }
    properties = canonical_schema(schema)["properties"]
    assert properties == {
        "l": {"items": {}, "type": ["array", "null"]},
        "o": {"properties": {}, "type": "object"},
    }
    assert canonical_schema({}) == {"properties": {}, "type": "object"}


def test_order_that_carries_meaning_is_kept():
    part = {
        "enum": ["z", "a"],
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "prefixItems": [{"type": "number"}, {"type": "integer"}],
        "type": "array",
        "examples": [3, 1, 2],
    }
    result = canonical_schema({"properties": {"x": part}})["properties"]["x"]
    assert [result[key] for key in ("enum", "anyOf", "prefixItems", "examples")] == [
        part[key] for key in ("enum", "anyOf", "prefixItems", "examples")
    ]


def test_whole_floats_become_integers_and_true_stays_true():
    schema = {"properties": {"x": {"default": 1.0, "minimum": -0.0, "maximum": 2.5, "const": True}}}
    text = canonical_json(canonical_schema(schema)["properties"]["x"])
    assert text == b'{"const":true,"default":1,"maximum":2.5,"minimum":0}'
    assert canonical_json(canonical_schema({"default": 1e300})["default"]) == b"1e+300"


def test_local_references_and_boolean_schemas_stay():
    schema = {
        "$defs": {"P": {"title": "P", "type": "object", "additionalProperties": False}},
        "properties": {"p": {"$ref": "#/$defs/P"}, "any": True},
    }
    result = canonical_schema(schema)
    assert result["properties"] == {"any": True, "p": {"$ref": "#/$defs/P"}}
    assert result["$defs"]["P"] == {
        "additionalProperties": False,
        "properties": {},
        "type": "object",
    }


@pytest.mark.parametrize("kind", ["array", ["object", "null"], None, 5])
def test_a_root_that_is_no_object_is_refused(kind):
    with pytest.raises(ValueError, match="type 'object'"):
        canonical_schema({"type": kind})


def test_endless_nesting_is_refused():
    schema: dict[str, object] = {"type": "object"}
    for _ in range(500):
        schema = {"type": "object", "properties": {"x": schema}}
    with pytest.raises(ValueError, match="nested deeper"):
        canonical_schema(schema)


@given(SCHEMAS, st.randoms(use_true_random=False))
def test_key_order_never_changes_the_bytes(schema, source):
    try:
        expected = canonical_json(canonical_schema(schema))
    except ValueError:
        return
    assert canonical_json(canonical_schema(shuffled(schema, source))) == expected


@given(SCHEMAS)
def test_canonicalisation_is_idempotent_and_valid_json(schema):
    once = canonical_schema(schema)
    assert canonical_schema(once) == once
    assert canonical_json(canonical_schema(json.loads(canonical_json(once)))) == canonical_json(
        once
    )
