"""The settings of a Messages request that change what its prompt is cached as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit.caching.request import Identity
from agentkit.fake.api import HttpCall
from agentkit.fake.fields import JsonObject, Problem, object_of, text_of
from agentkit.fake.pieces import digest


def tool_choice(body: JsonObject, tools: Sequence[JsonObject]) -> tuple[str, bool]:
    """Return the choice in our words, and whether calls may be parallel."""
    value = body.get("tool_choice")
    if value is None:
        return "auto", True
    choice = object_of(value, "tool_choice")
    parallel = not choice.get("disable_parallel_tool_use", False)
    kind = text_of(choice, "type", "tool_choice")
    if kind in ("auto", "none", "any"):
        if kind != "none" and not tools:
            raise Problem("tool_choice: may only be specified while providing tools")
        return kind, parallel
    name = text_of(choice, "name", "tool_choice")
    if kind != "tool" or name not in {tool.get("name") for tool in tools}:
        raise Problem(f"tool_choice: tool {name!r} not found in provided tools")
    return name, parallel


def identity(
    call: HttpCall,
    model: str,
    tools: Sequence[JsonObject],
    contents: Sequence[tuple[JsonObject, ...]],
    choice: str,
    parallel: bool,
) -> Identity:
    """Return what entries are keyed by, beside the prompt itself."""
    body = call.body
    output = object_of(body.get("output_config") or {}, "output_config")
    betas = call.headers.get("anthropic-beta", "")
    kinds = [str(tool.get("type", "")) for tool in tools]
    return Identity(
        model=model,
        tool_choice=choice,
        parallel_tools=parallel,
        thinking=_thinking(body.get("thinking")),
        effort=output.get("effort"),
        output_format=_named(output.get("format", body.get("output_format"))),
        context_management=_named(body.get("context_management")),
        web_tools=any(kind.startswith(("web_search", "web_fetch")) for kind in kinds),
        citations=any(
            (part.get("citations") or {}).get("enabled", False)
            for parts in contents
            for part in parts
            if part.get("type") in ("document", "search_result")
        ),
        betas=frozenset(name.strip() for name in betas.split(",") if name.strip()),
    )


def _thinking(value: object) -> str | None:
    if value is None:
        return None
    thinking = object_of(value, "thinking")
    match thinking.get("type"):
        case "disabled":
            return None
        case "enabled":
            return f"enabled:{thinking.get('budget_tokens')}"
        case kind:
            return str(kind)


def _named(value: Any) -> str | None:
    return None if value is None else digest(value).hex()
