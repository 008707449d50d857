"""Turn a body of the Responses API into a `ChatRequest`. Every refusal names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.options import (
    Templated,
    checked_key,
    priority_of,
    refuse_unsupported,
    thinking_options,
)
from agentkit_runtime.api.openai.responses.items import decode_items
from agentkit_runtime.api.openai.responses.request import (
    NamedTool,
    ResponseBody,
    ResponseTool,
    ResponseToolChoice,
    TextConfig,
)
from agentkit_runtime.api.openai.responses.store import Conversation
from agentkit_runtime.chat import (
    ChatMessage,
    ChatRequest,
    ChatTool,
    History,
    ToolChoice,
    ToolName,
)
from agentkit_runtime.types import SamplingParams

_HARMLESS_VALUES: Mapping[str, tuple[object, ...]] = {
    "background": (False,),
    "context_management": ([],),
    "conversation": (),
    "frequency_penalty": (0,),
    "ignore_eos": (False,),
    "logit_bias": ({},),
    "max_completion_tokens": (),
    "max_tokens": (),
    "messages": (),
    "min_p": (0,),
    "moderation": (),
    "n": (1,),
    "presence_penalty": (0,),
    "prompt": (),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "stop": ([],),
}
"""Fields that would change the answer if obeyed, and the values (besides null) that would not.

Those of Chat Completions are among them: a bound that is not obeyed must not look obeyed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A request, and what its answer is stored with."""

    chat: ChatRequest
    conversation: Conversation
    """Without the answer."""


def decode(
    body: ResponseBody,
    previous: Conversation | None,
    *,
    request_id: str,
    service: Templated,
) -> Decoded:
    """The service's request. Raises `ApiError` (400) for anything that cannot be honoured."""
    _refuse_unsupported(body)
    tools = _tools(body.tools or ())
    choice, allowed = _tool_choice(body.tool_choice, frozenset(tool.name for tool in tools))
    options = thinking_options(
        None if body.reasoning is None else body.reasoning.effort, service, "reasoning.effort"
    )
    front = (body.instructions, tools, options)
    earlier = () if previous is None else previous.messages
    new = decode_items(body.input, _call_ids(earlier))
    system = _system(body.instructions)
    chat = ChatRequest(
        messages=(*system, *earlier, *new),
        tools=tools,
        tool_choice=choice,
        allowed_tools=allowed,
        response_schema=_schema(body.text),
        parallel_tool_calls=body.parallel_tool_calls is not False,
        sampling=_sampling(body),
        request_id=request_id,
        session=checked_key(body.prompt_cache_key),
        priority=priority_of(body.service_tier),
        separates_reasoning=True,
        template_options=options,
        # With another front the model reads another conversation: its ids begin otherwise.
        history=_history(previous, len(system))
        if previous is not None and previous.front == front
        else None,
    )
    return Decoded(
        chat=chat, conversation=Conversation(front=front, messages=(*earlier, *new), ids=())
    )


def _refuse_unsupported(body: ResponseBody) -> None:
    refuse_unsupported(body.model_extra, _HARMLESS_VALUES)
    if body.truncation == "auto":
        raise ApiError(
            "truncation 'auto' is not supported by this server: dropping what comes first would "
            "lose the cached prefix on every turn; shorten the input instead",
            param="truncation",
            code="unsupported_parameter",
        )
    if body.text is not None and body.text.verbosity not in (None, "medium"):
        raise ApiError(
            "text.verbosity is not supported by this server; leave it out",
            param="text.verbosity",
            code="unsupported_parameter",
        )


def _system(instructions: str | None) -> tuple[ChatMessage, ...]:
    return (ChatMessage(role="system", content=instructions),) if instructions else ()


def _history(previous: Conversation, n_system: int) -> History:
    return History(ids=tuple(previous.ids), n_messages=n_system + len(previous.messages))


def _call_ids(messages: Sequence[ChatMessage]) -> frozenset[str]:
    return frozenset(call.id for message in messages for call in message.tool_calls)


def _tools(tools: Sequence[ResponseTool]) -> tuple[ChatTool, ...]:
    decoded: list[ChatTool] = []
    for index, tool in enumerate(tools):
        name = _function_name(tool, f"tools[{index}]")
        if any(other.name == name for other in decoded):
            raise ApiError(
                f"two tools are named {name!r}; names must be unique", param=f"tools[{index}].name"
            )
        parameters = tool.parameters or {"type": "object", "properties": {}}
        decoded.append(
            ChatTool(name=name, description=tool.description or "", parameters=parameters)
        )
    return tuple(decoded)


def _function_name(tool: ResponseTool | NamedTool, path: str) -> str:
    if tool.type != "function":
        raise ApiError(
            f"{path}.type is {tool.type!r}; this server runs no tools of its own and serves only "
            "'function'",
            param=f"{path}.type",
            code="unsupported_parameter",
        )
    if tool.name is None:
        raise ApiError(f"{path}.name is missing", param=f"{path}.name")
    return tool.name


def _tool_choice(
    choice: str | ResponseToolChoice | None, names: frozenset[str]
) -> tuple[ToolChoice, frozenset[str] | None]:
    """The choice, and the mask of tools that may be called (None = all)."""
    match choice:
        case None | "auto":
            return "auto", None
        case "none":
            return "none", None
        case "required" if names:
            return "required", None
        case "required":
            raise ApiError("tool_choice asks for a call, but tools is empty", param="tool_choice")
        case ResponseToolChoice(type="function", name=str(name)):
            return ToolName(_known(name, names, "tool_choice")), None
        case ResponseToolChoice(type="allowed_tools", tools=list(tools), mode=mode):
            return _allowed(tools, mode or "auto", names)
        case _:
            raise ApiError(
                "tool_choice must be 'none', 'auto', 'required', a function with its name, or "
                "allowed_tools with its mode and tools",
                param="tool_choice",
            )


def _allowed(
    tools: Sequence[NamedTool], mode: ToolChoice, names: frozenset[str]
) -> tuple[ToolChoice, frozenset[str]]:
    mask = frozenset(
        _known(_function_name(tool, path), names, path)
        for tool, path in ((tool, f"tool_choice.tools[{i}]") for i, tool in enumerate(tools))
    )
    if mode == "required" and not mask:
        raise ApiError(
            "tool_choice.mode is 'required', but its tools are empty", param="tool_choice.tools"
        )
    return mode, mask


def _known(name: str, names: frozenset[str], path: str) -> str:
    if name not in names:
        raise ApiError(
            f"{path} names {name!r}, which is not in tools; known: {', '.join(sorted(names))}",
            param=path,
        )
    return name


def _schema(text: TextConfig | None) -> Mapping[str, object] | None:
    form = None if text is None else text.format
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return {"type": "object"}
    if form.schema_ is None:
        raise ApiError("text.format.schema is missing", param="text.format.schema")
    if form.name is None:
        raise ApiError("text.format.name is missing", param="text.format.name")
    return form.schema_


def _sampling(body: ResponseBody) -> SamplingParams:
    greedy = not body.temperature or body.top_p == 0
    prewarm = body.prompt_cache_options is not None and body.prompt_cache_options.prewarm
    wants_logprobs = body.top_logprobs or "message.output_text.logprobs" in (body.include or ())
    return SamplingParams(
        temperature=0.0 if greedy else float(body.temperature or 0.0),
        top_k=body.top_k or 0,
        top_p=body.top_p or 1.0,
        seed=body.seed,
        max_tokens=0 if prewarm else body.max_output_tokens,
        logprobs=(body.top_logprobs or 0) if wants_logprobs else None,
    )
