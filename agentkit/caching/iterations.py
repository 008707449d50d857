"""Anthropic's beta `usage.iterations`: one request that was several, maybe of several models.

Two conventions meet here (client 2.14.0). Anthropic's `input_tokens` is *exclusive*: it leaves out
what was read and written. Our `Usage.input_tokens` is *inclusive*: read + written + neither, as at
OpenAI and Google. Whoever adds up details must know which one it has, or counts the cache twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentkit.blocks import Json
from agentkit.caching.policy import plain_name
from agentkit.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What a model did within a request, beside what the plan was made for."""

    model: str
    kind: str
    """The iterations' type: `message`, `compaction`, `advisor_message`, `fallback_message`."""
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationUsage:
    """The iterations of one request, added up and apart."""

    own: Usage
    """The sum over all iterations of the model that was asked, compactions too."""
    first: Usage
    """The first of these: what the plan was made for, and is judged by.

    A server-side tool loop sends the context again and again; the sum says nothing about the cache.
    """
    rest: tuple[ModelUsage, ...]
    """All other iterations one by one, those of other models too: prices go by model and length."""
    context_tokens: int | None
    """Input and output of the last message iteration: how long the context is now."""


def usage_of_iterations(iterations: Sequence[Mapping[str, Json]], *, model: str) -> IterationUsage:
    """Add up the iterations of a request to `model`. The top-level fields leave compactions out.

    The bill is that of `first` and of all of `rest`: give these to the judge.

    Raises:
        ValueError: no iteration is the model's own, or a count is negative or no integer.
    """
    parts = [_part(iteration, model) for iteration in iterations]
    own = [part for part in parts if plain_name(part.model) == plain_name(model)]
    if not own:
        raise ValueError(
            f"there is no iteration of {model!r}; use the top-level fields of the usage"
        )
    messages = [part.usage for part in parts if part.kind in ("message", "fallback_message")]
    return IterationUsage(
        own=Usage.total(part.usage for part in own),
        first=own[0].usage,
        rest=tuple(part for part in parts if part is not own[0]),
        context_tokens=_length(messages[-1]) if messages else None,
    )


def _part(iteration: Mapping[str, Json], model: str) -> ModelUsage:
    return ModelUsage(
        model=str(iteration.get("model") or model),
        kind=str(iteration.get("type")),
        usage=_usage(iteration),
    )


def inclusive_input(uncached: int | None, read: int | None, written: int | None) -> int | None:
    """Return the inclusive input of exclusive counts; None if any of them is unknown."""
    if uncached is None or read is None or written is None:
        return None
    return uncached + read + written


def _usage(iteration: Mapping[str, Json]) -> Usage:
    read = _count(iteration, "cache_read_input_tokens")
    written = _count(iteration, "cache_creation_input_tokens")
    creation = iteration.get("cache_creation")
    long = None
    if isinstance(creation, Mapping):
        long = _count(creation, "ephemeral_1h_input_tokens")
    elif written == 0:
        long = 0
    return Usage(
        input_tokens=inclusive_input(_count(iteration, "input_tokens"), read, written),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_long_tokens=long,
        output_tokens=_count(iteration, "output_tokens"),
    )


def _count(values: Mapping[str, Json], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    return value


def _length(usage: Usage) -> int | None:
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usage.input_tokens + usage.output_tokens
