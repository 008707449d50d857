"""What can be called as a tool, and where its name, its signature and its docstring are.

Functions and methods say that themselves. `functools.partial` and instances with `__call__` do
not: their function is inside.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from agentkit.toolset.errors import ToolDefinitionError

Binding: TypeAlias = Literal["nothing", "instance", "class"]
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where the words of a class's name meet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Something that can be called, looked at once."""

    call: Callable[..., Any]
    """What is run, with what it is bound to in front."""
    function: Callable[..., Any]
    """The function inside: its annotations and its lines of source are those of the tool."""
    name: str
    """The tool's name, if none is given."""
    doc: str
    """The docstring, without its indentation."""
    parameters: tuple[inspect.Parameter, ...]
    """Without `self` or `cls`, and without what a `partial` has fixed."""
    binds: Binding
    """What the call takes first: the instance, the class, or nothing of that kind."""
    is_async: bool
    """Whether it is a coroutine function."""

    @property
    def qualname(self) -> str:
        """Its name for error messages."""
        return self.function.__qualname__

    @property
    def source(self) -> str:
        """Its module and name."""
        return f"{self.function.__module__}.{self.qualname}"


def target_of(given: object) -> Target:
    """Look at something that was given as a tool's function.

    Raises:
        ToolDefinitionError: it cannot be called as a tool; the message says what to give.
    """
    call: Any = given.__func__ if isinstance(given, staticmethod | classmethod) else given
    if isinstance(call, property | type) or not callable(call):
        kind = type(call).__name__
        raise ToolDefinitionError(f"@tool needs a function or method, not {kind}: {call!r}")
    function = _function_in(call)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolDefinitionError(
            f"{function.__qualname__} is a generator; a tool returns one value, for example a list"
        )
    parameters = tuple(inspect.signature(call).parameters.values())
    binds = _binding(given, parameters)
    if isinstance(call, functools.partial):
        parameters = tuple(each for each in parameters if each.name not in call.keywords)
    return Target(
        call=call,
        function=function,
        name=_name_of(call, function),
        doc=_doc_of(call, function),
        parameters=parameters[1:] if binds != "nothing" else parameters,
        binds=binds,
        is_async=inspect.iscoroutinefunction(function),
    )


def _function_in(call: Any) -> Any:
    """Return the function whose code runs in the end."""
    while isinstance(call, functools.partial):
        call = call.func
    if hasattr(call, "__name__") and hasattr(call, "__qualname__"):
        return call
    method = type(call).__call__
    if not inspect.isfunction(method):
        raise ToolDefinitionError(f"{call!r} has no name; wrap it in a def")
    return method


def _binding(given: object, parameters: tuple[inspect.Parameter, ...]) -> Binding:
    """Methods are known by the convention of their first parameter's name."""
    if isinstance(given, classmethod):
        return "class"
    first = parameters[0].name if parameters else ""
    return "instance" if first == "self" and not isinstance(given, functools.partial) else "nothing"


def _name_of(call: Any, function: Any) -> str:
    if function.__name__ != "__call__":
        return str(function.__name__)
    return _WORDS.sub("_", type(_owner(call)).__name__).lower()


def _doc_of(call: Any, function: Any) -> str:
    """An instance may say in its class what it is for, and in `__call__` what the arguments are."""
    if function.__name__ != "__call__":
        return inspect.getdoc(function) or ""
    own = function.__doc__ or type(_owner(call)).__doc__ or ""
    return inspect.cleandoc(own)


def _owner(call: Any) -> object:
    """Return the instance whose `__call__` runs."""
    while isinstance(call, functools.partial):
        call = call.func
    return getattr(call, "__self__", call)
