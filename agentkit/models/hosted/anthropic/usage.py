"""Token counts of a response, merged field by field. Unknown stays unknown."""

from __future__ import annotations

from collections.abc import Mapping

from agentkit.caching.iterations import usage_of_iterations
from agentkit.usage import Usage

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
        self._before: list[Usage] = []
        self._fields: dict[str, object] = {}

    def update(self, usage: object) -> None:
        """Take in a usage object of the current response. What it leaves out, or null, stays."""
        if isinstance(usage, Mapping):
            self._fields |= {name: value for name, value in usage.items() if value is not None}

    def next_response(self) -> None:
        """Begin with another response of the same answer."""
        self._before.append(usage_of(self._fields, self._model))
        self._fields = {}

    @property
    def usage(self) -> Usage:
        """What is known so far."""
        current = usage_of(self._fields, self._model)
        return Usage.total((*self._before, current)) if self._before else current


def usage_of(fields: Mapping[str, object], model: str) -> Usage:
    """Return our counts for an API usage object.

    Its `input_tokens` are what is left beside reads and writes that it reports; ours has them all.
    Where it lists iterations their sum is the bill: the other counts leave compactions out.
    """
    iterations = fields.get("iterations")
    if isinstance(iterations, list) and iterations:
        try:
            return usage_of_iterations(iterations, model=model).own
        except (AttributeError, ValueError):
            pass  # not in the form that we know: the other counts are the best there is
    rest, read, write, output = (_count(fields.get(name)) for name in _COUNTS)
    creation = fields.get("cache_creation")
    long = _count(creation.get(_LONG)) if isinstance(creation, Mapping) else None
    return Usage(
        input_tokens=None if rest is None else rest + (read or 0) + (write or 0),
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_long_tokens=0 if write == 0 else long,
        output_tokens=output,
    )


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
