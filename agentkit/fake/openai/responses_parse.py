"""OpenAI Responses: from a body to what the cache sees of it, after the API's own pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentkit.caching.policy import BlockKind
from agentkit.caching.request import Block, CacheRequest, Message, Role
from agentkit.fake.api import HttpCall, Prompt
from agentkit.fake.fields import (
    JsonObject,
    Problem,
    count_of,
    flag_of,
    object_of,
    objects_of,
    text_of,
)
from agentkit.fake.openai import options
from agentkit.fake.openai.added_tools import with_added_tools
from agentkit.fake.pieces import block_of, digest, mark_of
from agentkit.fake.reply import Ask

_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.DEVELOPER,
    "developer": Role.DEVELOPER,
}
_PARTS = {
    "input_text": BlockKind.TEXT,
    "output_text": BlockKind.TEXT,
    "refusal": BlockKind.TEXT,
    "summary_text": BlockKind.TEXT,
    "input_image": BlockKind.IMAGE,
    "input_file": BlockKind.DOCUMENT,
    "input_audio": BlockKind.AUDIO,
}


def parse(call: HttpCall, earlier: Sequence[JsonObject]) -> Prompt:
    """Understand the body of `/v1/responses`.

    `earlier` are the items of the response that the request continues.

    Raises:
        Problem: the API refuses it.
    """
    body = call.body
    model = text_of(body, "model")
    if body.get("conversation") is not None:
        raise Problem(
            "this fake keeps no conversation objects: name a previous_response_id, or send all "
            "items in 'input'",
            param="conversation",
        )
    items = (*earlier, *_items(body.get("input")))
    _check_pairs(items)
    tools = objects_of(body.get("tools"), "tools")
    text = object_of(body.get("text") or {}, "text")
    reasoning = object_of(body.get("reasoning") or {}, "reasoning")
    given = object_of(body.get("prompt_cache_options") or {}, "prompt_cache_options")
    stream = flag_of(body, "stream")
    request = CacheRequest(
        identity=options.identity(
            call,
            effort=reasoning.get("effort"),
            verbosity=text.get("verbosity"),
            output_format=text.get("format"),
        ),
        tenant=call.tenant,
        tools=tuple(block_of(tool, BlockKind.TOOL, mark=mark_of(tool, "tools")) for tool in tools),
        **_input(body.get("instructions"), items),
        terms=options.terms(body),
        prewarm=given.get("prewarm") is True,
        stream=stream,
        openai=options.cache_options(body, "responses"),
    )
    return Prompt(
        request=request,
        ask=_ask(call, request, items, with_added_tools(model, tools, items), text),
        stream=stream,
        max_tokens=count_of(body, "max_output_tokens", least=1),
        body={**body, "input": items},
        compare=given.get("comparison_response_id") is not None,
        compare_with=given.get("comparison_response_id"),
    )


def item_blocks(item: JsonObject, path: str) -> tuple[Block, ...]:
    """Return the blocks of one input item."""
    kind = item.get("type", "message")
    if kind == "message":
        return _message_blocks(item, path)
    if kind == "reasoning":
        # Without its id and status, which the client may leave out when it replays the item.
        named = {"type": kind, "encrypted_content": item.get("encrypted_content")}
        return (block_of(item, BlockKind.THINKING, named=named),)
    if kind.endswith("_call_output") or kind == "mcp_approval_response":
        return _output_blocks(item, path)
    if kind.endswith("_call"):
        named = {
            name: value for name, value in item.items() if name not in ("id", "status", "caller")
        }
        return (block_of(item, BlockKind.TOOL_USE, named=named),)
    if kind == "additional_tools":
        return (block_of(item, BlockKind.ADDITIONAL_TOOLS, mark=mark_of(item, path)),)
    if kind in ("compaction", "configuration_update"):
        return (block_of(item, BlockKind.COMPACTION),)
    raise Problem(f"{path}: this fake does not know items of the type {kind!r}", param=path)


def _items(value: object) -> tuple[JsonObject, ...]:
    if isinstance(value, str):
        return ({"role": "user", "content": value},)
    items = objects_of(value, "input")
    if not items:
        raise Problem("Missing required parameter: 'input'.", param="input")
    return items


def _input(instructions: object, items: Sequence[JsonObject]) -> dict[str, Any]:
    """Instructions and the developer messages that begin the input are the system section."""
    system: list[Block] = []
    if instructions:
        named = {"instructions": instructions}
        system.append(block_of(named, BlockKind.INSTRUCTIONS))
    messages: list[Message] = []
    for index, item in enumerate(items):
        blocks = item_blocks(item, f"input[{index}]")
        role = _role(item, index)
        if role is Role.DEVELOPER and not messages:
            system += blocks
        else:
            messages.append(Message(role, blocks))
    return {"system": tuple(system), "messages": tuple(messages)}


def _role(item: JsonObject, index: int) -> Role:
    kind = str(item.get("type", "message"))
    if kind == "message":
        role = item.get("role")
        if role not in _ROLES:
            raise Problem(
                f"Invalid value: {role!r}. Supported values are: 'assistant', 'system', "
                "'developer', and 'user'.",
                param=f"input[{index}].role",
            )
        return _ROLES[role]
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return Role.TOOL
    if kind in ("additional_tools", "configuration_update"):
        return Role.DEVELOPER
    return Role.ASSISTANT


def _message_blocks(item: JsonObject, path: str) -> tuple[Block, ...]:
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    parts = objects_of(content, f"{path}.content")
    return tuple(_part(part, f"{path}.content[{index}]") for index, part in enumerate(parts))


def _part(part: JsonObject, path: str) -> Block:
    name = text_of(part, "type", path)
    if name not in _PARTS:
        known = ", ".join(repr(part) for part in _PARTS)
        raise Problem(f"Invalid value: {name!r}. Supported values are: {known}.", param=path)
    kind = _PARTS[name]
    named = {"text": part["text"]} if "text" in part else None
    return block_of(part, kind, mark=mark_of(part, path), named=named)


def _output_blocks(item: JsonObject, path: str) -> tuple[Block, ...]:
    """A result is one block for each of its parts."""
    output = item.get("output")
    if isinstance(output, str):
        output = [{"type": "input_text", "text": output}]
    if not isinstance(output, list):
        return (block_of(item, BlockKind.TOOL_RESULT),)
    parts = objects_of(output, f"{path}.output")
    found = []
    for index, part in enumerate(parts):
        block = _part(part, f"{path}.output[{index}]")
        named = [item.get("call_id"), index, block.digest.hex()]
        found.append(replace(block, kind=BlockKind.TOOL_RESULT, digest=digest(named)))
    return tuple(found) or (block_of(item, BlockKind.TOOL_RESULT),)


def _check_pairs(items: Sequence[JsonObject]) -> None:
    calls, outputs = set(), set()
    for item in items:
        kind = item.get("type")
        if kind == "function_call":
            calls.add(item.get("call_id"))
        elif kind == "function_call_output":
            outputs.add(item.get("call_id"))
            if item.get("call_id") not in calls:
                raise Problem(
                    f"No tool call found for function call output with call_id "
                    f"{item.get('call_id')}.",
                    param="input",
                )
    for item in items:
        if item.get("type") == "function_call" and item.get("call_id") not in outputs:
            raise Problem(
                f"No tool output found for function call {item.get('call_id')}.", param="input"
            )


def _ask(
    call: HttpCall,
    request: CacheRequest,
    items: Sequence[JsonObject],
    tools: Sequence[JsonObject],
    text: JsonObject,
) -> Ask:
    kinds = [_role(item, index) for index, item in enumerate(items)]
    last = max((i for i, role in enumerate(kinds) if role is Role.ASSISTANT), default=-1)
    recent = items[last + 1 :]
    said = [_text(item.get("content")) for item in recent if item.get("role") == "user"]
    schemas = {
        str(tool["name"]): tool.get("parameters") or {}
        for tool in tools
        if tool.get("type") == "function" and "name" in tool
    }
    allowed = options.allowed_names(call.body, list(schemas))
    form = text.get("format") or {}
    return Ask(
        api="responses",
        model=request.identity.model,
        user_text="\n".join(said),
        n_results=sum(str(item.get("type", "")).endswith("_call_output") for item in recent),
        n_turns=sum(
            role is Role.ASSISTANT and (i == 0 or kinds[i - 1] is not Role.ASSISTANT)
            for i, role in enumerate(kinds)
        ),
        tools={name: schemas[name] for name in allowed},
        tool_choice=request.identity.tool_choice,
        output_schema=form.get("schema"),
        headers=call.headers,
        body=call.body,
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if "text" in part)
