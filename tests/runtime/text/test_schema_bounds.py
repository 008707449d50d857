"""Bounded schemas: still what was asked for, but finite."""

from __future__ import annotations

import copy

import pytest
from jsonschema import Draft202012Validator

from agentkit_runtime.text.schema_bounds import (
    MAX_INTEGER,
    MAX_ITEMS,
    MAX_STRING_CHARS,
    UnboundableSchema,
    bounded,
    bounded_arguments,
)

CLOSED: dict[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}


def valid(schema: object, value: object) -> bool:
    assert isinstance(schema, dict)
    return bool(Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize(
    ("schema", "allowed", "refused"),
    [
        ({"type": "string"}, "x", "x" * (MAX_STRING_CHARS + 1)),
        ({"type": "string", "maxLength": 5000}, "x" * 5000, "x" * 5001),
        ({"type": "string", "minLength": 3000}, "x" * 3000, "x" * 3001),
        ({"type": ["string", "null"]}, None, "x" * (MAX_STRING_CHARS + 1)),
        ({"type": "integer"}, -5, MAX_INTEGER + 1),
        ({"type": "integer", "minimum": 10**17}, 10**17, 10**17 + MAX_INTEGER + 1),
        ({"type": "integer", "exclusiveMaximum": -(10**17)}, -(10**17) - 1, -(10**18)),
        ({"type": "number"}, 1.5, 1e300),
        ({"type": "number", "multipleOf": 0.5}, 1.5, 1.4),
        ({"minimum": 1}, 2, "text"),
        ({"type": "array", "items": {"type": "integer"}}, [1], [1] * (MAX_ITEMS + 1)),
        ({"items": {"type": "integer"}}, [1], ["a"]),
        ({"type": "array"}, [1, "a", {"b": [None]}], [1] * (MAX_ITEMS + 1)),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": 1, "b": 2}),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
            {"a": 1, "b": "x"},
            {"b": 1},
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "x"}),
        ({"type": "object"}, {"a": {"b": 1}}, {"k" * 65: 1}),
        ({}, {"a": [1, "x", None, True]}, "x" * (MAX_STRING_CHARS + 1)),
        ({"description": "anything"}, 1, 10**16),
        ({"enum": [10**16, "x"]}, 10**16, "y"),
        ({"const": 10**16}, 10**16, 1),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, "x" * (MAX_STRING_CHARS + 1)),
        (
            {"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}},
            "x",
            "x" * (MAX_STRING_CHARS + 1),
        ),
        ({"allOf": [{"$ref": "#/$defs/s"}], "title": "T", "$defs": {"s": {"const": 1}}}, 1, 2),
        (
            {
                "type": "object",
                "allOf": [
                    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "string"}}},
                ],
            },
            {"a": 1, "b": "x"},
            {"a": "x"},
        ),
        ({"type": "string", "format": "int32"}, "x", 1),
        ({"not": {"type": "string"}}, 1, "x"),
        ({"x-order": 3}, 1, 10**16),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, [1], [1, 2]),
    ],
)
def test_bounded_schemas_allow_and_refuse(
    schema: dict[str, object], allowed: object, refused: object
) -> None:
    before = copy.deepcopy(schema)
    changed = bounded(schema)
    assert schema == before
    assert valid(changed, allowed)
    assert valid(schema, allowed)
    assert not valid(changed, refused)


def test_any_value_is_allowed_down_to_a_depth() -> None:
    def nested(depth: int) -> object:
        return 1 if depth == 0 else [nested(depth - 1)]

    assert valid(bounded({}), nested(4))
    assert not valid(bounded({}), nested(5))


@pytest.mark.parametrize("parameters", [{}, {"type": "object"}, {"type": "object", "title": "T"}])
def test_tools_that_name_no_parameters_take_an_empty_object(parameters: dict[str, object]) -> None:
    assert bounded_arguments(parameters) == CLOSED


def test_parameters_without_a_type_are_an_object() -> None:
    changed = bounded_arguments({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    assert valid(changed, {"a": 1})
    assert not valid(changed, "text")


def test_open_parameters_stay_open() -> None:
    assert valid(bounded_arguments({"type": "object", "additionalProperties": True}), {"a": [1]})


def test_unknown_formats_are_dropped_and_known_ones_kept() -> None:
    assert "format" not in bounded({"type": "string", "format": "path"})
    assert bounded({"type": "string", "format": "date"})["format"] == "date"


@pytest.mark.parametrize(
    ("parameters", "allowed"),
    [
        ({"type": "object", "required": ["a"]}, {"a": [1]}),
        ({"required": ["a"]}, {"a": "x"}),
        ({"minProperties": 1}, {"a": 1}),
        ({"type": "object", "properties": {"b": {"type": "null"}}, "required": ["a"]}, {"a": 1}),
        (
            {"type": "object", "required": ["a"], "additionalProperties": {"type": "null"}},
            {"a": None},
        ),
        ({"type": ["object", "null"], "properties": {"a": {}}, "required": ["a"]}, {"a": 1}),
        ({"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]}, {"a": 1}),
    ],
)
def test_parameters_that_ask_for_something_do_not_allow_an_empty_object(
    parameters: dict[str, object], allowed: object
) -> None:
    changed = bounded_arguments(parameters)
    assert not valid(changed, {})
    assert not valid(changed, None)
    assert not valid(changed, "text")
    assert valid(changed, allowed)
    assert valid(parameters, allowed)


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "array", "items": {"type": "integer"}},
        {"type": "string"},
        {"type": ["string", "null"]},
        {"type": 5},
        {"type": None},
        {"enum": [{"a": 1}]},
        {"const": {"a": 1}},
    ],
)
def test_parameters_that_are_not_an_object_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(UnboundableSchema, match="arguments are an object"):
        bounded_arguments(parameters)


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        ({"type": "integer", "maximum": 2**64}, 2**63 - 1),
        ({"type": "integer", "minimum": -(2**64)}, -(2**63) + 1),
        ({"type": "integer", "minimum": 2**63 - 1}, 2**63 - 1),
        ({"type": "number", "maximum": 1e300}, 10**18),
    ],
)
def test_bounds_past_64_bits_are_drawn_nearer(schema: dict[str, object], allowed: object) -> None:
    assert valid(schema, allowed)
    assert valid(bounded(schema), allowed)
    assert not valid(bounded(schema), 2**63)
    assert not valid(bounded(schema), -(2**63))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 2**63},
        {"type": "integer", "maximum": -(2**64)},
        {"type": "number", "minimum": 1e300},
        {"type": "number", "minimum": 1e-14, "maximum": 2e-14},
    ],
)
def test_numbers_that_cannot_be_generated_are_refused(schema: dict[str, object]) -> None:
    with pytest.raises(UnboundableSchema):
        bounded({"type": "object", "properties": {"a": schema}})
