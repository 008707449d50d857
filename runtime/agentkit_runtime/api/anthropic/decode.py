"""Turn a body of the Messages API into a `ChatRequest`. Every refusal names the field.

What this server cannot do is refused when it would change the answer, and accepted when it would
not. The tenant never comes from the body.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from agentkit_runtime.api.anthropic.blocks import Placed, decode_blocks, placed_blocks, text_of
from agentkit_runtime.api.anthropic.errors import NO_THREADS
from agentkit_runtime.api.anthropic.marked import Mark, marks_of
from agentkit_runtime.api.anthropic.order import check_order
from agentkit_runtime.api.anthropic.request import ConversationBody, MessagesBody, Ttl
from agentkit_runtime.api.anthropic.session import session_of
from agentkit_runtime.api.anthropic.thinking import Thinker, thinking_options
from agentkit_runtime.api.anthropic.tools import decode_choice, decode_tools
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatMessage, ChatRequest
from agentkit_runtime.types import SamplingParams

_HARMLESS_VALUES: Mapping[str, tuple[object, ...]] = {
    "compaction": (),
    "container": (),
    "diagnostics": ({"previous_message_id": None},),
    "max_completion_tokens": (),
    "mcp_servers": ([],),
    "n": (1,),
    "response_format": ({"type": "text"},),
    "speed": ("standard",),
    "stop": ([],),
}
"""Fields that would change the answer if obeyed, and the values (besides null) that would not."""

_FOR_THE_SENDER = "x-anthropic-billing-header:"
"""A coding agent's first system block that begins so says who pays. It is another text in each
session, is not meant for the model, and in front of all else it would leave nothing to share."""

_HARMLESS_EDIT = "clear_thinking_"
"""What thinking of earlier turns the model sees is the chat template's matter in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The marked beginning of a request."""

    ttl: Ttl
    conversation: ChatRequest
    """A request that ends where the mark is; it may have no messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A request, and what of it is to be kept."""

    chat: ChatRequest
    fronts: tuple[Front, ...]


def decode(body: MessagesBody, model: Thinker, *, request_id: str) -> Decoded:
    """The service's request. Raises `ApiError` (400) for anything that cannot be honoured."""
    decoded = decode_conversation(body, model)
    chat = dataclasses.replace(
        decoded.chat,
        sampling=_sampling(body),
        request_id=request_id,
        session=session_of(None if body.metadata is None else body.metadata.user_id),
    )
    if body.max_tokens == 0:
        _check_prewarm(body)
    return dataclasses.replace(decoded, chat=chat)


def decode_conversation(body: ConversationBody, model: Thinker) -> Decoded:
    """All that makes the prompt. Raises as `decode`."""
    _refuse_unsupported(body)
    placed = placed_blocks(body.messages)
    check_order(placed)
    tools = decode_tools(body.tools)
    choice = body.tool_choice
    messages, prefill = _without_prefill(decode_blocks(placed), body)
    chat = ChatRequest(
        messages=(*_system(body, None), *messages),
        prefill=prefill,
        tools=tools,
        tool_choice=decode_choice(choice, tools),
        parallel_tool_calls=choice is None or not choice.disable_parallel_tool_use,
        loosens_tools=not any(tool.strict for tool in body.tools or ()),
        response_schema=_response_schema(body),
        separates_reasoning=True,
        template_options=thinking_options(body.thinking, model),
    )
    fronts = tuple(_front(body, chat, placed, mark) for mark in marks_of(body, placed))
    return Decoded(chat=chat, fronts=fronts)


def _system(body: ConversationBody, n_blocks: int | None) -> tuple[ChatMessage, ...]:
    """The system message; of blocks, the first `n_blocks`."""
    system = body.system
    if not system:
        return ()
    if isinstance(system, str):
        return (ChatMessage(role="system", content=system),)
    shown = [
        text_of(block, f"system[{n}]")
        for n, block in enumerate(system[:n_blocks])
        if not (block.text or "").startswith(_FOR_THE_SENDER)
    ]
    return (ChatMessage(role="system", content="\n".join(shown)),) if shown else ()


def _front(body: ConversationBody, chat: ChatRequest, placed: list[Placed], mark: Mark) -> Front:
    messages = (*_system(body, mark.n_system), *decode_blocks(placed[: mark.n_placed]))
    return Front(
        ttl=mark.ttl, conversation=dataclasses.replace(chat, messages=messages, prefill="")
    )


def _without_prefill(
    messages: tuple[ChatMessage, ...], body: ConversationBody
) -> tuple[tuple[ChatMessage, ...], str]:
    """The messages to answer, and the answer's beginning where the last one is the assistant's."""
    if not messages or messages[-1].role != "assistant":
        return messages, ""
    last, path = messages[-1], f"messages[{len(body.messages) - 1}].content"
    if last.reasoning:
        raise ApiError(
            f"{path}: a last assistant message is gone on from, and thinking cannot be; leave the "
            "thinking block out",
            param=path,
        )
    if last.content != last.content.rstrip():
        raise ApiError(f"{path}: a last assistant message must not end in white space", param=path)
    if last.content and _response_schema(body) is not None:
        raise ApiError(
            f"{path}: an answer that must be JSON in a schema cannot have a given beginning; "
            "leave the last assistant message out",
            param=path,
        )
    return messages[:-1], last.content


def _response_schema(body: ConversationBody) -> Mapping[str, object] | None:
    form = body.output_format or (body.output_config and body.output_config.format)
    return form.schema_ if form else None


def _refuse_unsupported(body: ConversationBody) -> None:
    extra = body.model_extra or {}
    for field, harmless in _HARMLESS_VALUES.items():
        value = extra.get(field)
        if value is not None and value not in harmless:
            raise ApiError(
                f"{field} is not supported by this server; leave it out",
                param=field,
                code="unsupported_parameter",
            )
    if extra.get("thread") is not None:
        raise ApiError(
            "thread: this server holds no conversations; send all messages each time, which costs "
            "nothing for what is cached",
            param="thread",
            code=NO_THREADS,
        )
    _check_context_management(extra.get("context_management"))


def _check_context_management(value: object) -> None:
    edits = value.get("edits") if isinstance(value, dict) else None
    for n, edit in enumerate(edits if isinstance(edits, list) else ()):
        kind = edit.get("type") if isinstance(edit, dict) else None
        if not (isinstance(kind, str) and kind.startswith(_HARMLESS_EDIT)):
            path = f"context_management.edits[{n}]"
            raise ApiError(
                f"{path}.type is {kind!r}; this server edits no conversations, which would lose "
                "their cached prefixes: shorten the messages yourself",
                param=path,
                code="unsupported_parameter",
            )


def _check_prewarm(body: MessagesBody) -> None:
    """`max_tokens: 0` computes the prompt. What asks for an answer contradicts it."""
    choice = body.tool_choice
    contradictions = {
        "stream": bool(body.stream),
        "thinking": body.thinking is not None and body.thinking.type == "enabled",
        "output_config.format": _response_schema(body) is not None,
        "tool_choice": choice is not None and choice.type in ("any", "tool"),
    }
    for field, contradicts in contradictions.items():
        if contradicts:
            raise ApiError(
                f"max_tokens is 0, which generates nothing, so {field} cannot be honoured; leave "
                "it out",
                param=field,
            )


def _sampling(body: MessagesBody) -> SamplingParams:
    # top_p 0 keeps only the likeliest token, which is what temperature 0 says.
    greedy = not body.temperature or body.top_p == 0
    return SamplingParams(
        temperature=0.0 if greedy else float(body.temperature or 0.0),
        top_k=body.top_k or 0,
        top_p=body.top_p or 1.0,
        max_tokens=body.max_tokens,
        stop=tuple(body.stop_sequences or ()),
    )
