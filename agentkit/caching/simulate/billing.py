"""How marks split the input of one request, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agentkit.caching.policy import Cost, InputSplit, Policy, Terms, Ttl, cost_of


def split_at_marks(total: int, hit: int, marks: Sequence[tuple[int, Ttl]]) -> InputSplit:
    """Return which tokens are read, written with which lifetime, and neither.

    Anthropic's formula for mixed lifetimes (documentation of 2026-08-21): with A the highest hit,
    B the last mark of the longer lifetime behind it (else A) and C the last mark,
    read A, write B - A long and C - B short, and the rest is plain input. `marks` are pairs of
    prefix length and lifetime. OpenAI does not document its own; it is assumed to be the same.
    """
    behind = sorted((n_tokens, ttl) for n_tokens, ttl in marks if n_tokens > hit)
    if not behind:
        return InputSplit(read=hit, uncached=total - hit)
    longest = max((ttl for _, ttl in marks), key=lambda ttl: ttl.seconds)
    shorter = [ttl for _, ttl in behind if ttl is not longest]
    long_end = max((n_tokens for n_tokens, ttl in behind if ttl is longest), default=hit)
    last = behind[-1][0]
    spans = [(longest, long_end - hit)]
    if shorter:
        spans.append((shorter[-1], last - long_end))
    writes = tuple((ttl, n_tokens) for ttl, n_tokens in spans if n_tokens > 0)
    written = sum(n_tokens for _, n_tokens in writes)
    return InputSplit(read=hit, writes=writes, uncached=total - hit - written)


def bill(
    policy: Policy, split: InputSplit, *, at: datetime, terms: Terms, output_tokens: int
) -> Cost | None:
    """Return what the request costs under the policy; None if the price is unknown."""
    if policy.prices is None:
        return None
    rates = policy.prices.rates_for(split.total, at, terms)
    return None if rates is None else cost_of(split, rates, output_tokens=output_tokens)
