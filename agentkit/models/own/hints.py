"""What `local:` and `runtime:` models tell our runtime alike, beside requests."""

from __future__ import annotations

from agentkit.usage import Usage

SUBAGENTS_WITHIN_S = 60.0
"""How long the fronts of subagents are kept for a turn that may call them. Turns seldom last
longer, and each says it again."""


def warmed_usage(tokens: int, cached_tokens: int) -> Usage:
    """Return what a warm-up of so many tokens used, of which some were cached already."""
    return Usage(
        input_tokens=tokens,
        cache_read_tokens=cached_tokens,
        cache_write_tokens=tokens - cached_tokens,
        output_tokens=0,
    )
