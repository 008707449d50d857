"""Shapes of the documents that the Anthropic dialect sends, as TypedDicts."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from agentkit_runtime.api.anthropic.errors import ErrorBody

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"
]

ServiceTier = Literal["standard", "priority", "batch"]


class TextBlock(TypedDict):
    """Text of an answer."""

    type: Literal["text"]
    text: str


class ThinkingBlock(TypedDict):
    """What the model thought. Nothing is proved by the signature, and nobody asks for it."""

    type: Literal["thinking"]
    thinking: str
    signature: str


class ToolUseBlock(TypedDict):
    """A call of a tool."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: object


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


class CacheCreation(TypedDict):
    """`cache_creation_input_tokens`, by how long they are kept."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class OutputTokensDetails(TypedDict):
    """Of `output_tokens`, those of thinking."""

    thinking_tokens: int


class DeltaUsage(TypedDict):
    """Totals at the end of a stream."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: NotRequired[OutputTokensDetails]


class Usage(DeltaUsage):
    """Tokens of one request; the three kinds of input add up to the prompt."""

    cache_creation: CacheCreation
    service_tier: ServiceTier


class Message(TypedDict):
    """The answer, and at the beginning of a stream what is known of it by then."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: Usage


class MessageStart(TypedDict):
    """The first event."""

    type: Literal["message_start"]
    message: Message


class ContentBlockStart(TypedDict):
    """A block begins, empty."""

    type: Literal["content_block_start"]
    index: int
    content_block: ContentBlock


class TextDelta(TypedDict):
    """More text."""

    type: Literal["text_delta"]
    text: str


class ThinkingDelta(TypedDict):
    """More thinking."""

    type: Literal["thinking_delta"]
    thinking: str


class SignatureDelta(TypedDict):
    """The end of thinking."""

    type: Literal["signature_delta"]
    signature: str


class InputJsonDelta(TypedDict):
    """More of a call's input, as JSON text."""

    type: Literal["input_json_delta"]
    partial_json: str


Delta = TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta


class ContentBlockDelta(TypedDict):
    """A block goes on."""

    type: Literal["content_block_delta"]
    index: int
    delta: Delta


class ContentBlockStop(TypedDict):
    """A block is complete."""

    type: Literal["content_block_stop"]
    index: int


class StopDelta(TypedDict):
    """Why the answer ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(TypedDict):
    """The answer is complete."""

    type: Literal["message_delta"]
    delta: StopDelta
    usage: DeltaUsage


class MessageStop(TypedDict):
    """The last event."""

    type: Literal["message_stop"]


class Ping(TypedDict):
    """Nothing new, but the server is there."""

    type: Literal["ping"]


StreamEvent = (
    MessageStart
    | ContentBlockStart
    | ContentBlockDelta
    | ContentBlockStop
    | MessageDelta
    | MessageStop
    | Ping
    | ErrorBody
)


class TokenCount(TypedDict):
    """The answer of count_tokens."""

    input_tokens: int


class ModelInfo(TypedDict):
    """A model that can be asked for."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"]
    max_input_tokens: int
    max_tokens: int


class ModelPage(TypedDict):
    """All models that can be asked for; there is one page."""

    data: list[ModelInfo]
    has_more: Literal[False]
    first_id: str | None
    last_id: str | None
