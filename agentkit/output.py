"""Output types: what the final answer must be, and how an answer's text becomes a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from agentkit.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import ValidationError

Output = TypeVar("Output")

_MAX_PROBLEMS = 5
"""Problems that the model is told of at once."""


class BadOutput(Exception):
    """An answer does not fit the output type. The message is written for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec(Generic[Output]):
    """An output type, prepared."""

    schema: Mapping[str, object] | None
    """JSON schema of the answer; None for plain text.

    Its properties lie in the order of definition, because that is the order in which models write.
    """
    parse: Callable[[str], Output]
    """Turns the text of an answer into the value.

    Raises:
        BadOutput: the text does not fit.
    """


def output_spec(output_type: type[Output]) -> OutputSpec[Output]:
    """Prepare an output type: `str`, or anything that pydantic can validate.

    Raises:
        ConfigurationError: the type has no JSON schema.
    """
    if output_type is str:
        return OutputSpec(schema=None, parse=cast("Callable[[str], Output]", str))
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(output_type)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise ConfigurationError(
            f"output_type {output_type!r} has no JSON schema: {error.message}; "
            "use str, a pydantic model, a dataclass, or a list of those"
        ) from error

    def parse(text: str) -> Output:
        try:
            return adapter.validate_json(_without_fence(text))
        except ValidationError as error:
            raise BadOutput(_problems(error)) from error

    return OutputSpec(schema=schema, parse=parse)


def _without_fence(text: str) -> str:
    """Models that are not held to a grammar like to put JSON into a Markdown code block."""
    stripped = text.strip()
    if not (stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped):
        return stripped
    return stripped[stripped.index("\n") : -3]


def _problems(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_context=False)[:_MAX_PROBLEMS]:
        place = ".".join(str(part) for part in problem["loc"])
        given = "" if problem["type"] == "json_invalid" else f", not {problem['input']!r:.80}"
        lines.append(f"- {place}: {problem['msg']}{given}" if place else f"- {problem['msg']}")
    if error.error_count() > _MAX_PROBLEMS:
        lines.append(f"- and {error.error_count() - _MAX_PROBLEMS} more")
    return "\n".join(lines)
