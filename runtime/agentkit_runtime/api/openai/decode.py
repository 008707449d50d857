"""Turn a chat completion body into a `ChatRequest`. Every refusal names the field.

What this server cannot do is refused when it would change the answer, and accepted when it would
not (`user`, `metadata`, cache hints, a message's `name`). The tenant never comes from the body.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.messages import decode_messages
from agentkit_runtime.api.openai.options import (
    Templated,
    checked_key,
    priority_of,
    refuse_unsupported,
    thinking_options,
)
from agentkit_runtime.api.openai.request import (
    AllowedTools,
    ChatCompletionBody,
    FunctionDefinition,
    ResponseFormat,
    ToolBody,
    ToolChoiceBody,
    ToolReference,
)
from agentkit_runtime.api.openai.sampling import sampling_of
from agentkit_runtime.chat import ChatRequest, ChatTool, ToolChoice, ToolName

_HARMLESS_VALUES: Mapping[str, tuple[object, ...]] = {
    "add_generation_prompt": (True,),
    "audio": (),
    "best_of": (1,),
    "chat_template": (),
    "continue_final_message": (False,),
    "documents": ([],),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "grammar": (),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "include_stop_str_in_output": (False,),
    "input": (),
    "instructions": (),
    "length_penalty": (1,),
    "max_output_tokens": (),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "moderation": (),
    "previous_response_id": (),
    "prompt_logprobs": (0,),
    "skip_special_tokens": (True,),
    "stop_sequences": ([],),
    "stop_token_ids": ([],),
    "store": (False,),
    "structured_outputs": (),
    "suffix": ("",),
    "system": (),
    "use_beam_search": (False,),
    "verbosity": ("medium",),
    "web_search_options": (),
}
"""Fields that would change the answer if obeyed, and the values (besides null) that would not."""


def decode(body: ChatCompletionBody, *, request_id: str, service: Templated) -> ChatRequest:
    """The service's request. Raises `ApiError` (400) for anything that cannot be honoured."""
    refuse_unsupported(body.model_extra, _HARMLESS_VALUES)
    if body.stream_options is not None and not body.stream:
        raise ApiError("stream_options needs stream: true", param="stream_options")
    refuse_unsupported(
        None if body.stream_options is None else body.stream_options.model_extra,
        {"continuous_usage_stats": (False,)},
    )
    tools = tuple(_tool(tool, index) for index, tool in enumerate(body.tools or ()))
    _refuse_repeated_names(tools)
    names = frozenset(tool.name for tool in tools)
    choice, allowed = _tool_choice(body.tool_choice, names)
    return ChatRequest(
        messages=decode_messages(body.messages),
        tools=tools,
        tool_choice=choice,
        allowed_tools=allowed,
        response_schema=_response_schema(body.response_format),
        parallel_tool_calls=True if body.parallel_tool_calls is None else body.parallel_tool_calls,
        sampling=sampling_of(body, max_tokens=_max_tokens(body), logprobs=_logprobs(body)),
        request_id=request_id,
        session=checked_key(body.prompt_cache_key),
        priority=priority_of(body.service_tier),
        separates_reasoning=True,
        template_options=_template_options(body, service),
        ignores_end=bool(body.ignore_eos),
    )


def _template_options(body: ChatCompletionBody, service: Templated) -> dict[str, bool | str]:
    """`chat_template_kwargs` is how clients of vLLM and SGLang set the template's variables."""
    return {
        **thinking_options(body.reasoning_effort, service, "reasoning_effort"),
        **(body.chat_template_kwargs or {}),
    }


def _tool(tool: ToolBody, index: int) -> ChatTool:
    function = _function(tool, f"tools[{index}]")
    return ChatTool(
        name=function.name,
        description=function.description or "",
        parameters=function.parameters or {"type": "object", "properties": {}},
    )


def _function(tool: ToolBody, path: str) -> FunctionDefinition:
    if tool.type != "function":
        raise ApiError(
            f"{path}.type must be 'function', got {tool.type!r}",
            param=f"{path}.type",
            code="unsupported_parameter",
        )
    if tool.function is None:
        raise ApiError(f"{path}.function is missing", param=f"{path}.function")
    return tool.function


def _refuse_repeated_names(tools: tuple[ChatTool, ...]) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            raise ApiError(
                f"two tools are named {tool.name!r}; names must be unique",
                param=f"tools[{index}].function.name",
            )
        seen.add(tool.name)


def _tool_choice(
    choice: str | ToolChoiceBody | None, names: frozenset[str]
) -> tuple[ToolChoice, frozenset[str] | None]:
    """The choice, and the mask of tools that may be called (None = all)."""
    match choice:
        case None | "auto":
            return "auto", None
        case "none":
            return "none", None
        case "required":
            _need_tools(names)
            return "required", None
        case ToolChoiceBody(type="function"):
            _need_tools(names)
            return ToolName(_referenced(choice, names, "tool_choice")), None
        case ToolChoiceBody(type="allowed_tools", allowed_tools=AllowedTools() as allowed):
            return _allowed(allowed, names)
        case _:
            raise ApiError(
                "tool_choice must be 'none', 'auto', 'required', a function, or allowed_tools "
                "with its mode and tools",
                param="tool_choice",
            )


def _need_tools(names: frozenset[str]) -> None:
    if not names:
        raise ApiError("tool_choice asks for a call, but tools is empty", param="tool_choice")


def _allowed(allowed: AllowedTools, names: frozenset[str]) -> tuple[ToolChoice, frozenset[str]]:
    mask = frozenset(
        _referenced(reference, names, f"tool_choice.allowed_tools.tools[{index}]")
        for index, reference in enumerate(allowed.tools)
    )
    if allowed.mode == "required" and not mask:
        raise ApiError(
            "tool_choice.allowed_tools.mode is 'required', but its tools are empty",
            param="tool_choice.allowed_tools.tools",
        )
    return allowed.mode, mask


def _referenced(reference: ToolReference, names: frozenset[str], path: str) -> str:
    if reference.type != "function" or reference.function is None:
        raise ApiError(f"{path} must name a function of tools", param=path)
    name = reference.function.name
    if name not in names:
        raise ApiError(
            f"{path} names {name!r}, which is not in tools; known: {', '.join(sorted(names))}",
            param=path,
        )
    return name


def _response_schema(form: ResponseFormat | None) -> Mapping[str, object] | None:
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return {"type": "object"}
    if form.json_schema is None or form.json_schema.schema_ is None:
        raise ApiError(
            "response_format.json_schema.schema is missing",
            param="response_format.json_schema.schema",
        )
    return form.json_schema.schema_


def _logprobs(body: ChatCompletionBody) -> int | None:
    if body.top_logprobs and not body.logprobs:
        raise ApiError("top_logprobs needs logprobs: true", param="top_logprobs")
    return (body.top_logprobs or 0) if body.logprobs else None


def _max_tokens(body: ChatCompletionBody) -> int | None:
    """`max_tokens` is the old name of `max_completion_tokens`; two different values contradict."""
    old, new = body.max_tokens, body.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise ApiError(
            f"max_tokens is {old} and max_completion_tokens is {new}; send one of them",
            param="max_tokens",
        )
    return old if new is None else new
