"""Chat completions: from a body to what the cache sees of it, after the API's own pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentkit.caching.policy import BlockKind, Provider
from agentkit.caching.request import Block, CacheRequest, Message, Role
from agentkit.caching.tokens import data_tokens
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
from agentkit.fake.pieces import block_of, compact, digest, mark_of
from agentkit.fake.reply import Ask

_ROLES = {
    "system": Role.DEVELOPER,
    "developer": Role.DEVELOPER,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
}
_PARTS = {
    "text": BlockKind.TEXT,
    "refusal": BlockKind.TEXT,
    "image_url": BlockKind.IMAGE,
    "file": BlockKind.DOCUMENT,
    "input_audio": BlockKind.AUDIO,
}


def parse(call: HttpCall, provider: Provider) -> Prompt:
    """Understand the body of `/v1/chat/completions`.

    Raises:
        Problem: the API refuses it.
    """
    body = call.body
    text_of(body, "model")
    messages = objects_of(body.get("messages"), "messages")
    _check(messages)
    tools = objects_of(body.get("tools"), "tools")
    stream = flag_of(body, "stream")
    effort = body.get("reasoning_effort")
    identity = options.identity(
        call,
        effort=effort,
        verbosity=body.get("verbosity"),
        output_format=body.get("response_format"),
    )
    if provider is Provider.DEEPSEEK:
        identity = replace(identity, cache_key=body.get("user_id"))
    elif body.get("cache_salt") is not None:
        identity = replace(identity, cache_key=text_of(body, "cache_salt"))
    request = CacheRequest(
        identity=identity,
        tenant=call.tenant,
        tools=tuple(_tool(tool, index) for index, tool in enumerate(tools)),
        **_input(messages),
        terms=options.terms(body),
        stream=stream,
        openai=options.cache_options(body, "chat"),
    )
    limits = [count_of(body, name, least=1) for name in ("max_completion_tokens", "max_tokens")]
    return Prompt(
        request=request,
        ask=_ask(call, request, messages, tools),
        stream=stream,
        max_tokens=next((limit for limit in limits if limit is not None), None),
        body=body,
    )


def message_blocks(message: JsonObject, path: str) -> tuple[Block, ...]:
    """Return the blocks of one message."""
    if message.get("role") == "tool":
        return _result_blocks(message, path)
    found: list[Block] = []
    reasoning = message.get("reasoning_content")
    if reasoning:
        found.append(block_of({"reasoning_content": reasoning}, BlockKind.THINKING))
    found += _content_blocks(message.get("content"), path)
    for index, call in enumerate(objects_of(message.get("tool_calls"), f"{path}.tool_calls")):
        where = f"{path}.tool_calls[{index}]"
        function = object_of(call.get("function"), f"{where}.function")
        named = [call.get("id"), function.get("name"), text_of(function, "arguments", where)]
        found.append(block_of(call, BlockKind.TOOL_USE, mark=mark_of(call, where), named=named))
    return tuple(found)


def _tool(tool: JsonObject, index: int) -> Block:
    path = f"tools[{index}]"
    if tool.get("type") == "function":
        text_of(object_of(tool.get("function"), f"{path}.function"), "name", f"{path}.function")
    return block_of(tool, BlockKind.TOOL, mark=mark_of(tool, path))


def _input(messages: Sequence[JsonObject]) -> dict[str, Any]:
    """System and developer messages before all others are the system section."""
    system: list[Block] = []
    found: list[Message] = []
    for index, message in enumerate(messages):
        role = _ROLES[message["role"]]
        blocks = message_blocks(message, f"messages[{index}]")
        if role is Role.DEVELOPER and not found:
            system += blocks
        else:
            found.append(Message(role, blocks))
    return {"system": tuple(system), "messages": tuple(found)}


def _content_blocks(content: object, path: str) -> list[Block]:
    if content is None or content == "":
        return []
    if isinstance(content, str):  # short for one part of text
        part = {"type": "text", "text": content}
        return [block_of(part, BlockKind.TEXT, n_tokens=data_tokens(compact(content)))]
    return [
        _part(part, f"{path}.content[{index}]")
        for index, part in enumerate(objects_of(content, f"{path}.content"))
    ]


def _part(part: JsonObject, path: str) -> Block:
    name = text_of(part, "type", path)
    if name not in _PARTS:
        known = ", ".join(repr(part) for part in _PARTS)
        raise Problem(f"Invalid value: {name!r}. Supported values are: {known}.", param=path)
    return block_of(part, _PARTS[name], mark=mark_of(part, path))


def _result_blocks(message: JsonObject, path: str) -> tuple[Block, ...]:
    """A result is one block for each of its parts."""
    mark = mark_of(message, path)
    found = []
    for index, block in enumerate(_content_blocks(message.get("content") or " ", path)):
        named = [message.get("tool_call_id"), index, block.digest.hex()]
        found.append(
            replace(
                block,
                kind=BlockKind.TOOL_RESULT,
                digest=digest(named),
                mark=block.mark or mark,
            )
        )
    return tuple(found)


def _check(messages: Sequence[JsonObject]) -> None:
    if not messages:
        raise Problem("Invalid 'messages': empty array.", param="messages")
    waiting: list[str] = []
    for index, message in enumerate(messages):
        path, role = f"messages[{index}]", message.get("role")
        if role not in _ROLES:
            known = ", ".join(repr(name) for name in _ROLES)
            raise Problem(f"Invalid value: {role!r}. Supported values are: {known}.", param=path)
        if role == "tool":
            name = text_of(message, "tool_call_id", path)
            if name not in waiting:
                raise Problem(
                    "messages with role 'tool' must be a response to a preceding message with "
                    "'tool_calls'.",
                    param=path,
                )
            waiting.remove(name)
            continue
        if waiting:
            raise Problem(
                "An assistant message with 'tool_calls' must be followed by tool messages "
                "responding to each 'tool_call_id'. The following tool_call_ids did not have "
                f"response messages: {', '.join(waiting)}",
                param=path,
            )
        calls = objects_of(message.get("tool_calls"), f"{path}.tool_calls")
        waiting = [text_of(call, "id", path) for call in calls]
    if waiting:
        raise Problem(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            f"to each 'tool_call_id'. Missing: {', '.join(waiting)}",
            param="messages",
        )


def _ask(
    call: HttpCall,
    request: CacheRequest,
    messages: Sequence[JsonObject],
    tools: Sequence[JsonObject],
) -> Ask:
    roles = [message["role"] for message in messages]
    turns = [index for index, role in enumerate(roles) if role == "assistant"]
    recent = messages[turns[-1] + 1 if turns else 0 :]
    functions = [tool["function"] for tool in tools if tool.get("type") == "function"]
    schemas = {str(each["name"]): each.get("parameters") or {} for each in functions}
    allowed = options.allowed_names(call.body, list(schemas))
    form = call.body.get("response_format") or {}
    return Ask(
        api="chat",
        model=request.identity.model,
        user_text="\n".join(
            _text(message.get("content")) for message in recent if message["role"] == "user"
        ),
        n_results=sum(message["role"] == "tool" for message in recent),
        n_turns=len(turns),
        tools={name: schemas[name] for name in allowed},
        tool_choice=request.identity.tool_choice,
        output_schema=(form.get("json_schema") or {}).get("schema"),
        headers=call.headers,
        body=call.body,
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if "text" in part)
