"""Turn a body of the Responses API into a `ChatRequest`. Every refusal names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.options import (
    Templated,
    checked_key,
    ignores_effort,
    priority_of,
    refuse_unsupported,
    thinking_options,
)
from agentkit_runtime.api.openai.responses.items import decode_items
from agentkit_runtime.api.openai.responses.request import (
    ResponseBody,
    TextConfig,
)
from agentkit_runtime.api.openai.responses.store import Conversation
from agentkit_runtime.api.openai.responses.tools import Toolbox, tool_choice, toolbox, tools_of
from agentkit_runtime.api.openai.unserved import is_verbosity_unserved
from agentkit_runtime.chat import ChatMessage, ChatRequest, History
from agentkit_runtime.types import SamplingParams

_HARMLESS_VALUES: Mapping[str, tuple[object, ...]] = {
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
    box: Toolbox
    unserved: tuple[str, ...]
    """What is not done, though the request was taken."""


def decode(
    body: ResponseBody,
    previous: Conversation | None,
    *,
    request_id: str,
    service: Templated,
) -> Decoded:
    """The service's request. Raises `ApiError` (400) for anything that cannot be honoured."""
    _refuse_unsupported(body)
    box = toolbox(tools_of(body))
    choice, allowed = tool_choice(body.tool_choice, box)
    effort = None if body.reasoning is None else body.reasoning.effort
    options = thinking_options(effort, service)
    front = (body.instructions, box.tools, options)
    earlier = () if previous is None else previous.messages
    new = decode_items(body.input, _call_ids(earlier))
    system = _system(body.instructions)
    chat = ChatRequest(
        messages=(*system, *earlier, *new),
        tools=box.tools,
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
    conversation = Conversation(front=front, messages=(*earlier, *new), ids=())
    return Decoded(
        chat=chat, conversation=conversation, box=box, unserved=_unserved(body, box, service)
    )


def _refuse_unsupported(body: ResponseBody) -> None:
    refuse_unsupported(body.model_extra, _HARMLESS_VALUES)
    if body.background and body.store is False:
        raise ApiError(
            "background needs store: what nobody waits for would be lost", param="background"
        )
    if body.truncation == "auto":
        raise ApiError(
            "truncation 'auto' is not supported by this server: dropping what comes first would "
            "lose the cached prefix on every turn; shorten the input instead",
            param="truncation",
            code="unsupported_parameter",
        )


def _unserved(body: ResponseBody, box: Toolbox, service: Templated) -> tuple[str, ...]:
    found: list[str] = []
    if body.reasoning is not None and ignores_effort(body.reasoning.effort, service):
        found.append("reasoning.effort")
    if body.text is not None and is_verbosity_unserved(body.text.verbosity):
        found.append("text.verbosity")
    return (*found, *box.unserved)


def _system(instructions: str | None) -> tuple[ChatMessage, ...]:
    return (ChatMessage(role="system", content=instructions),) if instructions else ()


def _history(previous: Conversation, n_system: int) -> History:
    return History(ids=tuple(previous.ids), n_messages=n_system + len(previous.messages))


def _call_ids(messages: Sequence[ChatMessage]) -> frozenset[str]:
    return frozenset(call.id for message in messages for call in message.tool_calls)


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
