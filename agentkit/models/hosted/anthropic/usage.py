"""Token counts of a response, merged field by field. Unknown stays unknown."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.caching.iterations import IterationUsage, ModelUsage, usage_of_iterations
from agentkit.events import UsageEvent
from agentkit.usage import Timing, Usage

_COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
_LONG = "ephemeral_1h_input_tokens"


class UsageMeter:
    """Adds up what one answer costs, over all responses that it took."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._before: list[IterationUsage] = []
        self._fields: dict[str, object] = {}

    def update(self, usage: object) -> None:
        """Take in a usage object of the current response. What it leaves out, or null, stays."""
        if isinstance(usage, Mapping):
            self._fields |= {name: value for name, value in usage.items() if value is not None}

    def next_response(self) -> None:
        """Begin with another response of the same answer."""
        self._before.append(iterations_of(self._fields, self._model))
        self._fields = {}

    def event(self, *, timing: Timing | None = None, note: str | None = None) -> UsageEvent:
        """Return what is known so far. The first request is apart where there were several."""
        responses = [*self._before, iterations_of(self._fields, self._model)]
        parts = list(responses[0].rest)
        for later in responses[1:]:
            whole = ModelUsage(model=self._model, kind="message", usage=later.first)
            parts += [whole, *later.rest]
        own = [response.own for response in responses]
        return UsageEvent(
            usage=Usage.total(own) if len(own) > 1 else own[0],
            timing=timing or Timing(),
            cache_note=note,
            first=responses[0].first if parts else None,
            parts=tuple(parts),
        )


def usage_of(fields: Mapping[str, object], model: str) -> Usage:
    """Return our counts for an API usage object, its iterations added up."""
    return iterations_of(fields, model).own


def iterations_of(fields: Mapping[str, object], model: str) -> IterationUsage:
    """Return our counts for an API usage object, iteration by iteration if it lists them.

    Its `input_tokens` are what is left beside reads and writes that it reports; ours has them all.
    Where it lists iterations their sum is the bill: the other counts leave compactions out.
    """
    iterations = fields.get("iterations")
    if isinstance(iterations, list) and iterations:
        try:
            return usage_of_iterations(iterations, model=model)
        except (AttributeError, ValueError):
            pass  # not in the form that we know: the other counts are the best there is
    rest, read, write, output = map(_count, map(fields.get, _COUNTS))
    creation = fields.get("cache_creation")
    long = _count(creation.get(_LONG)) if isinstance(creation, dict) else None
    usage = Usage(
        input_tokens=None if rest is None else rest + (read or 0) + (write or 0),
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_long_tokens=0 if write == 0 else long,
        output_tokens=output,
    )
    return IterationUsage(own=usage, first=usage, rest=(), context_tokens=None)


def _count(value: object) -> int | None:
    # A bool is an int, too, and no count.
    return value if type(value) is int and value >= 0 else None
