"""How failures are recorded on spans."""

from __future__ import annotations

import asyncio

from opentelemetry.trace import Span, StatusCode

from agentkit.errors import (
    LimitReached,
    PriceUnknown,
    TurnLimitReached,
)
from agentkit.observe import semconv

CANCELLED = "cancelled"
_WITHOUT_CONTENT = frozenset((LimitReached, PriceUnknown, TurnLimitReached))
"""Errors whose whole text is ours. A provider's may quote the prompt, a name may be the model's."""


def record_error(span: Span, error: BaseException, *, content: bool) -> str:
    """Record why a span's work ended early, and return the kind of error.

    The text of an error that may quote what was said, is recorded only with `content`.
    """
    kind = error_type(error)
    span.set_attribute(semconv.ERROR_TYPE, kind)
    is_told = content or type(error) in _WITHOUT_CONTENT
    span.set_status(StatusCode.ERROR, str(error) if is_told else None)
    if content and kind != CANCELLED:
        span.record_exception(error)
    return kind


def error_type(error: BaseException) -> str:
    """Return the kind of an error, of which there are few."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return CANCELLED
    return type(error).__qualname__
