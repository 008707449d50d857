"""Texts and token ids -> the ids of each prompt, and the requests that run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.completions.request import DEFAULT_MAX_TOKENS, CompletionBody
from agentkit_runtime.api.openai.options import checked_key, priority_of, refuse_unsupported
from agentkit_runtime.api.openai.sampling import sampling_of
from agentkit_runtime.chat import ChatRequest
from agentkit_runtime.service import ChatService

_HARMLESS_VALUES: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "min_tokens": (0,),
    "prompt_embeds": (),
    "prompt_logprobs": (0,),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "stop_token_ids": ([],),
    "structured_outputs": (),
    "suffix": ("",),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
}
"""Fields that would change the answer if obeyed, and the values (besides null) that would not."""


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """One prompt."""

    ids: tuple[int, ...]
    text: str
    """As it was sent, or as its ids read."""


def decode(
    body: CompletionBody, service: ChatService, *, tenant: str, request_id: str
) -> list[tuple[RawPrompt, ChatRequest]]:
    """The prompts and their requests. Blocks while it tokenises.

    Raises:
        ApiError: 400 for anything that cannot be honoured.
        PromptTooLong: a prompt cannot fit.
    """
    refuse_unsupported(body.model_extra, _HARMLESS_VALUES)
    if body.echo and body.logprobs is not None:
        raise ApiError(
            "echo with logprobs is not supported by this server: log-probabilities of prompts are "
            "not computed; leave one of them out",
            param="echo",
            code="unsupported_parameter",
        )
    if body.stream_options is not None and not body.stream:
        raise ApiError("stream_options needs stream: true", param="stream_options")
    max_tokens = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
    sampling = sampling_of(body, max_tokens=max_tokens, logprobs=body.logprobs)
    return [
        (
            prompt,
            ChatRequest(
                messages=(),
                prompt_ids=prompt.ids,
                sampling=sampling,
                request_id=request_id,
                session=checked_key(body.prompt_cache_key),
                priority=priority_of(body.service_tier),
                ignores_end=bool(body.ignore_eos),
            ),
        )
        for prompt in raw_prompts(body, service, tenant)
    ]


def raw_prompts(body: CompletionBody, service: ChatService, tenant: str) -> list[RawPrompt]:
    """All prompts of a body. Raises as `decode`."""
    return [
        _of_text(prompt, service, tenant, body.add_special_tokens)
        if isinstance(prompt, str)
        else RawPrompt(tuple(prompt), service.tokenizer.decode(prompt, skip_special=False))
        for prompt in _each(body.prompt)
    ]


def _each(
    prompt: str | list[int] | list[str] | list[list[int]],
) -> list[str] | list[list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    if all(isinstance(part, int) for part in prompt):
        return [[part for part in prompt if isinstance(part, int)]]
    return prompt  # type: ignore[return-value]  # the model lets nothing else through


def _of_text(text: str, service: ChatService, tenant: str, with_bos: bool) -> RawPrompt:
    if not text:
        raise ApiError("prompt is empty; give at least one character", param="prompt")
    return RawPrompt(service.ids_of_text(text, tenant=tenant, with_bos=with_bos), text)
