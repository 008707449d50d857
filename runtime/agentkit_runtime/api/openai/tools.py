"""Tools of a chat completion's body -> functions that a template can show, and the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.custom import InputGrammar, custom_tool
from agentkit_runtime.api.openai.request import (
    AllowedTools,
    CustomFormat,
    ToolBody,
    ToolChoiceBody,
    ToolReference,
)
from agentkit_runtime.chat import ChatTool, ToolChoice, ToolName

Kinds = Mapping[str, str]
"""The type of each tool, by its name."""


def decode_tools(tools: Sequence[ToolBody]) -> tuple[ChatTool, ...]:
    """The tools of a body. Raises `ApiError` (400) for one that cannot be served."""
    decoded: list[ChatTool] = []
    for index, tool in enumerate(tools):
        decoded.append(_tool(tool, f"tools[{index}]"))
        if any(other.name == decoded[-1].name for other in decoded[:-1]):
            raise ApiError(
                f"two tools are named {decoded[-1].name!r}; names must be unique",
                param=f"tools[{index}].{tool.type}.name",
            )
    return tuple(decoded)


def kinds_of(tools: Sequence[ToolBody]) -> Kinds:
    """The types of tools that `decode_tools` took."""
    named = ((tool.custom or tool.function, tool.type) for tool in tools)
    return {found.name: kind for found, kind in named if found is not None}


def fields_of(tools: Sequence[ToolBody]) -> list[str]:
    """Where the request says what calls of each tool are like."""
    ends = {"custom": "custom.format.grammar.definition"}
    return [
        f"tools[{index}].{ends.get(tool.type, 'function.parameters')}"
        for index, tool in enumerate(tools)
    ]


def _tool(tool: ToolBody, path: str) -> ChatTool:
    match tool.type:
        case "function":
            if tool.function is None:
                raise ApiError(f"{path}.function is missing", param=f"{path}.function")
            return ChatTool(
                name=tool.function.name,
                description=tool.function.description or "",
                parameters=tool.function.parameters or {"type": "object", "properties": {}},
            )
        case "custom":
            if tool.custom is None:
                raise ApiError(f"{path}.custom is missing", param=f"{path}.custom")
            grammar = _grammar(tool.custom.format, f"{path}.custom.format")
            return custom_tool(tool.custom.name, tool.custom.description, grammar)
        case _:
            raise ApiError(
                f"{path}.type must be 'function' or 'custom', got {tool.type!r}",
                param=f"{path}.type",
                code="unsupported_parameter",
            )


def _grammar(form: CustomFormat | None, path: str) -> InputGrammar | None:
    if form is None or form.type == "text":
        return None
    if form.grammar is None:
        raise ApiError(f"{path}.grammar is missing", param=f"{path}.grammar")
    return InputGrammar(
        syntax=form.grammar.syntax,
        definition=form.grammar.definition,
        field=f"{path}.grammar.definition",
    )


def decode_choice(
    choice: str | ToolChoiceBody | None, kinds: Kinds
) -> tuple[ToolChoice, frozenset[str] | None]:
    """The choice, and the mask of tools that may be called (None = all)."""
    if (word := choice_in_a_word(choice, has_tools=bool(kinds))) is not None:
        return word, None
    match choice:
        case ToolChoiceBody(type="function" | "custom"):
            _need_tools(bool(kinds))
            return ToolName(_referenced(choice, kinds, "tool_choice")), None
        case ToolChoiceBody(type="allowed_tools", allowed_tools=AllowedTools() as allowed):
            return _allowed(allowed, kinds)
        case _:
            raise ApiError(
                "tool_choice must be 'none', 'auto', 'required', a function, a custom tool, or "
                "allowed_tools with its mode and tools",
                param="tool_choice",
            )


def choice_in_a_word(
    choice: object, *, has_tools: bool
) -> Literal["auto", "none", "required"] | None:
    """The choice where it names no tool, as both APIs have it; None where it does, or is wrong."""
    match choice:
        case None | "auto":
            return "auto"
        case "none":
            return "none"
        case "required":
            _need_tools(has_tools)
            return "required"
        case _:
            return None


def _need_tools(has_tools: bool) -> None:
    if not has_tools:
        raise ApiError("tool_choice asks for a call, but tools is empty", param="tool_choice")


def _allowed(allowed: AllowedTools, kinds: Kinds) -> tuple[ToolChoice, frozenset[str]]:
    mask = frozenset(
        _referenced(reference, kinds, f"tool_choice.allowed_tools.tools[{index}]")
        for index, reference in enumerate(allowed.tools)
    )
    if allowed.mode == "required" and not mask:
        raise ApiError(
            "tool_choice.allowed_tools.mode is 'required', but its tools are empty",
            param="tool_choice.allowed_tools.tools",
        )
    return allowed.mode, mask


def _referenced(reference: ToolReference, kinds: Kinds, path: str) -> str:
    named = reference.custom if reference.type == "custom" else reference.function
    if reference.type not in ("function", "custom") or named is None:
        raise ApiError(f"{path} must name a function or a custom tool of tools", param=path)
    if kinds.get(named.name) != reference.type:
        raise ApiError(
            f"{path} names {named.name!r}, which is no {reference.type} tool in tools; known: "
            f"{', '.join(sorted(kinds))}",
            param=path,
        )
    return named.name
