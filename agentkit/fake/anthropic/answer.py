"""How the Messages API answers: whole, as a stream, and with errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit.blocks import Json
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate import Served
from agentkit.fake.anthropic.diagnose import diagnose
from agentkit.fake.anthropic.parse import content_blocks, parse
from agentkit.fake.api import Answer, HttpCall, Prompt, parts_of
from agentkit.fake.fields import JsonObject, Problem
from agentkit.fake.pieces import compact


class Messages:
    """`POST /v1/messages`."""

    name = "messages"
    id_prefix = "msg_"
    call_prefix = "toolu_"
    media_type = "text/event-stream; charset=utf-8"

    def parse(self, call: HttpCall) -> Prompt:
        """Understand a request."""
        return parse(call)

    def ended(self, prompt: Prompt, answer: Answer) -> None:
        """Keep nothing: each request brings its whole conversation."""

    def output(self, answer: Answer) -> tuple[Block, ...]:
        """Return the blocks of an answer."""
        return content_blocks(_content(answer), "output")

    def diagnose(self, prompt: Prompt, before: CacheRequest | None) -> Json:
        """Explain a miss against an earlier request."""
        return diagnose(prompt, before)

    def whole(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> JsonObject:
        """Return the response."""
        usage = dict(served.usage_json)
        if n_thinking:
            usage["output_tokens_details"] = {"thinking_tokens": n_thinking}
        if prompt.request.prewarm:
            return _message(answer, [], "max_tokens", usage)
        return _message(answer, _content(answer), _STOP[answer.finish], usage)

    def opening(self, prompt: Prompt, answer: Answer, served: Served) -> bytes:
        """Return `message_start`, with the split of the input."""
        del prompt
        usage = {**served.usage_json, "output_tokens": 1}
        start = {"type": "message_start", "message": _message(answer, [], None, usage)}
        return _event(start) + _event({"type": "ping"})

    def deltas(self, prompt: Prompt, answer: Answer, served: Served) -> Sequence[bytes]:
        """Return the events of each content block."""
        del prompt, served
        found: list[bytes] = []
        for index, block in enumerate(_content(answer)):
            found += [_event({**event, "index": index}) for event in _block_events(block)]
        return found

    def closing(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> bytes:
        """Return `message_delta` with cumulative counts, which have no split by lifetime."""
        del prompt
        usage: dict[str, Json] = {
            name: served.usage_json[name]
            for name in (
                "input_tokens",
                "cache_creation_input_tokens",
                "cache_read_input_tokens",
                "output_tokens",
            )
        }
        if n_thinking:
            usage["output_tokens_details"] = {"thinking_tokens": n_thinking}
        delta = {"stop_reason": _STOP[answer.finish], "stop_sequence": None}
        end = {"type": "message_delta", "delta": delta, "usage": usage}
        return _event(end) + _event({"type": "message_stop"})

    def error(self, problem: Problem, request_id: str) -> JsonObject:
        """Return the error's JSON."""
        kind = _ERRORS.get(problem.status, "api_error" if problem.status >= 500 else _BAD)
        return {
            "type": "error",
            "error": {"type": kind, "message": problem.message},
            "request_id": request_id,
        }


_BAD = "invalid_request_error"
_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def _message(
    answer: Answer, content: list[dict[str, Any]], stop: str | None, usage: JsonObject
) -> dict[str, Any]:
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
        "diagnostics": answer.diagnosis,
    }


def _content(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if answer.thinking:
        found.append(
            {"type": "thinking", "thinking": answer.thinking, "signature": answer.signature}
        )
    if answer.text:
        found.append({"type": "text", "text": answer.text})
    for call, name in zip(answer.calls, answer.call_ids, strict=True):
        found.append({"type": "tool_use", "id": name, "name": call.name, "input": call.value})
    return found


def _block_events(block: dict[str, Any]) -> list[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            begin = {**block, "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": part} for part in parts_of(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "text":
            begin = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in parts_of(block["text"])]
        case _:
            begin = {**block, "input": {}}
            text = compact(block["input"]).decode()
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in ["", *parts_of(text)]
            ]
    return [
        {"type": "content_block_start", "content_block": begin},
        *({"type": "content_block_delta", "delta": delta} for delta in deltas),
        {"type": "content_block_stop"},
    ]


def _event(data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(data["type"]).encode(), compact(data))
