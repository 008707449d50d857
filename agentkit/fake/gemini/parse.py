"""Gemini: from a body to what the cache sees of it, after the API's own pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit.caching.policy import BlockKind, Terms
from agentkit.caching.request import Block, CacheRequest, Identity, Message, Messages, Role
from agentkit.fake.api import HttpCall, Prompt
from agentkit.fake.fields import JsonObject, Problem, count_of, object_of, objects_of
from agentkit.fake.pieces import block_of, digest
from agentkit.fake.reply import Ask

_ROLES = {"user": Role.USER, "model": Role.ASSISTANT, "function": Role.TOOL}
_MODES = {"NONE": "none", "ANY": "any"}


def parse(call: HttpCall, front: JsonObject) -> Prompt:
    """Understand the body of `:generateContent` or `:streamGenerateContent`.

    `front` is what the cached content was made of that the request names: the model sees its tools.

    Raises:
        Problem: the API refuses it.
    """
    body = call.body
    contents = objects_of(body.get("contents"), "contents")
    if not contents:
        raise Problem("* GenerateContentRequest.contents: contents is not specified")
    config = object_of(field(body, "generationConfig") or {}, "generation_config")
    request = request_of(call, contents)
    _check_pairs(contents)
    return Prompt(
        request=request,
        ask=_ask(call, request, contents, config, call.body.get("tools") or front.get("tools")),
        stream=call.path.endswith(":streamGenerateContent"),
        max_tokens=count_of(config, "maxOutputTokens", least=1),
        body=body,
    )


def request_of(call: HttpCall, contents: Sequence[JsonObject]) -> CacheRequest:
    """Return what the cache sees of a request, or of a cached content's front."""
    body = call.body
    config = object_of(field(body, "generationConfig") or {}, "generation_config")
    tool_config = object_of(field(body, "toolConfig") or {}, "tool_config")
    functions = object_of(field(tool_config, "functionCallingConfig") or {}, "tool_config")
    system = field(body, "systemInstruction")
    schema = field(config, "responseJsonSchema") or field(config, "responseSchema")
    return CacheRequest(
        identity=Identity(
            model=call.model,
            tool_choice=_MODES.get(str(functions.get("mode", "AUTO")).upper(), "auto"),
            thinking=_named(field(config, "thinkingConfig")),
            output_format=_named(schema),
        ),
        tenant=call.tenant,
        tools=tuple(_tools(body)),
        system=() if system is None else part_blocks(object_of(system, "system_instruction")),
        messages=Messages(
            Message(_role(content, index), part_blocks(content))
            for index, content in enumerate(contents)
        ),
        terms=Terms(batch=field(body, "serviceTier") == "flex"),
        cached_content=field(body, "cachedContent"),
    )


def part_blocks(content: JsonObject) -> tuple[Block, ...]:
    """Return the blocks of a content, one for each part."""
    parts = objects_of(content.get("parts"), "contents.parts")
    if not parts:
        raise Problem("* GenerateContentRequest.contents.parts: contents.parts must not be empty.")
    return tuple(_part(part) for part in parts)


def field(body: JsonObject, name: str) -> Any:
    """Return a field by its name in either spelling: `cachedContent` or `cached_content`."""
    if name in body:
        return body[name]
    return body.get("".join(f"_{c.lower()}" if c.isupper() else c for c in name))


def _part(part: JsonObject) -> Block:
    media = field(part, "inlineData") or field(part, "fileData")
    if part.get("thought") is True:
        kind = BlockKind.THINKING
    elif field(part, "functionCall") is not None:
        kind = BlockKind.TOOL_USE
    elif field(part, "functionResponse") is not None:
        kind = BlockKind.TOOL_RESULT
    elif media is not None:
        media_type = str(field(media, "mimeType") or "")
        kind = BlockKind.IMAGE if media_type.startswith("image/") else BlockKind.DOCUMENT
        kind = BlockKind.AUDIO if media_type.startswith("audio/") else kind
    elif "text" in part:
        kind = BlockKind.TEXT
    elif field(part, "executableCode") is not None:
        kind = BlockKind.SERVER_TOOL_USE
    elif field(part, "codeExecutionResult") is not None:
        kind = BlockKind.SERVER_TOOL_RESULT
    else:
        raise Problem(
            "* GenerateContentRequest.contents.parts.data: required oneof field 'data' must have "
            "one initialized field"
        )
    return block_of(part, kind)


def _tools(body: JsonObject) -> list[Block]:
    """Each function is a block, and so is each tool of Google's own."""
    found: list[Block] = []
    names: set[str] = set()
    for tool in objects_of(body.get("tools"), "tools"):
        functions = field(tool, "functionDeclarations")
        if functions is None:
            found.append(block_of(tool, BlockKind.TOOLSET))
            continue
        for function in objects_of(functions, "tools.function_declarations"):
            name = str(function.get("name"))
            if name in names:
                raise Problem(f"Duplicate function declaration found: {name}")
            names.add(name)
            found.append(block_of(function, BlockKind.TOOL))
    return found


def _role(content: JsonObject, index: int) -> Role:
    role = content.get("role", "user")
    if role not in _ROLES:
        raise Problem(
            f"Please use a valid role: user, model. contents[{index}] has {role!r}.",
            param="contents",
        )
    is_results = all(field(part, "functionResponse") for part in content.get("parts") or [{}])
    return Role.TOOL if is_results else _ROLES[role]


def _check_pairs(contents: Sequence[JsonObject]) -> None:
    """Behind a turn with calls stands a turn with as many responses."""
    for index, content in enumerate(contents):
        n_calls = _count(content, "functionCall")
        if content.get("role") != "model" or not n_calls:
            continue
        if index == 0 or contents[index - 1].get("role") == "model":
            raise Problem(
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
        following = contents[index + 1] if index + 1 < len(contents) else {}
        if _count(following, "functionResponse") != n_calls:
            raise Problem(
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn."
            )


def _count(content: JsonObject, name: str) -> int:
    return sum(field(part, name) is not None for part in content.get("parts") or ())


def _named(value: Any) -> str | None:
    return None if value is None else digest(value).hex()


def _ask(
    call: HttpCall,
    request: CacheRequest,
    contents: Sequence[JsonObject],
    config: JsonObject,
    tools: Any,
) -> Ask:
    roles = [content.get("role", "user") for content in contents]
    turns = [index for index, role in enumerate(roles) if role == "model"]
    recent = [
        part
        for content in contents[turns[-1] + 1 if turns else 0 :]
        for part in content.get("parts") or ()
    ]
    schemas = {
        str(function["name"]): field(function, "parametersJsonSchema")
        or function.get("parameters")
        or {}
        for tool in tools or ()
        for function in field(tool, "functionDeclarations") or ()
    }
    tool_config = field(call.body, "toolConfig") or {}
    functions = field(tool_config, "functionCallingConfig") or {}
    allowed = field(functions, "allowedFunctionNames") or list(schemas)
    return Ask(
        api="gemini",
        model=call.model,
        user_text="\n".join(part["text"] for part in recent if "text" in part),
        n_results=sum(field(part, "functionResponse") is not None for part in recent),
        n_turns=len(turns),
        tools={name: schemas[name] for name in allowed if name in schemas},
        tool_choice=request.identity.tool_choice,
        output_schema=field(config, "responseJsonSchema") or field(config, "responseSchema"),
        headers=call.headers,
        body=call.body,
    )
