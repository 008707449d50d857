"""What an answer may be, and how its text becomes a value."""

# ruff: noqa: UP007, UP045 (both ways to write a union are tested)

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, TypeAdapter, field_validator
from typing_extensions import TypeAliasType, TypedDict

from agentkit import Agent, ConfigurationError, OutputError, Retry
from agentkit.answer_form import as_object, is_object, without_object
from agentkit.output import BadOutput, output_spec
from agentkit.result import RunResult
from agentkit.testing import ScriptedModel


class Found(BaseModel):
    line: int


class Missing(BaseModel):
    reason: str


class Wrapped(BaseModel):
    answer: int


@dataclass
class Spot:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    deep: bool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    children: list[Node] = []


ANSWERS: list[tuple[Any, str, object]] = [
    (Found, '{"line": 3}', Found(line=3)),
    (Spot, '{"x": 1}', Spot(1)),
    (Options, '{"deep": true}', {"deep": True}),
    (Color, '"red"', Color.RED),
    (Literal["yes", "no"], '"no"', "no"),
    (int, "42", 42),
    (bool, "true", True),
    (list[Spot], '[{"x": 1}, {"x": 2, "y": 3}]', [Spot(1), Spot(2, 3)]),
    (dict[str, int], '{"answer": 1}', {"answer": 1}),
    (tuple[int, str], '[1, "a"]', (1, "a")),
    (set[int], "[1, 1]", {1}),
    (Found | Missing, '{"reason": "none"}', Missing(reason="none")),
    (Union[Found, Missing], '{"line": 1}', Found(line=1)),
    ([Found, Missing], '{"line": 1}', Found(line=1)),
    ((Found, int), "7", 7),
    ([Found], '{"line": 1}', Found(line=1)),
    (Optional[Found], "null", None),
    (Node, '{"children": [{}]}', Node(children=[Node()])),
    (str, '{"line": 1}', '{"line": 1}'),
    (str | Found, '{"line": 1}', Found(line=1)),
    (str | Found, '"in JSON"', "in JSON"),
    (str | Found, " in words: [1] {", " in words: [1] {"),
    (str | Found, "42", "42"),
    ([str, Found], "in words", "in words"),
    (Optional[str], "null", None),
    (Optional[str], "in words", "in words"),
    (Annotated[str | Found, "a note"], "in words", "in words"),
]


@pytest.mark.parametrize(("output_type", "text", "expected"), ANSWERS)
def test_an_answer_becomes_a_value_of_its_type_and_stays_in_the_context_as_it_was_written(
    output_type: Any, text: str, expected: object
) -> None:
    agent = Agent(model=ScriptedModel([text]), output_type=output_type)
    result = agent.run_sync("x")
    assert result.output == expected
    assert type(result.output) is type(expected)
    assert result.messages[-1].text == text  # type: ignore[union-attr]
    assert RunResult.from_json(result.to_json(), output_type).output == expected


@pytest.mark.parametrize(
    ("output_type", "text", "expected"), [each for each in ANSWERS if each[0] is not str]
)
def test_an_answer_may_be_the_one_member_of_an_object_where_the_api_wants_objects(
    output_type: Any, text: str, expected: object
) -> None:
    spec = output_spec(output_type)
    assert spec.schema is not None
    asked = as_object(spec.schema)
    assert is_object(asked)
    try:
        json.loads(text)
    except ValueError:
        return  # words, which no schema gives
    if asked is spec.schema or (expected == "42" and text == "42"):
        return
    assert spec.parse(f'{{"answer": {text}}}') == expected


def test_a_models_own_field_of_that_name_is_no_wrapping() -> None:
    assert output_spec(Wrapped).parse('{"answer": 3}') == Wrapped(answer=3)
    either: Any = Wrapped | Missing
    assert output_spec(either).parse('{"answer": 3}') == Wrapped(answer=3)
    assert output_spec(either).parse('{"answer_": {"answer": 3}}') == Wrapped(answer=3)


class Said(BaseModel):
    answer: str


class Below(BaseModel):
    answer: Below | None = None


class Maybe(BaseModel):
    answer: str | None


Text = TypeAliasType("Text", str)
Mixed: Any = TypeAliasType("Mixed", Union[int, Text])


@pytest.mark.parametrize(
    ("output_type", "text", "expected"),
    [
        (Said | str, '{"answer": "hi"}', Said(answer="hi")),
        (Below, '{"answer": {"answer": null}}', Below(answer=Below())),
        (Optional[Maybe], '{"answer": null}', Maybe(answer=None)),
        (Any, '{"answer": 1}', {"answer": 1}),
        (Union[dict[str, int], int], '{"answer": 1}', {"answer": 1}),
    ],
)
def test_what_may_have_a_member_of_that_name_is_wrapped_under_another(
    output_type: Any, text: str, expected: object
) -> None:
    spec = output_spec(output_type)
    assert spec.schema is not None
    assert spec.parse(text) == expected
    asked: Any = as_object(spec.schema)
    (member,) = asked["required"]
    assert member != "answer"
    assert spec.parse(f'{{"{member}": {text}}}') == expected


@pytest.mark.parametrize("text", ["[" * 20_000, '{"answer": ' * 20_000], ids=["list", "object"])
@pytest.mark.parametrize("output_type", [list[int], Any, Union[int, str], Below])
def test_an_answer_that_lies_too_deep_is_said_to_the_model(output_type: Any, text: str) -> None:
    with pytest.raises(BadOutput, match="recursion limit"):
        output_spec(output_type).parse(text)


@pytest.mark.parametrize(("kind", "text"), [(Mixed, "words"), (Text, "words"), (Text, "5")])
def test_an_alias_is_taken_for_what_it_stands_for(kind: Any, text: str) -> None:
    assert output_spec(kind).parse(text) == text
    assert output_spec(Mixed).parse("5") == 5


@given(value=st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_wrapping_and_unwrapping_gives_back_the_value(value: object) -> None:
    text = json.dumps({"answer": value})
    inner = without_object(text)
    assert inner is not None
    assert json.loads(inner) == value


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"answer": 1, "b": 2}', "3", '{"a": 1}'])
def test_other_texts_are_not_unwrapped(text: str) -> None:
    assert without_object(text) is None


def test_shared_definitions_stay_at_the_root() -> None:
    schema = TypeAdapter(list[Found]).json_schema()
    wrapped: Any = as_object(schema)
    assert wrapped["properties"]["answer"]["items"] == {"$ref": "#/$defs/Found"}
    assert "Found" in wrapped["$defs"]
    assert "$defs" not in wrapped["properties"]["answer"]


@pytest.mark.parametrize(
    ("output_type", "text", "words"),
    [
        (Found, '{"line": "three"}', "- line: Input should be a valid integer"),
        (str | Found, '{"line": "three"}', "- Found.line: Input should be a valid integer"),
        (Found | Missing, '{"answer": {"line": "x"}}', "- Found.line: Input should be a valid int"),
        (int, "many", "Invalid JSON"),
    ],
)
def test_what_does_not_fit_is_said_for_the_model(output_type: Any, text: str, words: str) -> None:
    with pytest.raises(BadOutput) as caught:
        output_spec(output_type).parse(text)
    assert words in str(caught.value)


def _known(line: Found) -> Found:
    if line.line > 9:
        raise Retry(f"There is no line {line.line}; there are 9.")
    return line


class Strict(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n


class Checked(Agent[int, Found]):
    """You find."""

    async def check_output(self, output: Found) -> None:
        """Lines up to `deps`."""
        if output.line > self.deps:
            raise Retry(f"There is no line {output.line}; there are {self.deps}.")


@pytest.mark.parametrize(
    ("make", "bad", "good", "words"),
    [
        (
            lambda model: Agent(
                model=model,
                output_type=Annotated[Found, AfterValidator(_known)],  # type: ignore[arg-type]
            ),
            '{"line": 12}',
            '{"line": 1}',
            "There is no line 12; there are 9.",
        ),
        (lambda model: Agent(model=model, output_type=Strict), '{"n": 1}', '{"n": 2}', "be even"),
        (
            lambda model: Checked(model=model, deps=9),
            '{"line": 12}',
            '{"line": 1}',
            "There is no line 12; there are 9.",
        ),
    ],
)
def test_a_validator_of_ones_own_has_the_model_answer_again(
    make: Any, bad: str, good: str, words: str
) -> None:
    model = ScriptedModel([bad, good])
    result = make(model).run_sync("x")
    assert result.text == good
    correction = model.calls[1].request.context.messages[-1].text  # type: ignore[union-attr]
    assert words in correction
    assert model.calls[1].request.wire.startswith(model.calls[0].request.wire)


def test_a_check_that_never_passes_ends_with_the_last_answer() -> None:
    model = ScriptedModel(['{"line": 12}'] * 2)
    with pytest.raises(OutputError) as caught:
        Checked(model=model, deps=9, max_repairs=1).run_sync("x")
    assert caught.value.text == '{"line": 12}'


def test_type_arguments_of_an_instance_count_where_nothing_else_is_said() -> None:
    assert Agent[None, int](model="local:x").output_type is int
    assert Agent[None, str](model="local:x", output_type=str).output_type is str
    assert Agent[None](model="local:x").output_type is str
    assert Checked(deps=1).output_type is Found


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Agent(model="local:x", output_type=[]), "output_type is an empty list"),
        (
            lambda: Agent(model="local:x", output_type=[Found, object()]),  # type: ignore[list-item]
            "has no JSON schema",
        ),
    ],
)
def test_types_of_no_use_are_refused_at_the_first_use(make: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make().run_sync("x")


def test_a_check_that_is_not_asynchronous_is_refused() -> None:
    class Plain(Agent[None, Found]):
        """You find."""

        def check_output(self, output: Found) -> None:  # type: ignore[override]
            """Sync."""

    with pytest.raises(ConfigurationError, match=r"write: async def check_output\(self, output\)"):
        Plain(model=ScriptedModel(["x"])).run_sync("x")
