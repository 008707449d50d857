"""Tools of a body -> functions that a template can show, and what their calls are told as.

A function of a namespace is shown as `namespace__name`, behind the namespace's description; its
calls name both apart. Tools that run at the provider are not there: some of them clients add to
whatever they ask, and an answer that calls none is a legal one, so those are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, assert_never

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.custom import InputGrammar, custom_tool
from agentkit_runtime.api.openai.responses.request import (
    InputFormat,
    NamedTool,
    ResponseBody,
    ResponseTool,
    ResponseToolChoice,
)
from agentkit_runtime.api.openai.tools import choice_in_a_word
from agentkit_runtime.chat import ChatTool, ToolChoice, ToolName

ADDITIONAL_TOOLS = "additional_tools"
"""Type of input items that bring tools along."""

CallKind = Literal["function", "custom"]

_ADDED_BY_CLIENTS = frozenset(
    (
        *("web_search", "web_search_2025_08_26"),
        *("web_search_preview", "web_search_preview_2025_03_11"),
        *("image_generation", "tool_search"),
    )
)
"""Types of tools that are left out where there are others to call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableTool:
    """A tool that can be called, as the client knows it."""

    kind: CallKind
    name: str
    namespace: str | None
    field: str
    """Where the request has it."""

    @property
    def shown_name(self) -> str:
        """What the model knows it as."""
        return shown_name(self.name, self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """The tools of a request."""

    tools: tuple[ChatTool, ...] = ()
    """As the model sees them."""
    callables: Mapping[str, CallableTool] = field(default_factory=dict)
    """By shown name, in the order of `tools`."""
    fields: tuple[str, ...] = ()
    """Of each of `tools`, where the request says what its calls are like."""
    unserved: tuple[str, ...] = ()
    """What was asked for and is not done: types of tools, and `NAME.format`."""


def shown_name(name: str, namespace: str | None) -> str:
    """What the model knows a tool as."""
    return name if namespace is None else f"{namespace}__{name}"


def tools_of(body: ResponseBody) -> dict[str, ResponseTool]:
    """The tools of a body by where it has them, those included that its input begins with."""
    found = {f"tools[{index}]": tool for index, tool in enumerate(body.tools or ())}
    for number, item in enumerate(() if isinstance(body.input, str) else body.input):
        if item.type != ADDITIONAL_TOOLS:
            break
        for index, tool in enumerate(item.tools or ()):
            found[f"input[{number}].tools[{index}]"] = tool
    return found


def toolbox(tools: Mapping[str, ResponseTool]) -> Toolbox:
    """Tools, by where a body has them.

    Raises:
        ApiError: 400, for one that cannot be served.
    """
    shown: list[ChatTool] = []
    callables: dict[str, CallableTool] = {}
    unserved: list[str] = []
    for found, tool, description in _each(tools):
        if isinstance(found, str):
            unserved.append(found)
            continue
        if found.shown_name in callables:
            raise ApiError(
                f"two tools are named {found.shown_name!r}; names must be unique",
                param=f"{found.field}.name",
            )
        callables[found.shown_name] = found
        shown.append(_shown(found, tool, description))
        if tool.format is not None and tool.format.syntax == "lark":
            unserved.append(f"{found.name}.format")
    if unserved and not shown:
        _refuse(*next((tool, path) for path, tool in tools.items() if not is_served(tool)))
    ends = {"function": "parameters", "custom": "format.definition"}
    return Toolbox(
        tools=tuple(shown),
        callables=callables,
        fields=tuple(f"{tool.field}.{ends[tool.kind]}" for tool in callables.values()),
        unserved=tuple(unserved),
    )


def is_served(tool: ResponseTool) -> bool:
    """Whether a tool of a request that was taken can be called."""
    return tool.type not in _ADDED_BY_CLIENTS


_Each = tuple["CallableTool | str", ResponseTool, str]


def _each(tools: Mapping[str, ResponseTool]) -> Iterator[_Each]:
    """Each tool that can be called, with its description; the type of each that is left out."""
    for path, tool in tools.items():
        if tool.type == "namespace":
            yield from _in_namespace(tool, path)
        elif not is_served(tool):
            yield tool.type, tool, ""
        else:
            yield _callable(tool, path, None), tool, tool.description or ""


def _in_namespace(namespace: ResponseTool, path: str) -> Iterator[_Each]:
    name = _needed_name(namespace, path)
    before = f"{namespace.description}\n\n" if namespace.description else ""
    for index, tool in enumerate(namespace.tools or ()):
        found = _callable(tool, f"{path}.tools[{index}]", name)
        yield found, tool, f"{before}{tool.description or ''}"
        before = ""  # once, in front of the first


def _callable(tool: ResponseTool | NamedTool, path: str, namespace: str | None) -> CallableTool:
    match tool.type:
        case "function" | "custom" as kind:
            name = _needed_name(tool, path)
            return CallableTool(kind=kind, name=name, namespace=namespace, field=path)
        case "namespace" if namespace is not None:
            raise ApiError(
                f"{path}.type is 'namespace', but a namespace holds only 'function' and 'custom'",
                param=f"{path}.type",
                code="unsupported_parameter",
            )
        case _:
            _refuse(tool, path)


def _refuse(tool: ResponseTool | NamedTool, path: str) -> NoReturn:
    raise ApiError(
        f"{path}.type is {tool.type!r}; this server runs no tools of its own and serves only "
        "'function', 'custom' and 'namespace'",
        param=f"{path}.type",
        code="unsupported_parameter",
    )


def _needed_name(tool: ResponseTool | NamedTool, path: str) -> str:
    if tool.name is None:
        raise ApiError(f"{path}.name is missing", param=f"{path}.name")
    return tool.name


def _shown(found: CallableTool, tool: ResponseTool, description: str) -> ChatTool:
    match found.kind:
        case "function":
            parameters = tool.parameters or {"type": "object", "properties": {}}
            return ChatTool(name=found.shown_name, description=description, parameters=parameters)
        case "custom":
            grammar = _grammar(tool.format, f"{found.field}.format")
            return custom_tool(found.shown_name, description, grammar)
        case _:
            assert_never(found.kind)


def _grammar(form: InputFormat | None, path: str) -> InputGrammar | None:
    if form is None or form.type == "text":
        return None
    if form.syntax is None:
        raise ApiError(f"{path}.syntax is missing", param=f"{path}.syntax")
    if form.definition is None:
        raise ApiError(f"{path}.definition is missing", param=f"{path}.definition")
    return InputGrammar(syntax=form.syntax, definition=form.definition, field=f"{path}.definition")


def tool_choice(
    choice: str | ResponseToolChoice | None, box: Toolbox
) -> tuple[ToolChoice, frozenset[str] | None]:
    """The choice, and the mask of tools that may be called (None = all)."""
    if (word := choice_in_a_word(choice, has_tools=bool(box.tools))) is not None:
        return word, None
    match choice:
        case ResponseToolChoice(type="function" | "custom", name=str()):
            return ToolName(_known(choice, box, "tool_choice")), None
        case ResponseToolChoice(type="allowed_tools", tools=list(tools), mode=mode):
            return _allowed(tools, mode or "auto", box)
        case _:
            raise ApiError(
                "tool_choice must be 'none', 'auto', 'required', a function or custom tool with "
                "its name, or allowed_tools with its mode and tools",
                param="tool_choice",
            )


def _allowed(
    tools: Sequence[NamedTool], mode: ToolChoice, box: Toolbox
) -> tuple[ToolChoice, frozenset[str]]:
    mask = frozenset(
        _known(tool, box, f"tool_choice.tools[{index}]") for index, tool in enumerate(tools)
    )
    if mode == "required" and not mask:
        raise ApiError(
            "tool_choice.mode is 'required', but its tools are empty", param="tool_choice.tools"
        )
    return mode, mask


def _known(tool: NamedTool, box: Toolbox, path: str) -> str:
    wanted = _callable(tool, path, tool.namespace)
    found = box.callables.get(wanted.shown_name)
    if found is None or found.kind != wanted.kind:
        raise ApiError(
            f"{path} names {wanted.shown_name!r}, which is no {wanted.kind} tool in tools; known: "
            f"{', '.join(sorted(box.callables))}",
            param=path,
        )
    return found.shown_name
