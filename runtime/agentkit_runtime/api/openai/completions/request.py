"""Body of `POST /v1/completions`, as a pydantic model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from agentkit_runtime.api.openai.options import ServiceTier
from agentkit_runtime.api.openai.request import SamplingBody, StreamOptions
from agentkit_runtime.api.readable import require_readable

MAX_PROMPTS = 128
"""Prompts of one request."""

DEFAULT_MAX_TOKENS = 16
"""OpenAI's default of this endpoint."""

TokenId = Annotated[int, Field(ge=0)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]


class CompletionBody(SamplingBody):
    """The whole request body. What is left out means what OpenAI documents, but for temperature.

    A text may hold special tokens, such as `<|im_start|>`: its author and its reader are the same.
    """

    model: str
    prompt: (
        str
        | TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS)]
        | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS)]
    )
    max_tokens: int | None = Field(default=None, ge=0, description="0 only fills the cache.")
    n: int | None = Field(default=None, ge=1, le=128)
    echo: bool | None = None
    logprobs: int | None = Field(default=None, ge=0, le=20)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = Field(default=None, description="Names the session.")
    service_tier: ServiceTier | None = Field(default=None, description="Not OpenAI's.")
    add_special_tokens: bool = Field(
        default=True,
        description="Not OpenAI's: whether a text begins with BOS where the model's do.",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unreadable(cls, value: object) -> object:
        require_readable(value)
        return value
