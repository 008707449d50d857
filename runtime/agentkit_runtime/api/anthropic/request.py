"""Bodies of `POST /v1/messages` and `POST /v1/messages/count_tokens`, as pydantic models.

Types are strict and extra fields are kept, as in the OpenAI dialect: what is newer than this server
must be seen by `decode`, to tell what is harmless from what would change the answer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentkit_runtime.api.readable import require_readable

Ttl = Literal["5m", "1h"]
"""How long a marked prefix is kept after its last use."""

StopText = Annotated[str, Field(min_length=1)]


class OpenModel(BaseModel):
    """Strict types, extra fields kept."""

    model_config = ConfigDict(extra="allow", strict=True)


class CacheControl(OpenModel):
    """A mark: the prompt up to here is to be kept."""

    type: Literal["ephemeral"]
    ttl: Ttl | None = None


class Block(OpenModel):
    """One block of any content. Which fields it needs, its `type` says; `blocks` checks them."""

    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, object] | None = None
    tool_use_id: str | None = None
    content: str | list[Block] | dict[str, object] | None = None
    is_error: bool | None = None
    source: dict[str, object] | None = None
    title: str | None = None
    context: str | None = None
    thinking: str | None = None
    cache_control: CacheControl | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_any_source(cls, value: object) -> object:
        """A search result's `source` is a text; all that matters of it is the block's type."""
        if isinstance(value, dict) and isinstance(value.get("source"), str):
            return {**value, "source": {"url": value["source"]}}
        return value


class MessageBody(OpenModel):
    """One message. A text stands for one text block."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class ToolBody(OpenModel):
    """A tool. Only those without a `type`, or of type `custom`, are the caller's own."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, object] | None = None
    strict: bool | None = None
    cache_control: CacheControl | None = None


class ToolChoiceBody(OpenModel):
    """Which tools may, or must, be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class JsonFormat(OpenModel):
    """The answer is JSON in this schema."""

    type: Literal["json_schema"]
    schema_: dict[str, object] = Field(alias="schema")


class OutputConfig(OpenModel):
    """The form of the answer. `effort` is an advice that no model here takes."""

    format: JsonFormat | None = None
    effort: str | None = None


class Thinking(OpenModel):
    """Whether the model thinks before it answers."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = Field(default=None, ge=1024)
    display: Literal["summarized", "omitted"] | None = None


class Metadata(OpenModel):
    """About the request."""

    user_id: str | None = None


class ConversationBody(OpenModel):
    """What a prompt is made of."""

    model: str
    messages: list[MessageBody] = Field(min_length=1, max_length=100_000)
    system: str | list[Block] | None = None
    tools: list[ToolBody] | None = None
    tool_choice: ToolChoiceBody | None = None
    cache_control: CacheControl | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = Field(
        default=None, description="The older name of output_config.format."
    )
    thinking: Thinking | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unreadable(cls, value: object) -> object:
        require_readable(value)
        return value


class MessagesBody(ConversationBody):
    """The whole request body.

    `temperature` left out is 0 (greedy), so that the same request has the same answer; Anthropic's
    own default is 1. Everything else left out means what Anthropic documents.
    """

    max_tokens: int = Field(ge=0)
    stream: bool | None = None
    stop_sequences: Annotated[list[StopText], Field(max_length=16)] | None = None
    temperature: float | None = Field(default=None, ge=0, le=1)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
