"""The `@tool` methods of an agent's class: which there are, and which there cannot be."""

from __future__ import annotations

import functools
import inspect

from agentkit.toolset import FunctionTool, Tool, ToolDefinitionError
from agentkit.toolset.sources import tool_in, tool_methods


def method_tools(agent: object) -> tuple[Tool, ...]:
    """Return the tools, bound to the agent, in the order of definition."""
    return tuple(tool_methods(agent))


def check_method_tools(cls: type[object], base: type[object]) -> None:
    """Check the tools of a class when it is defined.

    Args:
        cls: the new class.
        base: the class of the framework, whose attributes no tool may replace.

    Raises:
        ToolDefinitionError: a tool has the name of an attribute of `base`, or is wrapped in
            something that hides it.
    """
    reserved = {*dir(base), *inspect.get_annotations(base)}
    for owner in cls.__mro__:
        if owner in base.__mro__:
            continue
        for name, value in vars(owner).items():
            where = f"{owner.__qualname__}.{name}"
            _check_visible(value, where)
            if name in reserved and tool_in(value) is not None:
                raise ToolDefinitionError(
                    f"the tool {where} replaces {base.__name__}.{name}, which agents need; name "
                    f"the method otherwise, and to keep the tool's name write "
                    f'@tool(name="{name}")'
                )


def _check_visible(value: object, where: str) -> None:
    wrapped = _wrapped(value)
    if not isinstance(wrapped, FunctionTool):
        return
    if not isinstance(value, staticmethod):
        raise ToolDefinitionError(
            f"the tool {where} is hidden by {type(value).__name__}; "
            "make it a method with self, and put nothing above @tool"
        )
    if not wrapped.is_bound:
        raise ToolDefinitionError(
            f"the tool {where} takes self, and is static; leave out one of them"
        )


def _wrapped(value: object) -> object:
    match value:
        case staticmethod() | classmethod():
            return value.__func__
        case property():
            return value.fget
        case functools.cached_property() | functools.partialmethod():
            return value.func
        case _:
            return None
