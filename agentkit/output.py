"""Output types: what the final answer must be, and how an answer's text becomes a value.

How the model is held to it is the adapter's choice, and never changes the list of tools: by a
schema of the API (Anthropic, Gemini, OpenAI), by a grammar (local models), or by words at the very
end of the request (where neither exists). What does not fit is corrected by the loop in each case.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from agentkit.answer_form import is_object, member_of, without_object
from agentkit.errors import ConfigurationError
from agentkit.toolset.errors import Retry

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Output = TypeVar("Output")
OutputType: TypeAlias = type[Output] | Sequence[type[Output]]
"""What an answer must be: a type, or a list of types of which it must be one."""

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


def output_spec(output_type: OutputType[Output]) -> OutputSpec[Output]:
    """Prepare an output type: `str`, or anything that pydantic can validate.

    A union with `str` in it also takes text that is no JSON, as it is. Validators of the type may
    raise `ValueError` or `Retry`; the model reads the text and corrects its answer.

    Raises:
        ConfigurationError: the type has no JSON schema.
    """
    kind = one_type(output_type)
    if kind is str:
        return OutputSpec(schema=None, parse=cast("Callable[[str], Output]", str))
    from pydantic import PydanticUserError, TypeAdapter

    try:
        adapter: TypeAdapter[Output] = TypeAdapter(kind)
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise ConfigurationError(
            f"output_type {output_type!r} has no JSON schema: {error.message}; "
            "use str, a pydantic model, a dataclass, or a list of those"
        ) from error
    member = None if is_object(schema) else member_of(schema)
    reader = _Reader(adapter, member=member, may_be_text=_has_text(kind))
    return OutputSpec(schema=schema, parse=reader.read)


def one_type(output_type: Any) -> Any:
    """Return an output type as one type: of a list or tuple of types, their union.

    Raises:
        ConfigurationError: the list is empty.
    """
    if not isinstance(output_type, list | tuple):
        return str if _alias_value(output_type) is str else output_type
    if not output_type:
        raise ConfigurationError("output_type is an empty list: give at least one type, or str")
    return Union[tuple(output_type)]  # noqa: UP007  (it is not written, but made)


class _Reader(Generic[Output]):
    """Turns the text of an answer into its value."""

    def __init__(
        self, adapter: TypeAdapter[Output], *, member: str | None, may_be_text: bool
    ) -> None:
        self._adapter = adapter
        self._member = member
        """As which an API may have been asked for it, as the one member of an object."""
        self._may_be_text = may_be_text

    def read(self, text: str) -> Output:
        """Return the value.

        Raises:
            BadOutput: the text does not fit.
        """
        from pydantic import ValidationError

        json_text = _without_fence(text)
        try:
            return self._validated(json_text)
        except ValidationError as error:
            if self._may_be_text and not _is_structured(json_text):
                return cast("Output", text)
            raise BadOutput(_problems(error)) from error
        except Retry as problem:
            raise BadOutput(str(problem)) from problem

    def _validated(self, json_text: str) -> Output:
        inner = None if self._member is None else without_object(json_text, self._member)
        return self._adapter.validate_json(json_text if inner is None else inner)


def _has_text(kind: object) -> bool:
    """Whether plain text is one of a type's alternatives."""
    kind = _alias_value(kind)
    if get_origin(kind) is Annotated:
        return _has_text(get_args(kind)[0])
    is_union = get_origin(kind) in (Union, types.UnionType)
    return is_union and any(
        _alias_value(member) is str or _has_text(member) for member in get_args(kind)
    )


def _alias_value(kind: Any) -> Any:
    """Return what a type alias (`type A = ...`) stands for; other types as they are."""
    from typing_extensions import TypeAliasType

    # Also of an alias with type arguments: what is asked of it does not depend on them.
    while isinstance(get_origin(kind) or kind, TypeAliasType):
        kind = (get_origin(kind) or kind).__value__
    return kind


def _is_structured(text: str) -> bool:
    """Whether a text is a JSON object or array: then it was not meant as plain text."""
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False
    except RecursionError:
        return True


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
