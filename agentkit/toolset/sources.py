"""What may be given in a list of tools beside tools: functions, objects, and classes of those."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from agentkit.toolset.errors import ToolDefinitionError
from agentkit.toolset.function import FunctionTool, tool
from agentkit.toolset.tool import Tool


def tools_from(source: object) -> tuple[Tool, ...]:
    """Return the tools that something stands for; none if it is nothing of this kind.

    - a `Tool`: itself.
    - an object whose class has `@tool` methods: those, bound to it. They share its state.
    - a function, a bound method, a `functools.partial`, an object with `__call__`: one tool.
    - a class of such objects: an object of it, made without arguments.

    Raises:
        ToolDefinitionError: it is of this kind, and cannot be used; the message says why.
    """
    if isinstance(source, type):
        return tools_from(_made(source)) if _makes_tools(source) else ()
    if isinstance(source, Tool):
        return (source,)
    if methods := tuple(tool_methods(source)):
        return methods
    return (tool(source),) if callable(source) else ()


def tool_methods(owner: object) -> Iterator[Tool]:
    """Yield the `@tool` methods of an object, bound to it, in the order of definition."""
    found: dict[str, Tool] = {}
    for cls in reversed(type(owner).__mro__):
        for name, value in vars(cls).items():
            found.pop(name, None)  # an override without @tool is no tool
            if tool_in(value) is not None:
                found[name] = getattr(owner, name)
    yield from found.values()


def tool_in(value: object) -> FunctionTool[Any, Any] | None:
    """Return the tool that an attribute of a class is, also below `@staticmethod`."""
    inner = value.__func__ if isinstance(value, staticmethod) else value
    return inner if isinstance(inner, FunctionTool) else None


def _makes_tools(cls: type[object]) -> bool:
    attributes = (value for base in cls.__mro__ for value in vars(base).values())
    has_methods = any(tool_in(value) is not None for value in attributes)
    return has_methods or isinstance(cls, Tool) or inspect.isfunction(cls.__call__)


def _made(cls: type[object]) -> object:
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise ToolDefinitionError(
            f"the class {cls.__qualname__} cannot be made without arguments ({error}); "
            f"give an object of it: tools=[{cls.__name__}(...)]"
        ) from error
    return cls()
