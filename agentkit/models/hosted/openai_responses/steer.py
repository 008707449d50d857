"""What a request says beside its prompt: choice, mask, answer form, and how to generate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agentkit.answer_form import as_object
from agentkit.caching.request import Identity
from agentkit.errors import RequestRefused
from agentkit.models.base import ModelRequest, Settings, ToolName
from agentkit.models.hosted.openai_responses.options import ResponsesOptions
from agentkit.models.hosted.openai_responses.strict import strict_form
from agentkit.models.hosted.shared import choice_name
from agentkit.models.hosted.wire_json import compact_json


def identity(request: ModelRequest, model: str, options: ResponsesOptions) -> Identity:
    """Return what entries are keyed by, beside the pieces."""
    form = answer_form(request.output_schema)
    return Identity(
        model=model,
        service_tier=options.cached_tier,
        tool_choice=choice_name(request),
        parallel_tools=options.parallel_tool_calls,
        effort=options.effort,
        verbosity=options.verbosity,
        output_format=None if form is None else hashlib.sha256(compact_json(form)).hexdigest()[:16],
    )


def steering(
    request: ModelRequest, model: str, options: ResponsesOptions, mask: frozenset[str] | None
) -> dict[str, object]:
    """Return the body's fields behind the prompt, those first that stay the same during a run."""
    text = {"format": answer_form(request.output_schema), "verbosity": options.verbosity}
    reasoning = {
        "effort": options.effort,
        "summary": options.summary,
        "context": options.reasoning_context,
    }
    settings = request.settings
    fields: dict[str, object] = {
        "model": model,
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"] if options.includes_reasoning(model) else None,
        "reasoning": _given(reasoning) or None,
        "text": _given(text) or None,
        "parallel_tool_calls": None if options.parallel_tool_calls else False,
        "service_tier": options.service_tier,
        "tool_choice": tool_choice(request, mask) if request.shown_tools else None,
        "max_output_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
    }
    return _given(fields)


def tool_choice(request: ModelRequest, mask: frozenset[str] | None) -> str | dict[str, object]:
    """Return the choice. Masks are part of it, so that the list of tools stays as it is."""
    choice = request.tool_choice
    if isinstance(choice, ToolName):
        return {"type": "function", "name": choice.name}
    allowed = [name for name in request.shown_names if mask is None or name in mask]
    if choice == "none" or not allowed:
        return "none"
    if mask is None:
        return choice
    tools = [{"type": "function", "name": name} for name in allowed]
    return {"type": "allowed_tools", "mode": choice, "tools": tools}


def answer_form(schema: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return the form of the answer, held to strictly where that is possible."""
    if schema is None:
        return None
    schema = as_object(schema)
    strict = strict_form(schema)
    form = {"type": "json_schema", "name": "answer", "schema": strict or schema}
    return form | {"strict": strict is not None}


def check_settings(settings: Settings, label: str) -> None:
    """Raise `RequestRefused` for a setting that this API does not have."""
    for name in ("top_k", "seed", "stop"):
        value = getattr(settings, name)
        if value not in (None, ()):
            raise RequestRefused(
                f"{label}: the Responses API has no {name}, got {value!r}; leave it out of "
                "settings, or use the Chat API"
            )


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
