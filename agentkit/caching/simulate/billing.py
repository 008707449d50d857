"""How marks split the input of one request, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from agentkit.caching.policy import Cost, InputSplit, Policy, Terms, Ttl, cost_of


def split_at_marks(total: int, hit: int, marks: Sequence[tuple[int, Ttl]]) -> InputSplit:
    """Return which tokens are read, written with which lifetime, and neither.

    Anthropic's formula for mixed lifetimes (documentation of 2026-08-21): with A the highest hit,
    B the last mark of the longer lifetime behind it (else A) and C the last mark,
    read A, write B - A long and C - B short, and the rest is plain input. `marks` are pairs of
    prefix length and lifetime. OpenAI does not document its own; it is assumed to be the same.
    """
    behind = sorted([mark for mark in marks if mark[0] > hit])
    if not behind:
        return InputSplit(read=hit, uncached=total - hit)
    longest = max([ttl for _, ttl in marks], key=_SECONDS)
    shorter, long_end = None, hit
    for n_tokens, ttl in behind:
        if ttl is longest:
            long_end = n_tokens
        else:
            shorter = ttl
    last = behind[-1][0]
    spans = [(longest, long_end - hit)]
    if shorter is not None:
        spans.append((shorter, last - long_end))
    writes = tuple([span for span in spans if span[1] > 0])
    return InputSplit(read=hit, writes=writes, uncached=total - last)


def bill(
    policy: Policy, split: InputSplit, *, at: datetime, terms: Terms, output_tokens: int
) -> Cost | None:
    """Return what the request costs under the policy; None if the price is unknown."""
    if policy.prices is None:
        return None
    rates = policy.prices.rates_for(split.total, at, terms)
    return None if rates is None else cost_of(split, rates, output_tokens=output_tokens)


_SECONDS = attrgetter("seconds")
