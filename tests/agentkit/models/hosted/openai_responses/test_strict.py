"""Which schemas are strict, with proof, and what closing them means."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from agentkit.models.hosted.openai_responses.strict import strict_form


class Leaf(BaseModel):
    kind: Literal["a", "b"]
    note: str | None


class Tree(BaseModel):
    leaf: Leaf
    leaves: list[Leaf]
    child: Tree | None


class Alias(BaseModel):
    when: str = Field(json_schema_extra={"format": "date-time"})


def schema(of: type[Any]) -> dict[str, Any]:
    return TypeAdapter(of).json_schema()


def test_nested_and_recursive_models_are_closed_everywhere() -> None:
    form = strict_form(schema(Alias) | {"$defs": {"Leaf": schema(Leaf)}})

    assert form is not None
    assert form["additionalProperties"] is False
    assert form["$defs"]["Leaf"]["additionalProperties"] is False  # type: ignore[index]


def test_the_schema_itself_is_left_alone() -> None:
    given = schema(Leaf)
    before = repr(given)

    form = strict_form(given)

    assert form is not None
    assert list(form["properties"]) == ["kind", "note"]  # type: ignore[call-overload]
    assert repr(given) == before


def test_what_fits_the_closed_schema_fits_the_model() -> None:
    assert strict_form(schema(Leaf)) is not None
    Leaf.model_validate_json('{"kind":"a","note":null}')
    with pytest.raises(ValidationError):
        Leaf.model_validate_json('{"kind":"a"}')


TEXT = {"type": "string"}
OBJECT: dict[str, object] = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}


@pytest.mark.parametrize(
    "loose",
    [
        TEXT,
        {"type": "array", "items": TEXT},
        {"anyOf": [OBJECT]},
        OBJECT | {"required": []},
        {"type": "object", "properties": {"a": TEXT}},
        OBJECT | {"additionalProperties": True},
        OBJECT | {"additionalProperties": TEXT},
        OBJECT | {"properties": {"a": TEXT | {"default": "x"}}},
        OBJECT | {"properties": {"a": TEXT | {"maxLength": 5}}},
        OBJECT | {"properties": {"a": TEXT | {"format": "uri"}}},
        OBJECT | {"properties": {"a": {"type": "array"}}},
        OBJECT | {"properties": {"a": {"allOf": [TEXT]}}},
        OBJECT | {"properties": {"a": {"description": "anything"}}},
        OBJECT | {"properties": {"a": {"$ref": "#/$defs/b", "description": "x"}}},
        OBJECT | {"properties": {"a": True}},
        OBJECT | {"properties": {"a": {"enum": list(range(1001))}}},
    ],
)
def test_what_strict_mode_has_not_is_not_called_strict(loose: dict[str, object]) -> None:
    assert strict_form(loose) is None


def test_deep_nesting_is_not_called_strict() -> None:
    nested: dict[str, object] = dict(OBJECT)
    for _ in range(11):
        nested = OBJECT | {"properties": {"a": nested}}

    assert strict_form(nested) is None
    assert strict_form(OBJECT | {"properties": {"a": OBJECT}}) is not None


def test_a_recursive_root_is_only_a_reference_and_so_not_strict() -> None:
    assert "$ref" in schema(Tree)
    assert strict_form(schema(Tree)) is None
