"""ToolSpec and the frozen JSON inside it."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from agentkit.toolset import Tool, ToolDefinitionError, ToolSpec, tool


def spec(**changes: object) -> ToolSpec:
    values: dict[str, object] = {
        "name": "look",
        "description": "Look.",
        "parameters": {
            "properties": {"b": {"type": "array", "items": {}}, "a": {"type": "string"}}
        },
    }
    return ToolSpec(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_names_that_every_provider_takes_are_accepted(name):
    assert spec(name=name).name == name


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 65, "ü", "a\n", None, 3])
def test_other_names_are_refused_with_the_rule(name):
    with pytest.raises(ToolDefinitionError, match="1 to 64 of the characters") as caught:
        spec(name=name)
    assert repr(name) in str(caught.value)


def test_bytes_are_the_canonical_json_of_what_the_model_sees():
    assert spec(source="here").bytes == (
        b'{"description":"Look.","name":"look","parameters":{"properties":{"a":{"type":"string"},'
        b'"b":{"items":{},"type":"array"}},"type":"object"}}'
    )


def test_the_source_is_no_part_of_a_specs_identity():
    assert spec(source="here") == spec(source="there")
    assert hash(spec(source="here")) == hash(spec(source="there"))
    assert spec(description="Other.") != spec()


def test_the_callers_schema_is_copied():
    parameters: dict[str, object] = {"properties": {"a": {"type": "string"}}}
    made = spec(parameters=parameters)
    parameters["properties"]["a"]["type"] = "integer"  # type: ignore[index]
    assert made.parameters["properties"] == {"a": {"type": "string"}}


def test_a_pinned_schema_refuses_every_change():
    parameters = spec(parameters={"required": ["a"], "properties": {"a": {}}}).parameters
    for change in (
        lambda: parameters.update(x=1),
        lambda: parameters.__setitem__("x", 1),
        lambda: parameters.pop("required"),
        lambda: parameters["properties"].clear(),
        lambda: parameters["required"].append("b"),
        lambda: parameters["required"].sort(),
        lambda: parameters["properties"]["a"].setdefault("type", "string"),
    ):
        with pytest.raises(TypeError, match="build a new ToolSpec"):
            change()


def test_a_pinned_schema_is_ordinary_json_to_everybody_else():
    parameters = spec().parameters
    assert json.loads(json.dumps(parameters)) == parameters
    assert isinstance(parameters, dict)
    copied = copy.deepcopy(parameters)
    copied["properties"]["new"] = {}
    assert pickle.loads(pickle.dumps(parameters)) == parameters
    assert "new" not in parameters["properties"]


def test_a_schema_without_a_canonical_form_names_tool_and_source():
    with pytest.raises(ToolDefinitionError, match=r"tool 'look' from shop: .*nan"):
        spec(parameters={"default": float("nan")}, source="shop")


def test_a_function_tool_is_a_tool():
    @tool
    def look() -> str:
        """Look."""
        return ""

    assert isinstance(look, Tool)
