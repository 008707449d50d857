"""What the provider counted, as an `InputSplit`. Numbers that contradict each other are unknown."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit.caching.plan.plan import CachePlan
from agentkit.caching.policy import (
    AnthropicPolicy,
    CompatiblePolicy,
    InputSplit,
    OpenAiMarkPolicy,
    Policy,
    Ttl,
    TtlChoice,
)
from agentkit.caching.verdict import Cause
from agentkit.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSplit:
    """Why it cannot be said what was read and written."""

    cause: Cause
    detail: str


def split_of(usage: Usage, policy: Policy, plan: CachePlan) -> InputSplit | NoSplit:
    """Return how the input of a request divides into read, written and neither.

    Where the provider does not say with which lifetimes it wrote, those of the plan are taken.
    Nothing is clamped: what does not add up is not split at all.
    """
    total, read = usage.input_tokens, usage.cache_read_tokens
    if total is None:
        return NoSplit(cause=Cause.UNREPORTED, detail="the provider did not report its input")
    if read is None:
        return NoSplit(cause=Cause.UNREPORTED, detail=_unread(policy))
    written = usage.cache_write_tokens
    if written is None:
        if _writes_cost(policy, plan):
            detail = "the provider did not report what it wrote, and writing has its own price"
            return NoSplit(cause=Cause.UNREPORTED, detail=detail)
        written = 0
    if read + written > total:
        return NoSplit(
            cause=Cause.UNKNOWN,
            detail=f"the provider's numbers contradict each other: {read} read and {written} "
            f"written of {total} input tokens; is `input_tokens` inclusive?",
        )
    long = usage.cache_write_long_tokens
    if long is not None and long > written:
        return NoSplit(
            cause=Cause.UNKNOWN,
            detail=f"the provider's numbers contradict each other: {long} tokens written with the "
            f"longer lifetime, of {written} written at all",
        )
    writes = _by_ttl(written, long, _ttls(policy), plan)
    return InputSplit(
        read=read, writes=writes, uncached=total - read - sum(tokens for _, tokens in writes)
    )


def scaled(split: InputSplit, total: int) -> InputSplit:
    """Return an estimated split in the proportions of `split`, for `total` tokens."""
    if split.total == total or not split.total:
        return split if split.total else InputSplit(read=0, uncached=total)
    read = split.read * total // split.total
    writes = tuple((ttl, tokens * total // split.total) for ttl, tokens in split.writes)
    return InputSplit(
        read=read, writes=writes, uncached=total - read - sum(tokens for _, tokens in writes)
    )


def _by_ttl(
    written: int, long: int | None, ttls: tuple[TtlChoice, ...], plan: CachePlan
) -> tuple[tuple[Ttl, int], ...]:
    """Return the written tokens by lifetime; none where lifetimes have no prices of their own."""
    if not ttls or not written:
        return ()
    ordered = sorted((choice.ttl for choice in ttls), key=lambda ttl: ttl.seconds)
    short, longer = ordered[0], ordered[-1]
    if long is None:
        long = _planned_long(written, longer, plan)
    pairs = ((longer, long), (short, written - long))
    return tuple((ttl, tokens) for ttl, tokens in pairs if tokens)


def _planned_long(written: int, longer: Ttl, plan: CachePlan) -> int:
    planned = plan.predicted.split
    if planned.written:
        return written * planned.wrote(longer) // planned.written
    # What nobody planned is a server's own write: with the shorter lifetime (docs 2026-08-21).
    return 0


def _ttls(policy: Policy) -> tuple[TtlChoice, ...]:
    if isinstance(policy, AnthropicPolicy | OpenAiMarkPolicy | CompatiblePolicy):
        return policy.ttls
    return ()


def _writes_cost(policy: Policy, plan: CachePlan) -> bool:
    """Whether an unknown number of written tokens leaves the bill unknown."""
    if isinstance(policy, CompatiblePolicy) and not plan.marks:
        return False  # without marks such hosts write for free, or at the price of plain input
    return any(choice.write_multiplier != 1 for choice in _ttls(policy))


def _unread(policy: Policy) -> str:
    if isinstance(policy, CompatiblePolicy) and policy.usage.flag is not None:
        return f"the server does not say what it read; start it with {policy.usage.flag}"
    return "the provider did not say what it read"
