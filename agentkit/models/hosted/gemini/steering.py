"""What steers one answer and is no part of the prompt: the members behind the contents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from agentkit.caching.plan.plan import CachePlan
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest, ToolName
from agentkit.models.hosted.gemini.options import GeminiOptions
from agentkit.models.hosted.gemini.vendor import VENDOR


def tool_config(request: ModelRequest, plan: CachePlan, model: str) -> bytes | None:
    """Return how the model may call tools; None where the API's default says it.

    A mask alone is only written if the plan says so: the API has masks (mode VALIDATED), but no
    request with a tool config can use an object, and whether it moves the implicit cache is not
    documented. The loop refuses calls that the mask forbids, so nothing depends on it.

    Raises:
        RequestRefused: a tool must be called, and none may be.
    """
    names, mask = request.shown_names, plan.mask
    listed: frozenset[str] | None = None
    match request.tool_choice:
        case "auto":
            mode, listed = ("AUTO", None) if mask is None else ("VALIDATED", mask)
        case "none":
            mode = "NONE"
        case "required":
            mode, listed = "ANY", request.allowed_tools if mask is None else mask
        case ToolName(name):
            mode, listed = "ANY", frozenset((name,))
    called = [name for name in names if listed is None or name in listed]
    if mode == "ANY" and not called:
        raise RequestRefused(
            f"{VENDOR}:{model}: tool_choice {request.tool_choice!r} needs a tool that may be "
            f"called; there are {list(names)!r}"
        )
    if mode == "AUTO" or not names:
        return None
    if not called or mode == "NONE":
        return _member("toolConfig", {"functionCallingConfig": {"mode": "NONE"}})
    allowed = {} if listed is None else {"allowedFunctionNames": called}
    return _member("toolConfig", {"functionCallingConfig": {"mode": mode, **allowed}})


def steering(
    choice: bytes | None, request: ModelRequest, options: GeminiOptions
) -> Iterator[bytes]:
    """Yield the members that come behind the contents."""
    if choice:
        yield choice
    if options.safety:
        yield _member(
            "safetySettings",
            [
                {"category": category, "threshold": threshold}
                for category, threshold in sorted(options.safety.items())
            ],
        )
    config = _generation(request, options)
    if config:
        yield _member("generationConfig", config)


def _generation(request: ModelRequest, options: GeminiOptions) -> dict[str, object]:
    settings, schema = request.settings, request.output_schema
    thinking = {
        "includeThoughts": options.include_thoughts or None,
        "thinkingBudget": options.thinking_budget,
        "thinkingLevel": options.thinking_level and options.thinking_level.upper(),
    }
    resolution = options.media_resolution
    config: dict[str, object] = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "topK": settings.top_k,
        "seed": settings.seed,
        "maxOutputTokens": settings.max_tokens,
        "stopSequences": list(settings.stop) or None,
        "responseMimeType": None if schema is None else "application/json",
        "responseJsonSchema": schema,
        "thinkingConfig": _given(thinking) or None,
        "mediaResolution": None if resolution is None else f"MEDIA_RESOLUTION_{resolution.upper()}",
    }
    return _given(config)


def _given(members: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}


def _member(name: str, value: object) -> bytes:
    # Keys stay in the order in which they were given: that of a schema's properties is the order
    # in which the model writes them.
    return (
        f'"{name}":'.encode()
        + json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()
    )


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} is no JSON value")
