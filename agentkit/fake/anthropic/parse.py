"""Anthropic Messages: from a body to what the cache sees of it, after the API's own pages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from agentkit.caching.policy import BlockKind, Speed, Terms
from agentkit.caching.request import Block, CacheRequest, Mark, Message, Messages, Role
from agentkit.fake.anthropic.checks import check_messages, check_tools
from agentkit.fake.anthropic.settings import identity, tool_choice
from agentkit.fake.anthropic.tool_changes import offered_tools
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
from agentkit.fake.pieces import block_of, mark_of
from agentkit.fake.reply import Ask

_KINDS = {
    "text": BlockKind.TEXT,
    "image": BlockKind.IMAGE,
    "document": BlockKind.DOCUMENT,
    "search_result": BlockKind.SEARCH_RESULT,
    "tool_use": BlockKind.TOOL_USE,
    "tool_result": BlockKind.TOOL_RESULT,
    "thinking": BlockKind.THINKING,
    "redacted_thinking": BlockKind.REDACTED_THINKING,
    "server_tool_use": BlockKind.SERVER_TOOL_USE,
    "mcp_tool_use": BlockKind.SERVER_TOOL_USE,
    "mcp_tool_result": BlockKind.SERVER_TOOL_RESULT,
    "tool_reference": BlockKind.TOOL_REFERENCE,
    "container_upload": BlockKind.CONTAINER_UPLOAD,
    "browser_state": BlockKind.BROWSER_STATE,
    "compaction": BlockKind.COMPACTION,
    "tool_addition": BlockKind.TOOL_ADDITION,
    "tool_removal": BlockKind.TOOL_REMOVAL,
}
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.DEVELOPER}


def parse(call: HttpCall) -> Prompt:
    """Understand the body of `/v1/messages`.

    Raises:
        Problem: the API refuses it.
    """
    body = call.body
    model = text_of(body, "model")
    max_tokens = count_of(body, "max_tokens", least=0)
    if max_tokens is None:
        raise Problem("max_tokens: Field required", param="max_tokens")
    tools = objects_of(body.get("tools"), "tools")
    messages = objects_of(body.get("messages"), "messages")
    check_tools(tools)
    contents = [_contents(message, index) for index, message in enumerate(messages)]
    check_messages(messages, contents)
    stream = flag_of(body, "stream")
    offered = offered_tools(call.headers, tools, messages, contents)
    choice, parallel = tool_choice(body, offered)
    request = CacheRequest(
        identity=identity(call, model, tools, contents, choice, parallel),
        tenant=call.tenant,
        tools=tuple(_tool(tool, index) for index, tool in enumerate(tools)),
        system=tuple(_system(body.get("system"))),
        messages=Messages(_merged(messages, contents)),
        terms=Terms(
            speed=Speed.FAST if body.get("speed") == "fast" else Speed.STANDARD,
            us_only=body.get("inference_geo") == "us",
        ),
        prewarm=max_tokens == 0,
        stream=stream,
        automatic=mark_of({"cache_control": body.get("cache_control")}, "body"),
    )
    diagnostics = body.get("diagnostics")
    previous = None if diagnostics is None else object_of(diagnostics, "diagnostics")
    return Prompt(
        request=request,
        ask=_ask(call, model, messages, contents, offered, choice),
        stream=stream,
        max_tokens=max_tokens,
        body=body,
        compare=previous is not None,
        compare_with=None if previous is None else previous.get("previous_message_id"),
    )


def content_blocks(contents: Sequence[JsonObject], path: str) -> tuple[Block, ...]:
    """Return the blocks of a message's content."""
    return tuple(_block(part, f"{path}.content.{index}") for index, part in enumerate(contents))


def _tool(tool: JsonObject, index: int) -> Block:
    kind = BlockKind.TOOL
    if tool.get("defer_loading"):
        kind = BlockKind.DEFERRED_TOOL
    elif str(tool.get("type", "")).endswith("_toolset"):
        kind = BlockKind.TOOLSET
    return block_of(tool, kind, mark=mark_of(tool, f"tools.{index}"))


def _system(system: object) -> list[Block]:
    if system is None:
        return []
    if isinstance(system, str):
        return [block_of({"type": "text", "text": system}, BlockKind.TEXT)] if system else []
    found = []
    for index, part in enumerate(objects_of(system, "system")):
        if part.get("type") != "text":
            raise Problem(f"system.{index}.type: Input should be 'text'", param="system")
        found.append(_block(part, f"system.{index}"))
    return found


def _contents(message: JsonObject, index: int) -> tuple[JsonObject, ...]:
    content = message.get("content")
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return objects_of(content, f"messages.{index}.content")


def _merged(
    messages: Sequence[JsonObject], contents: Sequence[tuple[JsonObject, ...]]
) -> list[Message]:
    """Consecutive turns of one role are one turn, as the API has it."""
    found = []
    numbered = list(enumerate(zip(messages, contents, strict=True)))
    for role, group in groupby(numbered, key=lambda item: item[1][0]["role"]):
        blocks: list[Block] = []
        for index, (message, parts) in group:
            path = f"messages.{index}"
            if role == "system" and message.get("clear_at"):
                blocks += [
                    block_of(part, BlockKind.CLEARED_SYSTEM, mark=mark_of(part, path))
                    for part in parts
                ]
            else:
                blocks += content_blocks(parts, path)
        found.append(Message(_ROLES[role], tuple(blocks)))
    return found


def _block(part: JsonObject, path: str) -> Block:
    name = text_of(part, "type", path)
    kind = _KINDS.get(name)
    if kind is None and name.endswith("_tool_result"):
        kind = BlockKind.SERVER_TOOL_RESULT
    if kind is None:
        raise Problem(f"{path}: Input tag {name!r} is not one that this fake knows", param=path)
    mark = mark_of(part, path)
    if kind is BlockKind.TEXT and not part.get("text"):
        if mark is not None:
            raise Problem(f"{path}: cache_control cannot be set for empty text blocks")
        raise Problem(f"{path}: text content blocks must be non-empty", param=path)
    if kind is BlockKind.TOOL_RESULT:
        return _tool_result(part, path, mark)
    return block_of(part, kind, mark=mark)


def _tool_result(part: JsonObject, path: str, mark: Mark | None) -> Block:
    """A result is one block. A mark on the last thing in it counts as its own."""
    inner = part.get("content")
    if isinstance(inner, str):  # short for one block of text
        named = {**part, "content": [{"type": "text", "text": inner}]}
        named.pop("cache_control", None)
        return block_of(part, BlockKind.TOOL_RESULT, mark=mark, named=named)
    pieces = [dict(piece) for piece in objects_of(inner, f"{path}.content")]
    for index, piece in enumerate(pieces):
        own = mark_of(piece, f"{path}.content.{index}")
        if own is None:
            continue
        if index + 1 < len(pieces):
            raise Problem(
                f"{path}.content.{index}.cache_control: only the last block inside a tool_result "
                "may have it; mark the tool_result"
            )
        piece.pop("cache_control")
        mark = mark or own
    plain = {**part, "content": pieces} if inner is not None else dict(part)
    return block_of(plain, BlockKind.TOOL_RESULT, mark=mark)


def _ask(
    call: HttpCall,
    model: str,
    messages: Sequence[JsonObject],
    contents: Sequence[tuple[JsonObject, ...]],
    tools: Sequence[JsonObject],
    choice: str,
) -> Ask:
    roles = [message["role"] for message in messages]
    turns = [index for index, role in enumerate(roles) if role == "assistant"]
    recent = [
        part
        for index, parts in enumerate(contents)
        if roles[index] == "user" and index > (turns[-1] if turns else -1)
        for part in parts
    ]
    output = call.body.get("output_config") or {}
    form = output.get("format", call.body.get("output_format")) or {}
    return Ask(
        api="messages",
        model=model,
        user_text="\n".join(part["text"] for part in recent if part.get("type") == "text"),
        n_results=sum(part.get("type") == "tool_result" for part in recent),
        n_turns=len(turns),
        tools={
            str(tool["name"]): tool.get("input_schema") or {} for tool in tools if "name" in tool
        },
        tool_choice=choice,
        output_schema=form.get("schema"),
        headers=call.headers,
        body=call.body,
    )


def size_of(prompt: Prompt) -> int:
    """Return the input tokens of a request."""
    return sum(
        block.n_tokens
        for block in prompt.request.blocks
        if block.kind is not BlockKind.DEFERRED_TOOL
    )
