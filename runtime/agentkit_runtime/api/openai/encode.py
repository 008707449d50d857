"""`ChatEvent`s -> OpenAI objects. The completion object is a fold over the events of the stream.

Strings leave this module as they came from the service: tool arguments are the generated JSON text,
never parsed and written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from agentkit_runtime.api.failure import ApiError, from_end
from agentkit_runtime.api.openai.calls import CallPieces, call_object
from agentkit_runtime.api.openai.errors import ErrorBody, error_body
from agentkit_runtime.api.openai.logprobs import encode_logprobs
from agentkit_runtime.api.openai.tools import Kinds
from agentkit_runtime.api.openai.usage import add_usage, encode_usage
from agentkit_runtime.api.openai.wire import (
    ChunkDelta,
    Completion,
    CompletionChunk,
    CompletionMessage,
    FinishReason,
    ToolCallDelta,
    Usage,
)
from agentkit_runtime.chat import (
    ChatEvent,
    ChatFinished,
    ChatLogprob,
    ContentDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallStart,
)

_FUNCTIONS: Kinds = MappingProxyType({})
"""All tools are functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What every object of one answer repeats."""

    id: str
    created_s: int
    """Unix seconds."""
    model: str
    fingerprint: str
    service_tier: str | None = None
    """What was served, where the request named one."""


def encode_completion(
    heading: Heading, events: Iterable[ChatEvent], kinds: Kinds = _FUNCTIONS
) -> Completion:
    """The whole answer. Raises `ApiError` when the generation failed."""
    told = Told()
    for event in events:
        told.add(event)
    return _completion(heading, told, kinds)


@dataclass(slots=True)
class Told:
    """All that the events of one answer said."""

    text: str = ""
    reasoning: str = ""
    logprobs: list[ChatLogprob] = field(default_factory=list)
    calls: list[tuple[ToolCallStart, list[str]]] = field(default_factory=list)
    end: ChatFinished | None = None

    def add(self, event: ChatEvent) -> None:
        """Take one more event."""
        match event:
            case ContentDelta():
                self.text += event.text
                self.logprobs += event.logprobs
            case ReasoningDelta():
                self.reasoning += event.text
            case ToolCallStart():
                self.calls.append((event, []))
            case ToolCallArguments():
                self.calls[event.index][1].append(event.text)
            case ChatFinished():
                self.end = event

    @property
    def finished(self) -> ChatFinished:
        """The last event. Raises `ApiError` (500) when there was none."""
        if self.end is None:
            raise ApiError("the generation ended without a final event", status=500)
        return self.end


def encode_completions(
    heading: Heading, answers: Sequence[Iterable[ChatEvent]], kinds: Kinds = _FUNCTIONS
) -> Completion:
    """Several answers to one prompt, as choices. Raises as `encode_completion`."""
    first, *others = (encode_completion(heading, events, kinds) for events in answers)
    for index, other in enumerate(others, 1):
        first["choices"].append({**other["choices"][0], "index": index})
    first["usage"] = add_usage([first["usage"], *(other["usage"] for other in others)])
    return first


def _completion(heading: Heading, told: Told, kinds: Kinds) -> Completion:
    finished = told.finished
    reason = finish_reason(finished)
    message: CompletionMessage = {
        "role": "assistant",
        "content": told.text if told.text or not told.calls else None,
        "refusal": None,
    }
    if told.reasoning:
        message["reasoning_content"] = told.reasoning
    if told.calls:
        message["tool_calls"] = [
            call_object(start, "".join(parts), kinds) for start, parts in told.calls
        ]
    completion: Completion = {
        "id": heading.id,
        "object": "chat.completion",
        "created": heading.created_s,
        "model": heading.model,
        "system_fingerprint": heading.fingerprint,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": encode_logprobs(told.logprobs),
                "finish_reason": reason,
            }
        ],
        "usage": encode_usage(finished),
    }
    if heading.service_tier is not None:
        completion["service_tier"] = heading.service_tier
    return completion


@dataclass(slots=True, kw_only=True)
class ChunkEncoder:
    """Encodes the events of one answer of a stream, in order."""

    heading: Heading
    include_usage: bool
    index: int = 0
    """Which choice it is."""
    kinds: Kinds = field(default_factory=dict)
    _begun: bool = field(default=False, init=False)
    _calls: CallPieces = field(init=False)

    def __post_init__(self) -> None:
        self._calls = CallPieces(self.kinds)

    def encode(self, event: ChatEvent) -> list[CompletionChunk | ErrorBody]:
        """The chunks that `event` adds. A failure becomes an error object, which clients raise."""
        match event:
            case ContentDelta():
                return [self._chunk({"content": event.text}, logprobs=event.logprobs)]
            case ReasoningDelta():
                return [self._chunk({"reasoning_content": event.text})]
            case ToolCallStart():
                return self._pieces(self._calls.start(event))
            case ToolCallArguments():
                return self._pieces(self._calls.arguments(event))
            case ChatFinished():
                return self._end(event)

    def _end(self, finished: ChatFinished) -> list[CompletionChunk | ErrorBody]:
        try:
            reason = finish_reason(finished)
        except ApiError as failure:
            return [error_body(failure)]
        chunks = [*self._pieces(self._calls.end()), self._chunk({}, reason)]
        if self.include_usage:
            chunks.append(self.usage_chunk(encode_usage(finished)))
        return chunks

    def _pieces(self, pieces: Sequence[ToolCallDelta]) -> list[CompletionChunk | ErrorBody]:
        return [self._chunk({"tool_calls": [piece]}) for piece in pieces]

    def usage_chunk(self, usage: Usage) -> CompletionChunk:
        """The chunk that tells the usage."""
        chunk = self._envelope()
        chunk["usage"] = usage
        return chunk

    def _chunk(
        self,
        delta: ChunkDelta,
        reason: FinishReason | None = None,
        logprobs: Sequence[ChatLogprob] = (),
    ) -> CompletionChunk:
        chunk = self._envelope()
        if not self._begun:
            # The role comes once. Content is null when the answer begins with a tool call.
            self._begun = True
            opening: ChunkDelta = {
                "role": "assistant",
                "content": None if "tool_calls" in delta else "",
            }
            delta = {**opening, **delta}
        chunk["choices"].append(
            {
                "index": self.index,
                "delta": delta,
                "logprobs": encode_logprobs(logprobs),
                "finish_reason": reason,
            }
        )
        return chunk

    def _envelope(self) -> CompletionChunk:
        chunk: CompletionChunk = {
            "id": self.heading.id,
            "object": "chat.completion.chunk",
            "created": self.heading.created_s,
            "model": self.heading.model,
            "system_fingerprint": self.heading.fingerprint,
            "choices": [],
        }
        if self.heading.service_tier is not None:
            chunk["service_tier"] = self.heading.service_tier
        if self.include_usage:
            chunk["usage"] = None
        return chunk


def finish_reason(finished: ChatFinished) -> FinishReason:
    """OpenAI's reason. Raises `ApiError` for the two ends that are failures."""
    match finished.reason:
        case "stop" | "length" | "tool_calls":
            return finished.reason
        case "abort" | "error":
            raise from_end(finished)


class ManyChunks:
    """Encodes the events of several answers, which come in any order; tells the usage once."""

    def __init__(
        self, heading: Heading, n: int, *, include_usage: bool, kinds: Kinds = _FUNCTIONS
    ) -> None:
        self._include_usage = include_usage
        self._encoders = [
            ChunkEncoder(heading=heading, include_usage=include_usage, index=index, kinds=kinds)
            for index in range(n)
        ]
        self._usages: list[Usage] = []

    def encode(self, index: int, event: ChatEvent) -> list[CompletionChunk | ErrorBody]:
        """The chunks that an event of answer `index` adds."""
        chunks = self._encoders[index].encode(event)
        if not isinstance(event, ChatFinished):
            return chunks
        self._usages.append(encode_usage(event))
        if not self._include_usage or "error" in chunks[-1]:
            return chunks
        chunks.pop()
        if len(self._usages) == len(self._encoders):
            chunks.append(self._encoders[0].usage_chunk(add_usage(self._usages)))
        return chunks
