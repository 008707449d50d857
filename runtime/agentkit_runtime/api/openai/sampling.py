"""Sampling fields of a body -> `SamplingParams`."""

from __future__ import annotations

from agentkit_runtime.api.openai.options import checked_bias
from agentkit_runtime.api.openai.request import SamplingBody
from agentkit_runtime.types import SamplingParams


def sampling_of(
    body: SamplingBody, *, max_tokens: int | None, logprobs: int | None
) -> SamplingParams:
    """How the answer's tokens are chosen. Raises `ApiError` for a bias on what is no token."""
    # top_p 0 keeps only the likeliest token, which is what temperature 0 says.
    greedy = not body.temperature or body.top_p == 0
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    return SamplingParams(
        temperature=0.0 if greedy else float(body.temperature or 0.0),
        top_k=body.top_k or 0,
        top_p=body.top_p or 1.0,
        min_p=body.min_p or 0.0,
        seed=body.seed,
        max_tokens=max_tokens,
        logprobs=logprobs,
        stop=stop,
        frequency_penalty=body.frequency_penalty or 0.0,
        presence_penalty=body.presence_penalty or 0.0,
        repetition_penalty=body.repetition_penalty or 1.0,
        logit_bias=checked_bias(body.logit_bias),
    )
