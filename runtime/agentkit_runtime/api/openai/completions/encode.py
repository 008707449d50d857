"""`ChatEvent`s -> completion objects and chunks, which have one shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NotRequired, TypedDict

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.encode import Heading, Told, finish_reason
from agentkit_runtime.api.openai.errors import ErrorBody, error_body
from agentkit_runtime.api.openai.logprobs import finite
from agentkit_runtime.api.openai.usage import add_usage, encode_usage
from agentkit_runtime.api.openai.wire import Usage
from agentkit_runtime.chat import ChatEvent, ChatFinished, ChatLogprob, ContentDelta


class TextLogprobs(TypedDict):
    """Log-probabilities, one of each for every generated token."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]
    """Where the token's text begins, in characters of the choice's text."""


class TextChoice(TypedDict):
    """One answer, or a piece of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class TextCompletion(TypedDict):
    """The answers, or a chunk of them."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: NotRequired[Usage | None]


def encode_text_completion(
    heading: Heading, answers: Sequence[Sequence[Iterable[ChatEvent]]], echoed: Sequence[str]
) -> TextCompletion:
    """Several answers to each of several prompts. Raises `ApiError` when one failed.

    `echoed` is what is put in front of the answers to each prompt.
    """
    completion = _envelope(heading)
    usages: list[Usage] = []
    for of_prompt, front in zip(answers, echoed, strict=True):
        of_answers: list[Usage] = []
        for events in of_prompt:
            told = Told()
            for event in events:
                told.add(event)
            of_answers.append(encode_usage(told.finished))
            completion["choices"].append(
                {
                    "index": len(completion["choices"]),
                    "text": f"{front}{told.text}",
                    "logprobs": _logprobs(told.logprobs, len(front)),
                    "finish_reason": _reason(told.finished),
                }
            )
        usages.append(add_usage(of_answers))
    completion["usage"] = summed(usages)
    return completion


@dataclass(slots=True, kw_only=True)
class TextChunks:
    """Encodes the events of all answers of a stream, which come in any order."""

    heading: Heading
    n_per_prompt: int
    echoed: Sequence[str]
    include_usage: bool
    _usages: dict[int, list[Usage]] = field(default_factory=dict, init=False)
    _n_chars: dict[int, int] = field(default_factory=dict, init=False)

    def encode(
        self, prompt: int, answer: int, event: ChatEvent
    ) -> list[TextCompletion | ErrorBody]:
        """The chunks that an event of an answer to a prompt adds."""
        index = prompt * self.n_per_prompt + answer
        front = ""
        if index not in self._n_chars:
            self._n_chars[index] = 0
            front = self.echoed[prompt]
        match event:
            case ContentDelta():
                return [self._chunk(index, f"{front}{event.text}", event.logprobs)]
            case ChatFinished():
                return self._end(prompt, index, front, event)
            case _:
                return []

    def _end(
        self, prompt: int, index: int, front: str, finished: ChatFinished
    ) -> list[TextCompletion | ErrorBody]:
        try:
            reason = _reason(finished)
        except ApiError as failure:
            return [error_body(failure)]
        self._usages.setdefault(prompt, []).append(encode_usage(finished))
        last = self._chunk(index, front, ())
        last["choices"][0]["finish_reason"] = reason
        chunks: list[TextCompletion | ErrorBody] = [last]
        n_ended = sum(map(len, self._usages.values()))
        if self.include_usage and n_ended == self.n_per_prompt * len(self.echoed):
            usage = _envelope(self.heading)
            usage["usage"] = summed([add_usage(of) for of in self._usages.values()])
            chunks.append(usage)
        return chunks

    def _chunk(self, index: int, text: str, logprobs: Sequence[ChatLogprob]) -> TextCompletion:
        chunk = _envelope(self.heading)
        chunk["choices"].append(
            {
                "index": index,
                "text": text,
                "logprobs": _logprobs(logprobs, self._n_chars[index]),
                "finish_reason": None,
            }
        )
        self._n_chars[index] += len(text)
        if self.include_usage:
            chunk["usage"] = None
        return chunk


def summed(usages: Sequence[Usage]) -> Usage:
    """Of several prompts."""
    return {
        "prompt_tokens": sum(usage["prompt_tokens"] for usage in usages),
        "completion_tokens": sum(usage["completion_tokens"] for usage in usages),
        "total_tokens": sum(usage["total_tokens"] for usage in usages),
        "prompt_tokens_details": {
            "cached_tokens": sum(
                usage["prompt_tokens_details"]["cached_tokens"] for usage in usages
            )
        },
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _envelope(heading: Heading) -> TextCompletion:
    return {
        "id": heading.id,
        "object": "text_completion",
        "created": heading.created_s,
        "model": heading.model,
        "system_fingerprint": heading.fingerprint,
        "choices": [],
    }


def _reason(finished: ChatFinished) -> Literal["stop", "length"]:
    return "length" if finish_reason(finished) == "length" else "stop"


def _logprobs(logprobs: Sequence[ChatLogprob], start: int) -> TextLogprobs | None:
    if not logprobs:
        return None
    tokens = [_text(item.token) for item in logprobs]
    offsets = [start]
    for token in tokens[:-1]:
        offsets.append(offsets[-1] + len(token))
    wants_top = any(item.top for item in logprobs)
    return {
        "tokens": tokens,
        "token_logprobs": [finite(item.logprob) for item in logprobs],
        "top_logprobs": [
            {_text(token): finite(logprob) for token, logprob in item.top} for item in logprobs
        ]
        if wants_top
        else None,
        "text_offset": offsets,
    }


def _text(token: bytes) -> str:
    return token.decode("utf-8", errors="replace")
