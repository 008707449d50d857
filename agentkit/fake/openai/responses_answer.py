"""How the Responses API answers: whole, as a stream, and with errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit.blocks import Json
from agentkit.caching.request import Block, CacheRequest
from agentkit.caching.simulate import Served
from agentkit.fake.api import Answer, HttpCall, Prompt, parts_of
from agentkit.fake.fields import JsonObject, Problem
from agentkit.fake.openai import options
from agentkit.fake.openai.responses_parse import item_blocks, parse
from agentkit.fake.pieces import compact


class Responses:
    """`POST /v1/responses`."""

    name = "responses"
    id_prefix = "resp_"
    call_prefix = "call_"
    media_type = "text/event-stream; charset=utf-8"

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[JsonObject]] = {}
        """By organisation and response id: all items of its conversation."""

    def parse(self, call: HttpCall) -> Prompt:
        """Understand a request, with what came before it, if it continues a stored response."""
        name = call.body.get("previous_response_id")
        if name is None:
            return parse(call, ())
        earlier = self._kept.get((call.tenant.organization, str(name)))
        if earlier is None:
            raise Problem(
                f"Previous response with id {name!r} not found.", param="previous_response_id"
            )
        return parse(call, earlier)

    def ended(self, prompt: Prompt, answer: Answer) -> None:
        """Store the conversation, unless the client does not want that."""
        if prompt.body.get("store") is not False:
            name = prompt.request.tenant.organization, answer.id
            self._kept[name] = [*prompt.body["input"], *_items(answer)]

    def output(self, answer: Answer) -> tuple[Block, ...]:
        """Return the blocks of an answer."""
        items = enumerate(_items(answer))
        return tuple(block for i, item in items for block in item_blocks(item, f"output[{i}]"))

    def diagnose(self, prompt: Prompt, before: CacheRequest | None) -> Json:
        """Explain a miss against an earlier request."""
        return options.diagnose(prompt, before)

    def whole(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> JsonObject:
        """Return the response."""
        return _response(prompt, answer, _items(answer), _usage(served, n_thinking))

    def opening(self, prompt: Prompt, answer: Answer, served: Served) -> bytes:
        """Return `response.created` and `response.in_progress`, which know no usage."""
        del served
        response = _response(prompt, answer, None, None)
        return _events(
            [{"type": f"response.{kind}", "response": response} for kind in _OPENING], first=0
        )

    def deltas(self, prompt: Prompt, answer: Answer, served: Served) -> Sequence[bytes]:
        """Return the events of each item."""
        del prompt, served
        return [
            _events([event], first=len(_OPENING) + number)
            for number, event in enumerate(_middle(answer))
        ]

    def closing(self, prompt: Prompt, answer: Answer, served: Served, n_thinking: int) -> bytes:
        """Return `response.completed`, or `response.incomplete`, with the usage."""
        response = self.whole(prompt, answer, served, n_thinking)
        event = {"type": f"response.{response['status']}", "response": response}
        return _events([event], first=len(_OPENING) + len(_middle(answer)))

    def error(self, problem: Problem, request_id: str) -> JsonObject:
        """Return the error's JSON."""
        del request_id
        return options.error(problem)


_OPENING = ("created", "in_progress")


def _usage(served: Served, n_thinking: int) -> JsonObject:
    return {**served.usage_json, "output_tokens_details": {"reasoning_tokens": n_thinking}}


def _response(
    prompt: Prompt, answer: Answer, items: list[dict[str, Any]] | None, usage: JsonObject | None
) -> dict[str, Any]:
    body, request = prompt.body, prompt.request
    at = int(answer.at.timestamp())
    short = answer.finish == "length"
    status = "in_progress" if items is None else "incomplete" if short else "completed"
    response: dict[str, Any] = {
        "id": answer.id,
        "object": "response",
        "created_at": at,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if short and items else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "model": answer.model,
        "output": [] if request.prewarm else items or [],
        "parallel_tool_calls": request.identity.parallel_tools,
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": request.identity.cache_key,
        "prompt_cache_retention": request.openai.retention,
        "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
        "service_tier": body.get("service_tier") or "default",
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": "disabled",
        "usage": usage,
    }
    if body.get("prompt_cache_options"):
        ttl = request.openai.ttl
        response["prompt_cache_options"] = {
            "mode": request.openai.mode,
            "ttl": "30m" if ttl is None else ttl.value,
        }
    if answer.diagnosis is not None and items is not None:
        response["prompt_cache_diagnostics"] = answer.diagnosis
    return response


def _items(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if answer.thinking:
        found.append(
            {
                "id": answer.id.replace("resp_", "rs_"),
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": answer.thinking}],
                "encrypted_content": answer.signature,
            }
        )
    if answer.text:
        found.append(
            {
                "id": answer.id.replace("resp_", "msg_"),
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [_text_part(answer.text)],
            }
        )
    for call, name in zip(answer.calls, answer.call_ids, strict=True):
        found.append(
            {
                "id": name.replace("call_", "fc_"),
                "type": "function_call",
                "status": "completed",
                "arguments": call.arguments,
                "call_id": name,
                "name": call.name,
            }
        )
    return found


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _middle(answer: Answer) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for index, item in enumerate(_items(answer)):
        begun = {**item, **_EMPTY.get(item["type"], {})}
        if "status" in begun:
            begun["status"] = "in_progress"
        where = {"output_index": index, "item_id": item["id"]}
        added = {"type": "response.output_item.added", "output_index": index, "item": begun}
        done = {"type": "response.output_item.done", "output_index": index, "item": item}
        found += [added, *({**event, **where} for event in _item_events(item)), done]
    return found


_EMPTY: dict[str, dict[str, Any]] = {
    "reasoning": {"summary": []},
    "message": {"content": []},
    "function_call": {"arguments": ""},
}


def _item_events(item: dict[str, Any]) -> list[dict[str, Any]]:
    match item["type"]:
        case "reasoning":
            part = item["summary"][0]
            name, place = "response.reasoning_summary", {"summary_index": 0}
            empty = {**part, "text": ""}
            return [
                {"type": f"{name}_part.added", "part": empty, **place},
                *_text_events(f"{name}_text", part["text"], "text", place),
                {"type": f"{name}_part.done", "part": part, **place},
            ]
        case "message":
            part = item["content"][0]
            place = {"content_index": 0}
            empty = {**part, "text": ""}
            return [
                {"type": "response.content_part.added", "part": empty, **place},
                *_text_events("response.output_text", part["text"], "text", place),
                {"type": "response.content_part.done", "part": part, **place},
            ]
        case _:
            events = _text_events(
                "response.function_call_arguments", item["arguments"], "arguments", {}
            )
            events[-1]["name"] = item["name"]
            return events


def _text_events(name: str, text: str, whole: str, place: dict[str, int]) -> list[dict[str, Any]]:
    extra: dict[str, Any] = {"logprobs": []} if name == "response.output_text" else {}
    return [
        *({"type": f"{name}.delta", "delta": part, **extra, **place} for part in parts_of(text)),
        {"type": f"{name}.done", whole: text, **extra, **place},
    ]


def _events(events: list[dict[str, Any]], *, first: int) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n"
        % (event["type"].encode(), compact({**event, "sequence_number": first + number}))
        for number, event in enumerate(events)
    )
