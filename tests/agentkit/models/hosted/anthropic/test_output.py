"""Output schemas in the form that the API takes, and as text where it has none."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from agentkit.models.hosted.anthropic import AnthropicAdapter, AnthropicOptions
from agentkit.models.hosted.anthropic.output import native_schema
from tests.agentkit.models.hosted.anthropic.support import MODEL, ask, on_wire, question, sent


class Line(BaseModel):
    number: Annotated[int, Field(ge=1, description="From one.")]
    text: str = Field(max_length=20)


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    age: float | None = None


class Report(BaseModel):
    """What was found."""

    title: str
    lines: Annotated[list[Line], Field(min_length=2)]
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Node(BaseModel):
    children: list[Node]


class Free(BaseModel):
    values: dict[str, int]


def test_a_pydantic_schema_becomes_one_that_the_api_enforces() -> None:
    schema = native_schema(TypeAdapter(Report).json_schema())
    assert schema is not None
    assert list(schema["properties"]) == ["title", "lines", "pet"]  # type: ignore[call-overload]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["lines"] == {  # type: ignore[index]
        "type": "array",
        "items": {"$ref": "#/$defs/Line"},
        "description": "(minItems: 2)",
    }
    defs: Any = schema["$defs"]
    assert defs["Line"]["properties"]["number"] == {
        "description": "From one. (minimum: 1)",
        "type": "integer",
    }
    assert defs["Line"]["additionalProperties"] is False
    assert schema["properties"]["pet"] == {  # type: ignore[index]
        "anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
    }
    assert defs["Line"]["properties"]["text"] == {
        "description": "(maxLength: 20)",
        "type": "string",
    }


@pytest.mark.parametrize("kind", [Node, Free, dict[str, Any], Any, tuple[int, str], list[Any]])
def test_what_the_api_cannot_express_is_none(kind: Any) -> None:
    assert native_schema(TypeAdapter(kind).json_schema()) is None


@pytest.mark.parametrize("kind", [list[Line], int, Literal["a", "b"], Line | None])
def test_answers_need_not_be_objects(kind: Any) -> None:
    assert native_schema(TypeAdapter(kind).json_schema()) is not None


def test_the_schema_is_a_setting_and_no_text_where_the_api_has_it() -> None:
    adapter = AnthropicAdapter(MODEL)
    schema = TypeAdapter(Line).json_schema()
    request = ask(question(), output_schema=schema)
    assert on_wire(sent(adapter, request)) == on_wire(sent(adapter, ask(question())))
    assert (
        json.loads(sent(adapter, request))["output_config"]["format"]["schema"]["type"] == "object"
    )


@pytest.mark.parametrize(
    ("kind", "output"), [(Free, "native"), (Line, "prompt")], ids=["inexpressible", "by option"]
)
def test_otherwise_it_is_the_last_text_and_no_part_of_the_prefix(kind: Any, output: Any) -> None:
    adapter = AnthropicAdapter(MODEL, options=AnthropicOptions(output=output))
    schema = TypeAdapter(kind).json_schema()
    request = ask(question().with_volatile("Noon."), output_schema=schema)
    layout = adapter.layout(request)
    plain = adapter.layout(ask(question()))
    assert layout.stable == plain.stable
    assert layout.n_volatile == 2
    assert json.dumps(schema, separators=(",", ":")) in json.loads(layout.blocks[-2].data)["text"]
    assert "output_config" not in json.loads(sent(adapter, request))
    assert layout.cache_request.identity == plain.cache_request.identity
