"""Tools and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.api.anthropic.request import ToolBody, ToolChoiceBody
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatTool, ToolChoice, ToolName

_SHOWN_OTHERWISE = {
    "allowed_callers": (["direct"],),
    "input_examples": ([],),
    "toolset_name": (),
}
"""Fields of a tool that this server cannot honour, and the values (besides null) that ask for
nothing. `defer_loading` and `eager_input_streaming` are no such: all tools are shown at once, and
all input is streamed as it is generated."""


def decode_tools(tools: Sequence[ToolBody] | None) -> tuple[ChatTool, ...]:
    """The tools. Raises `ApiError` (400) for those that the caller does not run itself."""
    decoded: list[ChatTool] = []
    seen: set[str] = set()
    for n, tool in enumerate(tools or ()):
        path = f"tools[{n}]"
        _require_callers_own(tool, path)
        if tool.name in seen:
            raise ApiError(
                f"two tools are named {tool.name!r}; names must be unique", param=f"{path}.name"
            )
        seen.add(tool.name)
        if tool.input_schema is None:
            raise ApiError(f"{path}.input_schema is missing", param=f"{path}.input_schema")
        decoded.append(
            ChatTool(
                name=tool.name, description=tool.description or "", parameters=tool.input_schema
            )
        )
    return tuple(decoded)


def decode_choice(choice: ToolChoiceBody | None, tools: Sequence[ChatTool]) -> ToolChoice:
    """The choice. Raises `ApiError` (400) when there is nothing to choose from."""
    if choice is None or choice.type == "auto":
        return "auto"
    if choice.type == "none":
        return "none"
    if not tools:
        raise ApiError("tool_choice asks for a call, but tools is empty", param="tool_choice")
    if choice.type == "any":
        return "required"
    names = sorted(tool.name for tool in tools)
    if choice.name not in names:
        raise ApiError(
            f"tool_choice.name is {choice.name!r}, which is not in tools; known: "
            f"{', '.join(names)}",
            param="tool_choice.name",
        )
    return ToolName(choice.name)


def _require_callers_own(tool: ToolBody, path: str) -> None:
    if tool.type not in (None, "custom"):
        raise ApiError(
            f"{path}.type is {tool.type!r}; this server runs no tools of its own and knows no "
            "built-in ones: describe it as a custom tool with an input_schema",
            param=f"{path}.type",
            code="unsupported_parameter",
        )
    for name, harmless in _SHOWN_OTHERWISE.items():
        value = (tool.model_extra or {}).get(name)
        if value is not None and value not in harmless:
            raise ApiError(
                f"{path}.{name} is not supported by this server; leave it out",
                param=f"{path}.{name}",
                code="unsupported_parameter",
            )
