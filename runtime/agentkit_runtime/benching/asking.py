"""One streamed chat completion, timed by its client."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

Message = dict[str, str]

PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that came to its end. Seconds on the client's clock."""

    text: str
    ttft_s: float
    """From sending the request to the first token of content or reasoning."""
    gaps_s: tuple[float, ...]
    """Between two pieces of the answer: a token each, on most servers."""
    seconds: float
    prompt_tokens: int | None
    """None where the server told no usage."""
    cached_tokens: int | None
    """None where the server does not tell."""
    completion_tokens: int | None


class AskFailed(Exception):
    """There was no whole answer. The message is short and has nothing of the prompt."""


async def ask(
    client: httpx2.AsyncClient,
    messages: Sequence[Message],
    *,
    model: str,
    max_tokens: int,
    session: str,
    clock: Callable[[], float] = time.perf_counter,
) -> Answered:
    """Send one request and read its answer.

    Raises:
        AskFailed: the server refused, or the stream ended early.
    """
    body = {
        "model": model,
        "messages": list(messages),
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "prompt_cache_key": session,
    }
    answer = _Answer(clock)
    try:
        async with client.stream(
            "POST", PATH, json=body, headers={"x-session-id": session}
        ) as response:
            if response.status_code != 200:
                raise AskFailed(f"status {response.status_code}")
            async for chunk in _chunks(response):
                answer.add(chunk)
    except httpx2.HTTPError as error:
        raise AskFailed(type(error).__name__) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise AskFailed("an answer in another form than OpenAI's") from error
    return answer.ended()


async def _chunks(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """The documents of a stream up to its `[DONE]`."""
    async for line in response.aiter_lines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        chunk = json.loads(data)
        if "error" in chunk:
            raise AskFailed("an error in the stream")
        yield chunk
    raise AskFailed("the stream ended early")


class _Answer:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s = clock()
        self._came_s: list[float] = []
        self._text: list[str] = []
        self._usage: dict[str, Any] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            content = delta.get("content") or ""
            if content or delta.get("reasoning_content") or delta.get("tool_calls"):
                self._came_s.append(self._clock())
            self._text.append(content)

    def ended(self) -> Answered:
        ended_s = self._clock()
        came_s = self._came_s or [ended_s]
        details = self._usage.get("prompt_tokens_details") or {}
        return Answered(
            text="".join(self._text),
            ttft_s=came_s[0] - self._began_s,
            gaps_s=tuple(later - sooner for sooner, later in itertools.pairwise(came_s)),
            seconds=ended_s - self._began_s,
            prompt_tokens=self._usage.get("prompt_tokens"),
            cached_tokens=details.get("cached_tokens"),
            completion_tokens=self._usage.get("completion_tokens"),
        )
