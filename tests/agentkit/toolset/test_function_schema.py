"""From signature and docstring to what the model sees."""

from __future__ import annotations

import dataclasses
import enum
import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentkit.toolset import FunctionTool, ToolContext, ToolDefinitionError, tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A place."""

    x: float
    title: str = "here"


@dataclasses.dataclass
class Size:
    width: int
    height: int = 2


class Range(TypedDict):
    low: int
    high: int


def properties(made: FunctionTool) -> dict:
    return made.spec.parameters["properties"]


def test_types_map_to_json_schema():
    @tool
    def every(
        text: str,
        number: float,
        count: int,
        flag: bool,
        names: list[str],
        table: dict[str, int],
        color: Color,
        point: Point,
        size: Size,
        span: Range,
        pair: tuple[int, str],
        maybe: Optional[int],  # noqa: UP045 - the old spelling must work too
        choice: Literal["a", "b"],
        bounded: Annotated[int, Field(ge=1, le=9, description="one digit")],
        either: int | str | None = None,
    ) -> str:
        """Take every type."""
        return ""

    made = properties(every)
    assert made["text"] == {"type": "string"}
    assert made["number"] == {"type": "number"}
    assert made["names"] == {"items": {"type": "string"}, "type": "array"}
    assert made["table"]["additionalProperties"] == {"type": "integer"}
    assert made["color"] == {"$ref": "#/$defs/Color"}
    assert made["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert made["maybe"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert made["choice"] == {"enum": ["a", "b"], "type": "string"}
    assert made["bounded"] == {
        "description": "one digit",
        "maximum": 9,
        "minimum": 1,
        "type": "integer",
    }
    assert made["either"]["default"] is None
    parameters = every.spec.parameters
    assert parameters["$defs"]["Color"] == {"enum": ["red", "blue"], "type": "string"}
    assert parameters["$defs"]["Point"] == {
        "description": "A place.",
        "properties": {"title": {"default": "here", "type": "string"}, "x": {"type": "number"}},
        "required": ["x"],
        "type": "object",
    }
    assert parameters["additionalProperties"] is False
    assert parameters["required"] == sorted(set(made) - {"either"})


GOOGLE = """Convert dollars.

    Rates are of today.

    Args:
        usd: amount
            in dollars
        currency (str): ISO code

    Returns:
        the amount
"""
NUMPY = """Convert dollars.

    Rates are of today.

    Parameters
    ----------
    usd : float
        amount
        in dollars
    currency : str
        ISO code

    Returns
    -------
    float
        the amount
"""
SPHINX = """Convert dollars.

    Rates are of today.

    :param usd: amount
        in dollars
    :param currency: ISO code
    :returns: the amount
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_descriptions_come_from_docstrings_of_each_style(docstring):
    def convert(usd: float, currency: str) -> float:
        return usd

    convert.__doc__ = docstring
    made = tool(convert)
    assert made.spec.description == "Convert dollars.\n\nRates are of today."
    assert properties(made)["usd"]["description"] == "amount in dollars"
    assert properties(made)["currency"]["description"] == "ISO code"


def test_a_field_description_wins_over_the_docstring():
    @tool
    def look(at: Annotated[str, Field(description="from the field")]) -> str:
        """Look.

        Args:
            at: from the docstring
        """
        return at

    assert properties(look)["at"]["description"] == "from the field"


def test_name_and_description_can_be_given():
    @tool(name="regard", description="")
    def look() -> str:
        """Look."""
        return ""

    assert (look.spec.name, look.spec.description) == ("regard", "")
    assert look.spec.source.endswith("test_name_and_description_can_be_given.<locals>.look")


def test_the_context_is_hidden_from_the_model_however_it_is_annotated():
    class Mine(ToolContext[int]):
        pass

    def plain(a: int, ctx: ToolContext) -> None: ...
    def generic(a: int, ctx: ToolContext[str]) -> None: ...
    def optional(a: int, ctx: ToolContext[str] | None = None) -> None: ...
    def annotated(a: int, ctx: Annotated[ToolContext[str], "note"]) -> None: ...
    def derived(ctx: Mine, a: int) -> None: ...

    for function in (plain, generic, optional, annotated, derived):
        assert list(properties(tool(function))) == ["a"]


def test_self_is_excluded_and_the_spec_is_the_same_bound_and_unbound():
    class Desk:
        @tool
        def look(self, at: str) -> str:
            """Look."""
            return at

    assert list(properties(Desk.look)) == ["at"]
    assert Desk().look.spec is Desk.look.spec
    assert not Desk.look.is_bound
    assert Desk().look.is_bound


def test_parameters_may_have_names_that_mean_something_to_pydantic():
    @tool
    def odd(schema: int, copy: int, model_config: int, _private: int, json: int = 3) -> int:
        """Odd."""
        return schema

    assert set(properties(odd)) == {"schema", "copy", "model_config", "_private", "json"}


def variadic(*rest: int) -> None: ...
def keywords(**rest: int) -> None: ...
def untyped(a: int, b) -> None: ...  # type: ignore[no-untyped-def]
def two_contexts(a: ToolContext[int], b: ToolContext[int]) -> None: ...
def opaque(back: Callable[[object], object], thing: object = Field()) -> None: ...
def no_schema(lock: type(sys.flags)) -> None: ...  # type: ignore[valid-type]
def generator() -> object:
    yield 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (variadic, "parameter 'rest' of variadic collects arbitrary arguments"),
        (keywords, "parameter 'rest' of keywords collects arbitrary arguments"),
        (untyped, "parameter 'b' of untyped has no type annotation; write for example `b: str`"),
        (two_contexts, "'a' and 'b' both take the ToolContext"),
        (opaque, "write `thing: Annotated"),
        (no_schema, "parameter 'lock' of type .* has no JSON schema"),
        (generator, "generator is a generator; a tool returns one value"),
        (lambda: None, "tool name '<lambda>' is not legal"),
        (property(variadic), "needs a function or method, not property"),
        (functools.partial(variadic), "parameter 'rest' of variadic collects arbitrary arguments"),
        (Point, "needs a function or method"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_where_it_is_defined(function, words):
    with pytest.raises(ToolDefinitionError, match=words):
        tool(function)


def test_a_tool_is_not_decorated_twice_and_a_timeout_is_positive():
    @tool
    def once() -> None:
        """Once."""

    with pytest.raises(ToolDefinitionError, match="is a tool already"):
        tool(once)
    with pytest.raises(ToolDefinitionError, match="timeout_s must be above 0, not 0"):
        tool(timeout_s=0)(variadic)


def test_types_defined_inside_a_function_are_found():
    class Local(BaseModel):
        size: int

    @tool
    def measure(what: Local) -> int:
        """Measure."""
        return what.size

    class Desk:
        @tool
        def weigh(self, what: Local) -> int:
            """Weigh."""
            return what.size

    assert "Local" in measure.spec.parameters["$defs"]
    assert "Local" in Desk.weigh.spec.parameters["$defs"]


def test_a_forward_reference_is_resolved_when_the_tool_is_used():
    namespace: dict[str, object] = {"tool": tool, "__name__": "elsewhere"}
    exec(
        "@tool\ndef early(x: 'Later') -> None:\n    'Early.'\n"
        "@tool\ndef never(x: 'Nowhere') -> None:\n    'Never.'\n"
        "class Later(dict[str, int]):\n    pass\n",
        namespace,
    )
    namespace["Later"] = int
    early, never = namespace["early"], namespace["never"]
    assert properties(early) == {"x": {"type": "integer"}}
    with pytest.raises(ToolDefinitionError, match="'Nowhere' is not defined; import or define it"):
        assert never.spec


SET_DEFAULT = """
from agentkit.toolset import tool
from pydantic import BaseModel

class Tags(BaseModel):
    words: set[str] = {"north", "east", "south", "west", "up", "down"}

@tool
def find(
    tags: frozenset[str] = frozenset({"red", "green", "blue", "cyan"}), more: Tags = Tags()
) -> None:
    '''Find.'''

print(find.spec.bytes.decode())
"""


def test_defaults_that_are_sets_have_the_same_bytes_under_every_hash_seed():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SET_DEFAULT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    assert '"default":["blue","cyan","green","red"]' in outputs.pop()
