"""Shapes of the documents that the OpenAI dialect sends, as TypedDicts."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

FinishReason = Literal["stop", "length", "tool_calls"]


class PromptTokensDetails(TypedDict):
    """How the prompt's tokens came about."""

    cached_tokens: int


class CompletionTokensDetails(TypedDict):
    """What the generated tokens are."""

    reasoning_tokens: int


class Usage(TypedDict):
    """Tokens of one answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class FunctionBody(TypedDict):
    """A call's function; `arguments` is JSON text."""

    name: str
    arguments: str


class ToolCallObject(TypedDict):
    """A whole tool call."""

    id: str
    type: Literal["function"]
    function: FunctionBody


class CustomBody(TypedDict):
    """A call's custom tool; `input` is free text."""

    name: str
    input: str


class CustomCallObject(TypedDict):
    """A whole call of a custom tool."""

    id: str
    type: Literal["custom"]
    custom: CustomBody


class CompletionMessage(TypedDict):
    """The assistant's message."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: NotRequired[str]
    """Not OpenAI's: what the model thought, as DeepSeek's API names it."""
    tool_calls: NotRequired[list[ToolCallObject | CustomCallObject]]


class TopLogprob(TypedDict):
    """A token and its log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class ContentLogprob(TopLogprob):
    """A generated token, and what else could have stood there."""

    top_logprobs: list[TopLogprob]


class Logprobs(TypedDict):
    """Log-probabilities of an answer's text."""

    content: list[ContentLogprob]
    refusal: None


class Choice(TypedDict):
    """An answer of a completion."""

    index: int
    message: CompletionMessage
    logprobs: Logprobs | None
    finish_reason: FinishReason


class Completion(TypedDict):
    """The answer when it is not streamed."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[Choice]
    usage: Usage
    service_tier: NotRequired[str]


class FunctionDelta(TypedDict):
    """A piece of a call: the name with the first piece, argument text with the others."""

    name: NotRequired[str]
    arguments: str


class CustomDelta(TypedDict):
    """A piece of a custom call: the name with the first piece, text with the others."""

    name: NotRequired[str]
    input: str


class ToolCallDelta(TypedDict):
    """A piece of tool call `index`; `id` and `type` come with the first.

    It has either `function` or `custom`.
    """

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function", "custom"]]
    function: NotRequired[FunctionDelta]
    custom: NotRequired[CustomDelta]


class ChunkDelta(TypedDict, total=False):
    """What a chunk adds."""

    role: Literal["assistant"]
    content: str | None
    reasoning_content: str
    tool_calls: list[ToolCallDelta]


class ChunkChoice(TypedDict):
    """A piece of an answer of a stream."""

    index: int
    delta: ChunkDelta
    logprobs: Logprobs | None
    finish_reason: FinishReason | None


class CompletionChunk(TypedDict):
    """One event of a stream. `usage` is there only when the client asked for it."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: NotRequired[Usage | None]
    service_tier: NotRequired[str]


class ModelObject(TypedDict):
    """A model that can be asked for."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    """All models that can be asked for."""

    object: Literal["list"]
    data: list[ModelObject]
