"""Where servers say what they read and wrote: one place each, and the places of their likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentkit.caching.policy import UsageField
from agentkit.models.hosted.openai_common import count
from agentkit.usage import Usage

_READ_ELSEWHERE = (
    "usage.prompt_tokens_details.cached_tokens",
    "usage.prompt_cache_hit_tokens",
    "usage.cached_tokens",
    "usage.cache_read_input_tokens",
)
_WRITTEN_ELSEWHERE = (
    "usage.prompt_tokens_details.cache_write_tokens",
    "usage.prompt_tokens_details.created_cache_tokens",
    "usage.cache_creation_input_tokens",
)
"""Gateways pass on what a server behind them says, in its words."""


def find_usage(
    chunk: Mapping[str, object], places: Sequence[tuple[str, ...]]
) -> Mapping[str, object] | None:
    """Return the usage object of a chunk, if it has one."""
    for place in places:
        value: object = chunk
        for step in place:
            value = _step(value, step)
        if isinstance(value, Mapping) and value:
            return value
    return None


def read_usage(usage: Mapping[str, object], where: UsageField) -> Usage:
    """Return a usage object in our terms. What it does not say is None, never 0.

    Chat APIs count reads and writes within `prompt_tokens`. Where they are more than that, the
    server counts them beside it, and the input is the sum: nothing is clamped.
    """
    read = _first(usage, (where.path, *_READ_ELSEWHERE))
    written_paths = (where.written_path,) if where.written_path else ()
    written = _first(usage, (*written_paths, *_WRITTEN_ELSEWHERE))
    given = count(usage, "prompt_tokens")
    missed = count(usage, "prompt_cache_miss_tokens")
    cached = (read or 0) + (written or 0)
    if given is None and missed is not None and read is not None:
        given = read + missed
    elif given is not None and cached > given:
        given += cached
    return Usage(
        input_tokens=given,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=count(usage, "completion_tokens"),
    )


def _first(usage: Mapping[str, object], paths: Sequence[str]) -> int | None:
    for path in paths:
        *steps, name = path.split(".")[1:]
        holder: object = usage
        for step in steps:
            holder = _step(holder, step)
        found = count(holder, name)
        if found is not None:
            return found
    return None


def _step(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return value.get(name)
    if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
        return value[int(name)]
    return None
