"""How Gemini answers: whole, as a stream, and with errors."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from agentkit.blocks import Json
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate import Served
from agentkit.fake.api import Answer, HttpCall, Prompt, parts_of
from agentkit.fake.fields import JsonObject, Problem
from agentkit.fake.gemini.contents import Contents
from agentkit.fake.gemini.parse import field, parse, part_blocks
from agentkit.fake.pieces import compact


class Gemini:
    """`POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`."""

    name = "gemini"
    id_prefix = ""
    call_prefix = "fc_"
    media_type = "text/event-stream"

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def parse(self, call: HttpCall) -> Prompt:
        """Understand a request."""
        return parse(call, self._contents.front(str(field(call.body, "cachedContent"))))

    def ended(self, prompt: Prompt, answer: Answer) -> None:
        """Keep nothing: each request brings its whole conversation."""

    def output(self, answer: Answer) -> tuple[Block, ...]:
        """Return the blocks of an answer."""
        parts = _parts(answer)
        return part_blocks({"parts": parts}) if parts else ()

    def diagnose(self, prompt: Prompt, before: CacheRequest | None) -> Json:
        """Return nothing: this API has no diagnostics."""

    def whole(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> JsonObject:
        """Return the response."""
        del prompt
        return _response(answer, _parts(answer), _usage(served, n_thinking), end=True)

    def opening(self, prompt: Prompt, answer: Answer, served: Served) -> bytes:
        """Return nothing: a stream begins with its first content."""
        return b""

    def deltas(self, prompt: Prompt, answer: Answer, served: Served) -> Sequence[bytes]:
        """Return a response for each piece of thinking and text, and for each call."""
        del prompt
        usage = {
            name: value
            for name, value in served.usage_json.items()
            if name != "candidatesTokenCount"
        }
        parts: list[dict[str, Any]] = []
        for part in _parts(answer):
            if "text" in part:
                parts += [{**part, "text": text} for text in parts_of(part["text"])]
            else:
                parts.append(part)
        return [_event(_response(answer, [part], usage, end=False)) for part in parts]

    def closing(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> bytes:
        """Return the last response, with the finish and the whole usage."""
        del prompt
        empty = [{"text": ""}]
        return _event(_response(answer, empty, _usage(served, n_thinking), end=True))

    def error(self, problem: Problem, request_id: str) -> JsonObject:
        """Return the error's JSON."""
        del request_id
        error: dict[str, Any] = {
            "code": problem.status,
            "message": problem.message,
            "status": _STATUS.get(problem.status, "INTERNAL"),
        }
        if problem.retry_after_s is not None:
            retry = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": retry, "retryDelay": f"{problem.retry_after_s:g}s"}]
        return {"error": error}


_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _parts(answer: Answer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    signature = base64.b64encode(answer.signature.encode()).decode()
    if answer.thinking:
        parts.append({"text": answer.thinking, "thought": True})
    if answer.text:
        parts.append({"text": answer.text})
    for index, (call, name) in enumerate(zip(answer.calls, answer.call_ids, strict=True)):
        function = {"id": name, "name": call.name, "args": call.value}
        part: dict[str, Any] = {"functionCall": function}
        if answer.thinking and index == 0:  # the first call carries the proof of the thinking
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts


def _response(
    answer: Answer, parts: list[dict[str, Any]], usage: JsonObject, *, end: bool
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if end:
        candidate["finishReason"] = "MAX_TOKENS" if answer.finish == "length" else "STOP"
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": answer.model,
        "responseId": answer.id,
    }


def _usage(served: Served, n_thinking: int) -> JsonObject:
    usage = dict(served.usage_json)
    if n_thinking:
        usage["candidatesTokenCount"] = served.output_tokens - n_thinking
        usage["thoughtsTokenCount"] = n_thinking
    return usage


def _event(response: dict[str, Any]) -> bytes:
    return b"data: %b\r\n\r\n" % compact(response)
