"""Body of `POST /v1/responses`, as pydantic models. As strict and as open as that of chats."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from agentkit_runtime.api.openai.options import ServiceTier
from agentkit_runtime.api.openai.request import ContentPart, OpenModel
from agentkit_runtime.api.readable import require_readable

Includable = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]
"""Log-probabilities are added, and thinking in a form that clients send back; the others belong to
tools that do not run here."""


class ReasoningText(OpenModel):
    """A piece of thinking."""

    type: str
    text: str


class InputFormat(OpenModel):
    """What inputs of a custom tool are like."""

    type: Literal["text", "grammar"]
    syntax: Literal["lark", "regex"] | None = None
    definition: str | None = None


class ResponseTool(OpenModel):
    """A tool: a function, a custom tool, or a namespace of both; `tools` says what of others.

    `strict` changes nothing, calls always fit.
    """

    type: str
    name: str | None = Field(default=None, pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None
    format: InputFormat | None = None
    tools: list[ResponseTool] | None = None


class InputItem(OpenModel):
    """One item of the input. Which fields it has depends on `type`; without one it is a message."""

    type: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[ContentPart] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None
    namespace: str | None = None
    encrypted_content: str | None = None
    tools: list[ResponseTool] | None = None
    output: str | list[ContentPart] | None = None


class NamedTool(OpenModel):
    """A tool of the request, by name."""

    type: str
    name: str | None = None
    namespace: str | None = None


class ResponseToolChoice(NamedTool):
    """A function or a custom tool by name, or `{"type": "allowed_tools", "mode", "tools"}`."""

    mode: Literal["auto", "required"] | None = None
    tools: list[NamedTool] | None = None


class TextFormat(OpenModel):
    """The form of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    schema_: dict[str, object] | None = Field(default=None, alias="schema")
    description: str | None = None
    strict: bool | None = None


class TextConfig(OpenModel):
    """What is said of the answer's text."""

    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningConfig(OpenModel):
    """How much is to be thought. Summaries are not made: thinking comes whole."""

    effort: str | None = None
    summary: str | None = None


class CacheOptions(OpenModel):
    """`prewarm` computes the prompt and generates nothing."""

    prewarm: bool | None = None


MetadataText = Annotated[str, Field(max_length=512)]


class ResponseBody(OpenModel):
    """The whole request body. `temperature` left out is 0, as in Chat Completions."""

    model: str
    input: str | list[InputItem] = Field(min_length=1)
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: str | ResponseToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    include: list[Includable] | None = None
    metadata: dict[str, MetadataText] | None = Field(default=None, max_length=16)
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0, description="Not OpenAI's; 0 is off.")
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1, description="Not OpenAI's.")
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    truncation: Literal["auto", "disabled"] | None = None
    prompt_cache_key: str | None = Field(default=None, description="Names the session.")
    prompt_cache_options: CacheOptions | None = None
    service_tier: ServiceTier | None = None
    safety_identifier: str | None = None
    user: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unreadable(cls, value: object) -> object:
        require_readable(value)
        return value
