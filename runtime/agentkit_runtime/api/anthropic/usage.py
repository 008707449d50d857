"""What a request's tokens are counted as.

With A the tokens that were read from the cache, B the end of the longest part that is kept for an
hour, and C that of the longest part that is kept at all:

    cache_read_input_tokens      A
    ephemeral_1h_input_tokens    B - A, if B is beyond A
    ephemeral_5m_input_tokens    C - max(A, B), if C is beyond them
    input_tokens                 the rest

That is how Anthropic bills mixed lifetimes, and they add up to the prompt
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching). Two things are otherwise
here, and told as they are: what is not marked is read, too, for the tree caches all prompts; and
"created" is only what was computed now and is pinned now. A mark beyond the quota creates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentkit_runtime.api.anthropic.request import Ttl
from agentkit_runtime.api.anthropic.wire import DeltaUsage, ServiceTier, Usage
from agentkit_runtime.types import Priority, RequestStats

_TIERS: dict[Priority, ServiceTier] = {
    Priority.BATCH: "batch",
    Priority.NORMAL: "standard",
    Priority.INTERACTIVE: "priority",
}


@dataclass(frozen=True, slots=True)
class Kept:
    """A marked beginning that is pinned now."""

    n_tokens: int
    ttl: Ttl


def usage_of(stats: RequestStats, kept: Sequence[Kept], priority: Priority) -> Usage:
    """The usage so far."""
    n_read, n_prompt = stats.cached_tokens, stats.prompt_tokens
    hour = max([n_read, *(mark.n_tokens for mark in kept if mark.ttl == "1h")])
    end = max([hour, *(mark.n_tokens for mark in kept)])
    return {
        "input_tokens": n_prompt - end,
        "cache_creation_input_tokens": end - n_read,
        "cache_read_input_tokens": n_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": end - hour,
            "ephemeral_1h_input_tokens": hour - n_read,
        },
        "output_tokens": stats.completion_tokens,
        "service_tier": _TIERS[priority],
    }


def delta_usage(usage: Usage, *, thinking_tokens: int) -> DeltaUsage:
    """The totals at the end of a stream, where the split by lifetime has no place."""
    totals: DeltaUsage = {
        "input_tokens": usage["input_tokens"],
        "cache_creation_input_tokens": usage["cache_creation_input_tokens"],
        "cache_read_input_tokens": usage["cache_read_input_tokens"],
        "output_tokens": usage["output_tokens"],
    }
    if thinking_tokens:
        totals["output_tokens_details"] = {"thinking_tokens": thinking_tokens}
    return totals
