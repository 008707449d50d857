"""A layout and a plan -> the final bytes, and the same bytes without what a server refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentkit.answer_form import as_object
from agentkit.caching.plan.plan import CachePlan
from agentkit.models.base import ModelRequest, Settings, ToolName
from agentkit.models.hosted.openai_chat.layout import ChatLayout
from agentkit.models.hosted.openai_chat.options import ChatOptions
from agentkit.models.hosted.openai_chat.pieces import joined
from agentkit.models.hosted.openai_chat.profiles import MarkField, Profile
from agentkit.models.hosted.openai_responses.strict import strict_form
from agentkit.models.hosted.wire import Body
from agentkit.models.hosted.wire_json import compact_json

_MASK = "allowed_tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBody(Body):
    """A finished request, and how to finish it otherwise."""

    optional: frozenset[str]
    """Fields in it that a server may be spared: what they do is done here, or only costs more."""
    kept: frozenset[str]
    """Fields in it that are needed; a refusal that names one is about that."""
    host_key: tuple[str, ...]
    """Requests with the same one are best served by the same host."""
    render: Callable[[frozenset[str]], bytes]
    """Returns the bytes without these fields."""


def finish(
    layout: ChatLayout,
    plan: CachePlan,
    profile: Profile,
    *,
    model: str,
    steering: Mapping[str, object],
    hints: Mapping[str, object],
    headers: Mapping[str, str],
    without: frozenset[str],
    needed: frozenset[str],
    host_key: tuple[str, ...],
) -> ChatBody:
    """Return the final bytes.

    `without`: fields that the server was seen to refuse. `needed`: fields that it may not refuse.

    The model, the tools and the messages come first; what differs from one request of a run to the
    next is behind them.
    """
    marks = {} if profile.mark is None else _marks(layout, plan, profile.mark)
    tools, messages = layout.blocks[: layout.n_tools], layout.blocks[layout.n_tools :]
    head = b'{"model":' + compact_json(model) + b","
    if tools:
        head += b'"tools":[' + joined(tools, {}) + b"],"
    head += b'"messages":['
    mark_name = frozenset((profile.mark.name,)) if profile.mark is not None and marks else ()

    def again(dropped: frozenset[str]) -> bytes:
        dropped -= needed
        fields = _unmasked(steering, profile) if _MASK in dropped else steering
        rest = {k: v for k, v in {**fields, **hints}.items() if k not in dropped}
        kept = {} if dropped.intersection(mark_name) else marks
        inside = joined(messages, kept, layout.n_tools)
        return b"".join((head, inside, b"],", compact_json(rest)[1:]))

    spared = frozenset(("stream_options",)).intersection(steering)
    mask = frozenset((_MASK,)) if _is_mask(steering.get("tool_choice")) else frozenset[str]()
    return ChatBody(
        data=again(without),
        headers={**headers, **cache_headers(plan, profile)},
        optional=spared.union(hints, mark_name, mask) - without - needed,
        kept=needed.union(steering) - spared,
        host_key=host_key,
        render=again,
    )


def dropped_with(fields: frozenset[str], profile: Profile) -> frozenset[str]:
    """Return these fields and those that must go with them.

    Explicit mode without a breakpoint would turn the cache off.
    """
    if profile.mark is not None and profile.mark.name in fields and profile.cache_options:
        return fields | {"prompt_cache_options"}
    return fields


def cache_fields(plan: CachePlan, profile: Profile) -> dict[str, object]:
    """Return the plan's body fields that the server knows."""
    fields: dict[str, object] = dict(plan.hints.body)
    if plan.cache_key is not None and profile.key_field is not None:
        fields[profile.key_field] = plan.cache_key
    options = {
        # Implicit is the default, and older models refuse the field.
        "mode": plan.openai.mode if plan.openai.mode != "implicit" else None,
        "ttl": plan.openai.ttl.value if plan.openai.ttl is not None else None,
    }
    known = {k: v for k, v in options.items() if v is not None and k in profile.cache_options}
    if known:
        fields["prompt_cache_options"] = known
    if profile.retention and plan.openai.retention is not None:
        fields["prompt_cache_retention"] = plan.openai.retention
    return fields


def cache_headers(plan: CachePlan, profile: Profile) -> dict[str, str]:
    """Return the plan's headers."""
    headers = dict(plan.hints.headers)
    if plan.cache_key is not None and profile.key_header is not None:
        headers.setdefault(profile.key_header, plan.cache_key)
    return headers


def lost_marks(layout: ChatLayout, plan: CachePlan) -> tuple[int, ...]:
    """Return the marks of a plan that no piece can carry, by block."""
    return tuple(mark.index for mark in plan.marks if layout.blocks[mark.index].mark_at is None)


def steering_fields(
    request: ModelRequest, plan: CachePlan, profile: Profile, options: ChatOptions
) -> dict[str, object]:
    """Return the body's fields that steer this answer; those first that stay the same in a run."""
    fields: dict[str, object] = {
        "stream": True,
        "stream_options": {"include_usage": True} if profile.stream_usage else None,
        "response_format": _response_format(request, profile),
        "reasoning_effort": options.reasoning_effort,
        "verbosity": options.verbosity,
        "service_tier": options.service_tier,
        "parallel_tool_calls": options.parallel_tool_calls if request.shown_tools else None,
        "tool_choice": _tool_choice(request, plan.mask, profile) if request.shown_tools else None,
        **_sampling(request.settings, profile),
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return {**given, **profile.extra, **options.body}


def _marks(layout: ChatLayout, plan: CachePlan, field: MarkField) -> dict[int, bytes]:
    marks = {}
    for mark in plan.marks:
        value = dict(field.value)
        if mark.ttl is not None and field.ttls:
            value["ttl"] = mark.ttl.value
        marks[mark.index] = compact_json({field.name: value})[1:-1]
    return marks


def _response_format(request: ModelRequest, profile: Profile) -> dict[str, object] | None:
    if request.output_schema is None or not profile.json_schema:
        return None
    asked = as_object(request.output_schema)
    strict = strict_form(asked)
    schema = strict or asked
    form = {"name": "answer", "schema": schema, "strict": strict is not None}
    return {"type": "json_schema", "json_schema": form}


def _tool_choice(
    request: ModelRequest, mask: frozenset[str] | None, profile: Profile
) -> object | None:
    """Return the choice; None where it is the default. Masks never touch the list of tools."""
    choice = request.tool_choice
    if isinstance(choice, ToolName):
        return _function(choice.name)
    allowed = [name for name in request.shown_names if mask is None or name in mask]
    if choice == "none" or not allowed:
        return "none"
    if mask is not None and len(allowed) < len(request.shown_names):
        if profile.allowed_tools:
            tools = [_function(name) for name in allowed]
            return {"type": _MASK, _MASK: {"mode": choice, "tools": tools}}
        if choice == "required" and len(allowed) == 1:
            return _function(allowed[0])
    return profile.required if choice == "required" else None


def _is_mask(choice: object) -> bool:
    return isinstance(choice, Mapping) and choice.get("type") == _MASK


def _unmasked(steering: Mapping[str, object], profile: Profile) -> Mapping[str, object]:
    """Without its mask, a call of a tool that is not allowed is refused when it comes."""
    choice = steering.get("tool_choice")
    if not isinstance(choice, Mapping) or not _is_mask(choice):
        return steering
    if choice[_MASK]["mode"] == "required":
        return {**steering, "tool_choice": profile.required}
    return {name: value for name, value in steering.items() if name != "tool_choice"}


def _function(name: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


def _sampling(settings: Settings, profile: Profile) -> dict[str, object]:
    return {
        profile.max_tokens_field: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        profile.seed_field: settings.seed,
        "stop": list(settings.stop) or None,
    }
