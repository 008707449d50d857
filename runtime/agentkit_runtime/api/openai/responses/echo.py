"""The parts of a response that repeat its request, with the defaults that were used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentkit_runtime.api.openai.options import served_tier
from agentkit_runtime.api.openai.responses.request import (
    InputItem,
    ResponseBody,
    ResponseTool,
    ResponseToolChoice,
)
from agentkit_runtime.api.openai.responses.tools import is_served
from agentkit_runtime.api.openai.responses.wire import ItemDocument, ResponseDocument
from agentkit_runtime.api.site import new_id


def begun_response(
    body: ResponseBody, *, response_id: str, created_s: int, model: str
) -> ResponseDocument:
    """The response before anything was generated."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_s,
        "completed_at": None,
        "status": "in_progress",
        "background": body.background is True,
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "metadata": body.metadata or {},
        "model": model,
        "output": [],
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": {
            "effort": None if body.reasoning is None else body.reasoning.effort,
            "summary": None,
        },
        "safety_identifier": body.safety_identifier,
        "service_tier": served_tier(body.service_tier or "auto") or "default",
        "temperature": float(body.temperature or 0.0),
        "text": {"format": _format(body)},
        "tool_choice": _tool_choice(body.tool_choice),
        "tools": [_tool(tool) for tool in body.tools or () if is_served(tool)],
        "top_logprobs": body.top_logprobs or 0,
        "top_p": 1.0 if body.top_p is None else float(body.top_p),
        "truncation": "disabled",
        "usage": None,
        "user": body.user,
    }


def input_documents(
    items: str | Sequence[InputItem], earlier: Sequence[ItemDocument] = ()
) -> tuple[ItemDocument, ...]:
    """The input as it is listed later: each item with an id that no other has.

    `earlier` are the items in front of it. Pages are found by ids: one that a client has sent is
    kept only where it names one item.
    """
    if isinstance(items, str):
        return (_message("user", items),)
    taken = {str(item["id"]) for item in earlier}
    return tuple(_item(item, taken) for item in items)


_ID_PREFIXES = {
    "additional_tools": "at_",
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
}


def _item(item: InputItem, taken: set[str]) -> ItemDocument:
    if item.type in (None, "message") and isinstance(item.content, str) and item.role:
        return _message(item.role, item.content)
    sent = item.model_dump(exclude_unset=True, by_alias=True)
    if not isinstance(sent.get("id"), str) or sent["id"] in taken:
        sent.pop("id", None)
    else:
        taken.add(sent["id"])
    if sent.get("status") is None:
        sent.pop("status", None)
    defaults: dict[str, object] = {
        "type": item.type or "message",
        "id": new_id(_ID_PREFIXES[item.type or "message"]),
        "status": "completed",
    }
    return {**defaults, **sent}


def _message(role: str, text: str) -> ItemDocument:
    part: dict[str, object] = {"type": "input_text", "text": text}
    if role == "assistant":
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": new_id("msg_"),
        "status": "completed",
        "role": role,
        "content": [part],
    }


def _format(body: ResponseBody) -> Mapping[str, object]:
    form = None if body.text is None else body.text.format
    if form is None:
        return {"type": "text"}
    return form.model_dump(exclude_unset=True, by_alias=True)


def _tool(tool: ResponseTool) -> Mapping[str, object]:
    if tool.type != "function":
        return tool.model_dump(exclude_unset=True)
    return {
        "type": tool.type,
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": True,
    }


def _tool_choice(choice: str | ResponseToolChoice | None) -> object:
    if isinstance(choice, ResponseToolChoice):
        return choice.model_dump(exclude_unset=True, exclude={"namespace"})  # not OpenAI's
    return choice or "auto"
