"""How Chat completions answer: whole, as a stream, and with errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit.blocks import Json
from agentkit.caching.policy import Provider
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate import Served
from agentkit.fake.api import Answer, HttpCall, Prompt, parts_of
from agentkit.fake.fields import JsonObject, Problem
from agentkit.fake.openai import options
from agentkit.fake.openai.chat_parse import message_blocks, parse
from agentkit.fake.pieces import compact


class Chat:
    """`POST /v1/chat/completions`, of OpenAI, of DeepSeek, or of a gateway to Claude."""

    name = "chat"
    id_prefix = "chatcmpl-"
    call_prefix = "call_"
    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    def parse(self, call: HttpCall) -> Prompt:
        """Understand a request."""
        return parse(call, self._provider)

    def ended(self, prompt: Prompt, answer: Answer) -> None:
        """Keep nothing: each request brings its whole conversation."""

    def output(self, answer: Answer) -> tuple[Block, ...]:
        """Return the blocks of an answer."""
        return message_blocks(self._message(answer), "output")

    def diagnose(self, prompt: Prompt, before: CacheRequest | None) -> Json:
        """Return nothing: this API has no diagnostics."""

    def whole(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> JsonObject:
        """Return the response."""
        del prompt
        choice = {
            "index": 0,
            "message": {"refusal": None, **self._message(answer)},
            "logprobs": None,
            "finish_reason": answer.finish,
        }
        return {
            **_head(answer, "chat.completion"),
            "choices": [choice],
            "usage": _usage(served, n_thinking),
        }

    def opening(self, prompt: Prompt, answer: Answer, served: Served) -> bytes:
        """Return the chunk with the role."""
        del served
        return _chunk(prompt, answer, {"role": "assistant", "content": ""})

    def deltas(self, prompt: Prompt, answer: Answer, served: Served) -> Sequence[bytes]:
        """Return a chunk for each piece of thinking, text and calls."""
        del served
        deltas: list[dict[str, Any]] = []
        if self._provider is Provider.DEEPSEEK:
            deltas += [{"reasoning_content": part} for part in parts_of(answer.thinking)]
        deltas += [{"content": part} for part in parts_of(answer.text)]
        for index, (call, name) in enumerate(zip(answer.calls, answer.call_ids, strict=True)):
            function = {"name": call.name, "arguments": ""}
            begin = {"index": index, "id": name, "type": "function", "function": function}
            deltas.append({"tool_calls": [begin]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
                for part in parts_of(call.arguments)
            ]
        return [_chunk(prompt, answer, delta) for delta in deltas]

    def closing(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> bytes:
        """Return the finish, the usage where it was asked for, and the end."""
        end = _chunk(prompt, answer, {}, finish=answer.finish)
        if _wants_usage(prompt):
            usage = {
                **_head(answer, "chat.completion.chunk"),
                "choices": [],
                "usage": _usage(served, n_thinking),
            }
            end += b"data: %b\n\n" % compact(usage)
        return end + b"data: [DONE]\n\n"

    def error(self, problem: Problem, request_id: str) -> JsonObject:
        """Return the error's JSON."""
        del request_id
        return options.error(problem)

    def _message(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.thinking and self._provider is Provider.DEEPSEEK:
            message["reasoning_content"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [
                {
                    "id": name,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call, name in zip(answer.calls, answer.call_ids, strict=True)
            ]
        return message


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": answer.id,
        "object": kind,
        "created": int(answer.at.timestamp()),
        "model": answer.model,
    }


def _chunk(
    prompt: Prompt, answer: Answer, delta: dict[str, Any], *, finish: str | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {**_head(answer, "chat.completion.chunk"), "choices": [choice]}
    if _wants_usage(prompt):
        chunk["usage"] = None
    return b"data: %b\n\n" % compact(chunk)


def _wants_usage(prompt: Prompt) -> bool:
    return bool((prompt.body.get("stream_options") or {}).get("include_usage"))


def _usage(served: Served, n_thinking: int) -> JsonObject:
    usage = served.usage_json
    if "input_tokens" in usage:  # a gateway tells Claude's usage in the words of this API
        usage = {
            "prompt_tokens": served.split.total,
            "prompt_tokens_details": {
                "cached_tokens": served.split.read,
                "cache_write_tokens": served.split.written,
            },
            "completion_tokens": served.output_tokens,
            "total_tokens": served.split.total + served.output_tokens,
        }
    return {**usage, "completion_tokens_details": {"reasoning_tokens": n_thinking}}
