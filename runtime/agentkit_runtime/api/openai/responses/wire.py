"""Shapes of the documents that the Responses API sends, as TypedDicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

from agentkit_runtime.api.openai.wire import ContentLogprob

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class TextPart(TypedDict):
    """Text of the answer."""

    type: Literal["output_text"]
    text: str
    annotations: list[object]
    logprobs: list[ContentLogprob]


class ThoughtPart(TypedDict):
    """Thinking."""

    type: Literal["reasoning_text"]
    text: str


class MessageItem(TypedDict):
    """The answer's text."""

    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: ItemStatus
    content: list[TextPart]


class ReasoningItem(TypedDict):
    """What the model thought."""

    type: Literal["reasoning"]
    id: str
    status: ItemStatus
    summary: list[object]
    content: list[ThoughtPart]
    encrypted_content: NotRequired[str]


class CallItem(TypedDict):
    """A function call."""

    type: Literal["function_call"]
    id: str
    call_id: str
    name: str
    arguments: str
    status: ItemStatus
    namespace: NotRequired[str]


class CustomCallItem(TypedDict):
    """A call of a custom tool; `input` is free text. It has no status."""

    type: Literal["custom_tool_call"]
    id: str
    call_id: str
    name: str
    input: str
    namespace: NotRequired[str]


OutputItem = MessageItem | ReasoningItem | CallItem | CustomCallItem

ItemDocument = Mapping[str, object]
"""An item as it is listed: an input item as it came, with an id; or one of the output."""


class InputDetails(TypedDict):
    """How the prompt's tokens came about."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(TypedDict):
    """What the generated tokens are."""

    reasoning_tokens: int


class ResponseUsage(TypedDict):
    """Tokens of a response."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(TypedDict):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(TypedDict):
    """Why a response is not complete."""

    reason: Literal["max_output_tokens"]


class ResponseDocument(TypedDict):
    """A response, finished or not."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: ResponseStatus
    background: bool
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: Mapping[str, str]
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: Mapping[str, object]
    safety_identifier: str | None
    service_tier: str
    temperature: float
    text: Mapping[str, object]
    tool_choice: object
    tools: list[Mapping[str, object]]
    top_logprobs: int
    top_p: float
    truncation: Literal["disabled"]
    usage: ResponseUsage | None
    user: str | None


class EventTopLogprob(TypedDict):
    """A token and its log-probability, in an event."""

    token: str
    logprob: float


class EventLogprob(EventTopLogprob):
    """A generated token, and what else could have stood there, in an event."""

    top_logprobs: list[EventTopLogprob]


class StreamEvent(TypedDict):
    """One event of a stream; which other fields it has depends on `type`."""

    type: str
    sequence_number: int
    response: NotRequired[ResponseDocument]
    item: NotRequired[OutputItem]
    part: NotRequired[TextPart | ThoughtPart]
    item_id: NotRequired[str]
    output_index: NotRequired[int]
    content_index: NotRequired[int]
    delta: NotRequired[str]
    text: NotRequired[str]
    arguments: NotRequired[str]
    input: NotRequired[str]
    logprobs: NotRequired[list[EventLogprob]]


class ErrorEvent(TypedDict):
    """The last event of a stream that ends although its response goes on."""

    type: Literal["error"]
    code: str | None
    message: str
    param: None
    sequence_number: int


class Deleted(TypedDict):
    """What a deletion answers."""

    id: str
    object: Literal["response"]
    deleted: Literal[True]


class ItemList(TypedDict):
    """A page of items."""

    object: Literal["list"]
    data: list[ItemDocument]
    first_id: str
    last_id: str
    has_more: bool
