"""What Responses and Chat have in common: cache options, settings, errors."""

from __future__ import annotations

from typing import Any, Literal

from agentkit.blocks import Json
from agentkit.caching.policy import Speed, Terms, Ttl
from agentkit.caching.request import CacheRequest, Identity, OpenAiOptions
from agentkit.fake.api import HttpCall, Prompt
from agentkit.fake.fields import JsonObject, Problem, object_of, objects_of, text_of
from agentkit.fake.pieces import digest, ttl_of


def cache_options(body: JsonObject, api: Literal["responses", "chat"]) -> OpenAiOptions:
    """Return the cache options of a body.

    Raises:
        Problem: an option has a value that the API does not know.
    """
    given = object_of(body.get("prompt_cache_options") or {}, "prompt_cache_options")
    mode: Any = given.get("mode") or "implicit"
    if mode not in ("implicit", "explicit"):
        raise Problem(
            f"Invalid value: {mode!r}. Supported values are: 'implicit' and 'explicit'.",
            param="prompt_cache_options.mode",
        )
    ttl = ttl_of(given.get("ttl"), "prompt_cache_options.ttl")
    if ttl not in (None, Ttl.THIRTY_MINUTES, Ttl.TWELVE_HOURS):
        raise Problem(f"Invalid value: {ttl!r}.", param="prompt_cache_options.ttl")
    if api == "chat" and "prewarm" in given:
        raise Problem("Unknown parameter: 'prompt_cache_options.prewarm'.", param="prewarm")
    retention = body.get("prompt_cache_retention")
    if retention not in (None, "in_memory", "24h"):
        raise Problem(f"Invalid value: {retention!r}.", param="prompt_cache_retention")
    return OpenAiOptions(api=api, mode=mode, ttl=ttl, retention=retention)


def identity(call: HttpCall, *, effort: Any, verbosity: Any, output_format: Any) -> Identity:
    """Return what entries are keyed by, beside the prompt itself."""
    body = call.body
    return Identity(
        model=text_of(body, "model"),
        cache_key=body.get("prompt_cache_key"),
        service_tier="flex" if body.get("service_tier") == "flex" else None,
        tool_choice=tool_choice(body),
        parallel_tools=body.get("parallel_tool_calls") is not False,
        effort=effort,
        verbosity=verbosity,
        output_format=named(output_format),
        context_management=named(body.get("context_management")),
    )


def terms(body: JsonObject) -> Terms:
    """Return what the request is billed by."""
    tier = body.get("service_tier")
    return Terms(
        speed=Speed.FAST if tier in ("priority", "fast") else Speed.STANDARD, batch=tier == "flex"
    )


def tool_choice(body: JsonObject) -> str:
    """Return the choice in our words. A list of allowed tools changes no prompt."""
    value = body.get("tool_choice")
    if value is None:
        return "auto"
    if isinstance(value, str):
        if value not in ("auto", "none", "required"):
            raise Problem(f"Invalid value: {value!r}.", param="tool_choice")
        return "any" if value == "required" else value
    choice = object_of(value, "tool_choice")
    if choice.get("type") == "allowed_tools":
        inner = choice.get("allowed_tools")
        allowed = inner if isinstance(inner, dict) else choice
        return "any" if allowed.get("mode") == "required" else "auto"
    return str(choice.get("name") or (choice.get("function") or {}).get("name") or "any")


def allowed_names(body: JsonObject, known: list[str]) -> list[str]:
    """Return the tools that may be called: all, or what the choice allows."""
    value = body.get("tool_choice")
    if not isinstance(value, dict) or value.get("type") != "allowed_tools":
        return known
    inner = value.get("allowed_tools")
    allowed = inner if isinstance(inner, dict) else value
    names = []
    for tool in objects_of(allowed.get("tools"), "tool_choice.tools"):
        name = tool.get("name") or (tool.get("function") or {}).get("name")
        if name not in known:
            raise Problem(f"Tool {name!r} not found in 'tools'.", param="tool_choice")
        names.append(str(name))
    return names


def named(value: Any) -> str | None:
    """Return a name for a setting's value; None where it is the default."""
    if value is None or (isinstance(value, dict) and value.get("type") == "text"):
        return None
    return digest(value).hex()


def diagnose(prompt: Prompt, before: CacheRequest | None) -> Json:
    """`prompt_cache_diagnostics`: compare with the response that the client names."""
    if not prompt.compare:
        return None
    if before is None:
        return {"type": "comparison_response_not_found"}
    after = prompt.request
    size = sum(block.n_tokens for block in before.blocks)
    for reason, was, now in (
        ("model_changed", before.identity.model, after.identity.model),
        (
            "service_tier_changed",
            (before.terms, before.identity.service_tier),
            (after.terms, after.identity.service_tier),
        ),
        ("prompt_cache_key_changed", before.identity.cache_key, after.identity.cache_key),
        ("tools_changed", _digests(before.tools), _digests(after.tools)),
        ("tools_changed", before.identity.parallel_tools, after.identity.parallel_tools),
        ("text_format_changed", before.identity.output_format, after.identity.output_format),
        ("reasoning_effort_changed", before.identity.effort, after.identity.effort),
        ("verbosity_changed", before.identity.verbosity, after.identity.verbosity),
    ):
        if was != now:
            return {"type": "cache_miss", "reason": reason, "cache_missed_tokens": size}
    return _changed_input(before, after)


def _changed_input(before: CacheRequest, after: CacheRequest) -> Json:
    was, now = list(before.blocks), list(after.blocks)
    common = 0
    for old, new in zip(was, now, strict=False):
        if old.digest != new.digest:
            break
        common += old.n_tokens
    lost = sum(block.n_tokens for block in was) - common
    if not lost:
        return {"type": "cache_hit"}
    return {
        "type": "cache_miss",
        "reason": "input_changed",
        "cache_missed_tokens": lost,
        "comparison_reusable_tokens": common,
    }


def error(problem: Problem) -> JsonObject:
    """Return the error's JSON."""
    kind, code = _ERRORS.get(
        problem.status,
        ("server_error" if problem.status >= 500 else "invalid_request_error", None),
    )
    return {
        "error": {
            "message": problem.message,
            "type": kind,
            "param": problem.param,
            "code": code,
        }
    }


_ERRORS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def _digests(blocks: tuple[Any, ...]) -> list[bytes]:
    return [block.digest for block in blocks]
