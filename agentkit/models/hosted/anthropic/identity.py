"""What entries are keyed by, and priced by, beside the blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agentkit.blocks import Json
from agentkit.caching.policy import Speed, Terms
from agentkit.caching.request import Identity
from agentkit.models.base import ModelRequest, ToolChoice, ToolName
from agentkit.models.hosted.anthropic.dialect import Dialect
from agentkit.models.hosted.anthropic.front import has_web_tools
from agentkit.models.hosted.anthropic.options import AnthropicOptions
from agentkit.models.hosted.wire_json import compact_json


def identity_of(
    request: ModelRequest,
    model: str,
    options: AnthropicOptions,
    output_schema: Mapping[str, object] | None,
    betas: tuple[str, ...],
) -> Identity:
    """Return the settings that a change of which loses entries."""
    choice = tool_choice_param(request, options) or {"type": "auto"}
    return Identity(
        model=model,
        service_tier=options.service_tier,
        tool_choice=str(choice.get("name", choice["type"])),
        parallel_tools=options.parallel_tools,
        thinking=_thinking(options),
        effort=options.effort,
        output_format=None if output_schema is None else _named(output_schema),
        context_management=(
            None if options.context_management is None else _named(options.context_management)
        ),
        web_tools=has_web_tools(options.server_tools),
        betas=frozenset(betas),
    )


def betas_of(request: ModelRequest, options: AnthropicOptions, dialect: Dialect) -> tuple[str, ...]:
    """Return the beta headers, sorted.

    What tools in mid-conversation need is sent from the first request of a conversation that may
    get some: a set of headers that changes loses the cached messages.
    """
    rules = dialect.later_tools
    may_have = request.tools_may_come or bool(request.context.later_tools)
    if rules is None or rules.beta is None or not may_have:
        return options.all_betas
    return tuple(sorted({*options.all_betas, rules.beta}))


def terms_of(options: AnthropicOptions) -> Terms:
    """Return what changes the price."""
    return Terms(
        speed=Speed.FAST if options.speed == "fast" else Speed.STANDARD,
        us_only=options.inference_geo == "us",
    )


def tool_choice_param(request: ModelRequest, options: AnthropicOptions) -> dict[str, Json] | None:
    """Return the `tool_choice` field; None leaves it out.

    Only what the agent itself chooses is there: the API has no mask, and a choice loses the cached
    messages. So masked tools stay as they are, and the loop refuses calls of them.
    """
    if not request.shown_tools and not options.server_tools:
        return None
    param = _choice(request.tool_choice)
    if param["type"] == "none":
        return param
    if not options.parallel_tools:
        param["disable_parallel_tool_use"] = True
    return None if param == {"type": "auto"} else param


def _choice(choice: ToolChoice) -> dict[str, Json]:
    match choice:
        case ToolName(name):
            return {"type": "tool", "name": name}
        case "required":
            return {"type": "any"}
        case "auto" | "none":
            return {"type": choice}


def _thinking(options: AnthropicOptions) -> str | None:
    param = options.thinking_param
    if param is None or param["type"] == "disabled":
        return None
    return ":".join(str(value) for value in param.values())


def _named(value: Mapping[str, object]) -> str:
    return hashlib.blake2b(compact_json(value), digest_size=16).hexdigest()
