"""Token counts of a response, merged field by field. Unknown stays unknown."""

from __future__ import annotations

from collections.abc import Mapping

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

    def __init__(self) -> None:
        self._before: list[Usage] = []
        self._fields: dict[str, object] = {}

    def update(self, usage: object) -> None:
        """Take in a usage object of the current response. What it leaves out, or null, stays."""
        if isinstance(usage, Mapping):
            self._fields |= {name: value for name, value in usage.items() if value is not None}

    def next_response(self) -> None:
        """Begin with another response of the same answer."""
        self._before.append(usage_of(self._fields))
        self._fields = {}

    @property
    def usage(self) -> Usage:
        """What is known so far."""
        current = usage_of(self._fields)
        return Usage.total((*self._before, current)) if self._before else current


def usage_of(fields: Mapping[str, object]) -> Usage:
    """Return our counts for an API usage object.

    Its `input_tokens` are what is left beside reads and writes that it reports; ours has them all.
    Compaction by the server comes on top of the other counts (client 2.14.0, `iterations`).
    """
    compactions = _compactions(fields)
    rest, read, write, output = (_sum(name, (fields, *compactions)) for name in _COUNTS)
    return Usage(
        input_tokens=None if rest is None else rest + (read or 0) + (write or 0),
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_long_tokens=_written_long(fields, compactions, write),
        output_tokens=output,
    )


def _written_long(
    fields: Mapping[str, object], compactions: list[Mapping[str, object]], write: int | None
) -> int | None:
    if write == 0:
        return 0
    parts = [each.get("cache_creation") for each in (fields, *compactions)]
    known = [part for part in parts if isinstance(part, Mapping)]
    return _sum(_LONG, tuple(known)) if len(known) == len(parts) else None


def _compactions(fields: Mapping[str, object]) -> list[Mapping[str, object]]:
    iterations = fields.get("iterations")
    if not isinstance(iterations, list):
        return []
    return [
        each
        for each in iterations
        if isinstance(each, Mapping) and each.get("type") == "compaction"
    ]


def _sum(name: str, parts: tuple[Mapping[str, object], ...]) -> int | None:
    counts = [_count(part.get(name)) for part in parts]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
