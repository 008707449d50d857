"""Turn a chat completion body into a `ChatRequest`. Every refusal names the field.

What this server cannot do is refused when it would change the answer, and accepted when it would
not (`user`, `metadata`, cache hints, a message's `name`); what lies between is in `unserved`. The
tenant never comes from the body.
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
from agentkit_runtime.api.openai.request import ChatCompletionBody, ResponseFormat
from agentkit_runtime.api.openai.sampling import sampling_of
from agentkit_runtime.api.openai.tools import decode_choice, decode_tools, kinds_of
from agentkit_runtime.chat import ChatRequest

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
    tools = decode_tools(body.tools or ())
    choice, allowed = decode_choice(body.tool_choice, kinds_of(body.tools or ()))
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
        **thinking_options(body.reasoning_effort, service),
        **(body.chat_template_kwargs or {}),
    }


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
