"""What a reply to a request may be: which tools it can call, and the schemas it is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from agentkit_runtime.chat import ChatRequest, ChatTool, ToolName
from agentkit_runtime.errors import RequestRejected
from agentkit_runtime.text.json_check import check_json
from agentkit_runtime.text.schema_bounds import UnboundableSchema, bounded, bounded_arguments
from agentkit_runtime.text.schema_endless import requires_itself
from agentkit_runtime.text.tool_formats import ToolFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPlan:
    """What a reply may be."""

    tools: tuple[tuple[int, ChatTool], ...]
    """Callable tools with their place in the request."""
    schema: Mapping[str, object] | None
    """Schema of an answer that is not a call."""
    is_free_first: bool
    """Any text may be written, until it turns into a call."""
    tool_format: ToolFormat
    """How calls are written."""
    is_parallel: bool
    """Whether several calls may come in a row, where the format has that."""
    tenant: str
    """Whose it is."""


def plan_of(request: ChatRequest, tool_format: ToolFormat) -> ReplyPlan:
    """What a reply to `request` may be. `RequestRejected` for tools that do not exist."""
    tools = _callable_tools(request)
    plan = partial(
        ReplyPlan,
        tool_format=tool_format,
        is_parallel=request.parallel_tool_calls,
        tenant=request.tenant,
    )
    choice = request.tool_choice
    if isinstance(choice, ToolName):
        chosen = tuple((i, tool) for i, tool in tools if tool.name == choice.name)
        if not chosen:
            raise RequestRejected(
                f"tool_choice names {choice.name!r}, which is not among the callable tools "
                f"{[tool.name for _, tool in tools]}",
                field="tool_choice",
            )
        return plan(tools=chosen, schema=None, is_free_first=False)
    if choice == "required":
        if not tools:
            raise RequestRejected(
                "tool_choice is 'required', but no tool can be called", field="tool_choice"
            )
        return plan(tools=tools, schema=None, is_free_first=False)
    if choice == "none":
        tools = ()
    is_free_first = bool(tools) and request.response_schema is None
    return plan(tools=tools, schema=request.response_schema, is_free_first=is_free_first)


def _callable_tools(request: ChatRequest) -> tuple[tuple[int, ChatTool], ...]:
    allowed = request.allowed_tools
    if allowed is None:
        return tuple(enumerate(request.tools))
    unknown = allowed - {tool.name for tool in request.tools}
    if unknown:
        raise RequestRejected(
            f"allowed_tools names {sorted(unknown)}, which are not among the tools "
            f"{[tool.name for tool in request.tools]}",
            field="allowed_tools",
        )
    return tuple((i, tool) for i, tool in enumerate(request.tools) if tool.name in allowed)


def arguments_schema(index: int, tool: ChatTool) -> dict[str, object]:
    """The bounded schema of a tool's arguments. `RequestRejected` where there can be none."""
    field = field_of(index)
    check_json(tool.parameters, field)
    try:
        return _finite(field, bounded_arguments(tool.parameters))
    except UnboundableSchema as error:
        raise unenforceable(f"{field} (tool {tool.name!r})", str(error), field) from error


def answer_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The bounded schema of an answer. `RequestRejected` where there can be none."""
    field = "response_schema"
    check_json(schema, field)
    try:
        return _finite(field, bounded(schema))
    except UnboundableSchema as error:
        raise unenforceable(field, str(error)) from error


def _finite(field: str, schema: dict[str, object]) -> dict[str, object]:
    if requires_itself(schema):
        raise unenforceable(field, "a value would have to hold itself; make the recursion optional")
    return schema


def field_of(index: int) -> str:
    """The request's field with a tool's parameters."""
    return f"tools[{index}].parameters"


def unenforceable(what: str, why: str, field: str | None = None) -> RequestRejected:
    """The refusal of a schema that no grammar can be made for."""
    return RequestRejected(f"{what} cannot be enforced: {why}", field=field or what)
