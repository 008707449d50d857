"""Tokens and seconds of model requests. Unknown is a value: None, never 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request, or of many added up. None means that the model did not say.

    `input_tokens` is inclusive: read from the cache + written to it + neither.
    """

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    """Input tokens that were read from a cache."""
    cache_write_tokens: int | None = None
    """Input tokens that were computed and kept in a cache."""
    cache_write_long_tokens: int | None = None
    """The part of `cache_write_tokens` that was written with the provider's longer lifetime."""
    output_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value in zip(_FIELDS, _VALUES(self), strict=True):
            if value is not None and value < 0:
                raise ValueError(f"{name} must be None (unknown) or at least 0, got {value!r}")

    @property
    def hit_ratio(self) -> float | None:
        """Share of the input that was read from a cache, 0 to 1. None if unknown or no input."""
        if self.input_tokens is None or self.cache_read_tokens is None or not self.input_tokens:
            return None
        return self.cache_read_tokens / self.input_tokens

    def __add__(self, other: Usage) -> Usage:
        """Add field by field. Unknown plus anything is unknown: a total must not look complete."""
        return Usage(**dict(zip(_FIELDS, map(_add, _VALUES(self), _VALUES(other)), strict=True)))

    def merge(self, later: Usage) -> Usage:
        """Refine this report by a later one of the *same* request: fields the later one knows win.

        Providers send the input counts when a stream starts and the output counts when it ends.
        """
        pairs = zip(_FIELDS, _VALUES(self), _VALUES(later), strict=True)
        return Usage(**{name: was if now is None else now for name, was, now in pairs})

    @staticmethod
    def total(usages: Iterable[Usage]) -> Usage:
        """Add up many. No usages at all are known zeros."""
        total = Usage(**dict.fromkeys(_FIELDS, 0))
        for usage in usages:
            total = total + usage
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of one model request, on a monotonic clock. None where unknown or not reached."""

    ttft_s: float | None = None
    """From sending the request to its first token."""
    total_s: float | None = None
    """From sending the request to its end."""
    queued_s: float | None = None
    """How long it waited for its turn under rate limits before it was sent; None: not at all."""

    def merge(self, later: Timing) -> Timing:
        """Refine by a later report of the same request."""
        return Timing(
            ttft_s=self.ttft_s if later.ttft_s is None else later.ttft_s,
            total_s=self.total_s if later.total_s is None else later.total_s,
            queued_s=self.queued_s if later.queued_s is None else later.queued_s,
        )


_FIELDS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_long_tokens",
    "output_tokens",
)


_VALUES = attrgetter(*_FIELDS)


def _add(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
