"""Body of `POST /v1/chat/completions`, as pydantic models.

Types are strict (no `"1"` for 1) and extra fields are kept: clients send fields that are newer than
this server, and `decode` must see them to tell harmless ones from ones that change the answer.
What depends on several fields at once is checked in `decode`, where it can be named exactly.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentkit_runtime.api.openai.options import ServiceTier
from agentkit_runtime.api.readable import require_readable

MessageRole = Literal["system", "developer", "user", "assistant", "tool"]
Bias = Annotated[float, Field(ge=-100, le=100)]
StopText = Annotated[str, Field(min_length=1)]


class OpenModel(BaseModel):
    """Strict types, extra fields kept."""

    model_config = ConfigDict(extra="allow", strict=True)


class Patient(OpenModel):
    """What bodies have many of. A function of Python's runs for each: there other threads get the
    interpreter, which pydantic would keep for a whole body."""

    @model_validator(mode="before")
    @classmethod
    def _as_it_is(cls, value: object) -> object:
        return value


class ContentPart(Patient):
    """One part of a message's content. Only `type: text` can be served."""

    type: str
    text: str | None = None


class FunctionCall(OpenModel):
    """A call's name and the exact argument text that the model produced."""

    name: str
    arguments: str


class CustomCall(OpenModel):
    """A call of a custom tool: its name and its input, which is free text."""

    name: str
    input: str


class ToolCallBody(OpenModel):
    """A tool call in an assistant message of the history."""

    id: str
    type: str = "function"
    function: FunctionCall | None = None
    custom: CustomCall | None = None


class Message(Patient):
    """One message of any role."""

    role: MessageRole
    content: str | list[ContentPart] | None = None
    tool_calls: list[ToolCallBody] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = Field(
        default=None, description="Not OpenAI's: what the assistant thought."
    )


class FunctionDefinition(OpenModel):
    """A function that the model may call. `parameters` is a JSON schema; key order is kept."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, object] | None = None


class GrammarDefinition(OpenModel):
    """What inputs must be like."""

    syntax: Literal["lark", "regex"]
    definition: str


class CustomFormat(OpenModel):
    """What inputs of a custom tool are like."""

    type: Literal["text", "grammar"]
    grammar: GrammarDefinition | None = None


class CustomDefinition(OpenModel):
    """A tool whose calls are free text."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    format: CustomFormat | None = None


class ToolBody(OpenModel):
    """A tool definition: of `type: function`, or of `type: custom`."""

    type: str
    function: FunctionDefinition | None = None
    custom: CustomDefinition | None = None


class ToolNamed(OpenModel):
    """A tool's name."""

    name: str


class ToolReference(OpenModel):
    """A tool of the request's list, by name."""

    type: str
    function: ToolNamed | None = None
    custom: ToolNamed | None = None


class AllowedTools(OpenModel):
    """A mask: the prompt shows all tools, these may be called now."""

    mode: Literal["auto", "required"]
    tools: list[ToolReference]


class ToolChoiceBody(ToolReference):
    """A function or a custom tool by name, or `{"type": "allowed_tools", ...}`."""

    allowed_tools: AllowedTools | None = None


class JsonSchema(OpenModel):
    """A named JSON schema for the answer. `strict` has no effect: the schema is always enforced."""

    name: str
    schema_: dict[str, object] | None = Field(default=None, alias="schema")
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(OpenModel):
    """The form of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(OpenModel):
    """Options of a stream."""

    include_usage: bool = False


class SamplingBody(OpenModel):
    """How tokens are chosen.

    `temperature` left out is 0 (greedy), so that the same request has the same answer; OpenAI's own
    default is 1.
    """

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0, description="Not OpenAI's; 0 is off.")
    min_p: float | None = Field(default=None, ge=0, le=1, description="Not OpenAI's.")
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1)
    stop: StopText | Annotated[list[StopText], Field(max_length=16)] | None = None
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(
        default=None, ge=0.01, le=100, description="Not OpenAI's; 1 is off."
    )
    logit_bias: dict[str, Bias] | None = Field(default=None, max_length=1024)
    ignore_eos: bool | None = Field(default=None, description="Not OpenAI's.")


class ChatCompletionBody(SamplingBody):
    """The whole request body. What is left out means what OpenAI documents, but for temperature."""

    model: str
    messages: list[Message] = Field(min_length=1)
    tools: list[ToolBody] | None = None
    tool_choice: str | ToolChoiceBody | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=0, description="0 only fills the cache.")
    max_completion_tokens: int | None = Field(default=None, ge=0)
    n: int | None = Field(default=None, ge=1, le=128)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    prompt_cache_key: str | None = Field(default=None, description="Names the session.")
    service_tier: ServiceTier | None = None
    reasoning_effort: str | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    chat_template_kwargs: dict[str, bool | str] | None = Field(
        default=None, description="Not OpenAI's: variables of the chat template."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unreadable(cls, value: object) -> object:
        require_readable(value)
        return value
