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
    """What one model did within a request."""

    model: str
    kind: str
    """The iterations' type: `message`, `compaction`, `advisor_message`, `fallback_message`."""
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationUsage:
    """The iterations of one request, added up."""

    own: Usage
    """All iterations of the model that was asked, compactions too: its bill."""
    others: tuple[ModelUsage, ...]
    """Iterations of other models, by model and type, each to be billed at its own price."""
    context_tokens: int | None
    """Input and output of the last message iteration: how long the context is now.

    The sums above are longer wherever a server-side tool loop sent the same context again.
    """


def usage_of_iterations(iterations: Sequence[Mapping[str, Json]], *, model: str) -> IterationUsage:
    """Add up the iterations of a request to `model`. The top-level fields leave compactions out.

    Raises:
        ValueError: there are no iterations, or a count is negative or no integer.
    """
    if not iterations:
        raise ValueError("there are no iterations; use the top-level fields of the usage")
    own: list[Usage] = []
    others: dict[tuple[str, str], list[Usage]] = {}
    context: int | None = None
    for iteration in iterations:
        usage = _usage(iteration)
        kind, name = str(iteration.get("type")), iteration.get("model") or model
        if plain_name(str(name)) == plain_name(model):
            own.append(usage)
        else:
            others.setdefault((str(name), kind), []).append(usage)
        if kind in ("message", "fallback_message"):
            context = _plus(usage.input_tokens, usage.output_tokens)
    return IterationUsage(
        own=Usage.total(own),
        others=tuple(
            ModelUsage(model=name, kind=kind, usage=Usage.total(usages))
            for (name, kind), usages in others.items()
        ),
        context_tokens=context,
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


def _plus(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
