"""What a Python signature says about a tool: parameters, types, descriptions.

Only the standard library and docstring_parser are used here; pydantic starts in schema.py.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass

from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.target import Target
from agentkit.toolset.tool import ToolContext

_PARAMETER_SECTIONS = frozenset(("param", "parameter", "arg", "argument", "key", "keyword"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter that the model fills in."""

    name: str
    annotation: object
    default: object
    """`inspect.Parameter.empty` when the model must give a value."""
    description: str | None
    positional_only: bool

    @property
    def is_required(self) -> bool:
        """Whether the model must give a value."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A tool function's parameters in the order of definition, without `self` and the context."""

    parameters: tuple[Parameter, ...]
    context_parameter: str | None
    """The parameter that receives the `ToolContext`."""
    description: str
    """The docstring without its parameter sections."""


def check_shape(target: Target, tool_name: str) -> None:
    """Raise `ToolDefinitionError` if a parameter cannot appear in a schema at all."""
    for parameter in target.parameters:
        where = f"tool {tool_name!r}: parameter {parameter.name!r} of {target.qualname}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ToolDefinitionError(
                f"{where} collects arbitrary arguments, which have no schema; name each parameter"
            )
        if parameter.annotation is parameter.empty:
            raise ToolDefinitionError(
                f"{where} has no type annotation; write for example `{parameter.name}: str`"
            )


def local_names(depth: int) -> dict[str, object]:
    """The local names visible where a tool is defined, for annotations written as strings.

    `depth` counts frames from the caller. Inside a class body the enclosing function's names
    count too.
    """
    frame: types.FrameType | None = sys._getframe(depth + 1)
    names: list[dict[str, object]] = []
    while frame is not None and frame.f_locals is not frame.f_globals:
        names.append(dict(frame.f_locals))
        if "__qualname__" not in frame.f_locals:
            break
        frame = frame.f_back
    return {name: value for scope in reversed(names) for name, value in scope.items()}


def read_signature(target: Target, tool_name: str, names: Mapping[str, object]) -> Signature:
    """Resolve the annotations and the docstring of a function.

    Raises:
        NameError: an annotation names something that does not exist (yet).
        ToolDefinitionError: two parameters take the context, or a default is a pydantic `Field`.
    """
    hints = typing.get_type_hints(target.function, localns=dict(names), include_extras=True)
    description, documented = _read_docstring(target.doc)
    parameters: list[Parameter] = []
    context_parameter: str | None = None
    for parameter in target.parameters:
        if _is_context(hints[parameter.name]):
            context_parameter = _only_one(context_parameter, parameter.name, tool_name)
            continue
        _check_default(parameter, tool_name)
        parameters.append(
            Parameter(
                name=parameter.name,
                annotation=hints[parameter.name],
                default=parameter.default,
                description=documented.get(parameter.name),
                positional_only=parameter.kind is parameter.POSITIONAL_ONLY,
            )
        )
    return Signature(
        parameters=tuple(parameters), context_parameter=context_parameter, description=description
    )


def _is_context(hint: object) -> bool:
    """Whether the annotation is `ToolContext` or a subclass, also with `[...]` or `| None`."""
    if typing.get_origin(hint) is typing.Annotated:
        return _is_context(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_context(member) for member in typing.get_args(hint))
    kind = typing.get_origin(hint) or hint
    return isinstance(kind, type) and issubclass(kind, ToolContext)


def _only_one(known: str | None, name: str, tool_name: str) -> str:
    if known is not None:
        raise ToolDefinitionError(
            f"tool {tool_name!r}: parameters {known!r} and {name!r} both take the ToolContext; "
            "keep one"
        )
    return name


def _check_default(parameter: inspect.Parameter, tool_name: str) -> None:
    # By name, so that pydantic is not imported for it: a plain call of the function would get the
    # FieldInfo object itself as its argument.
    if type(parameter.default).__name__ == "FieldInfo":
        raise ToolDefinitionError(
            f"tool {tool_name!r}: the default of {parameter.name!r} is a pydantic Field; write "
            f"`{parameter.name}: Annotated[..., Field(...)] = value`, so that plain calls work too"
        )


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and those of the parameters, of a Google, NumPy or Sphinx docstring."""
    if not text:
        return "", {}
    import docstring_parser

    parsed = docstring_parser.parse(text)
    documented = {
        param.arg_name: " ".join(param.description.split())
        for param in parsed.params
        if param.description and param.args and param.args[0] in _PARAMETER_SECTIONS
    }
    return parsed.description or "", documented
