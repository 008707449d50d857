"""Tokens of answers in OpenAI's form."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.api.openai.wire import Usage
from agentkit_runtime.chat import ChatFinished


def add_usage(usages: Sequence[Usage]) -> Usage:
    """Of several answers to one prompt, which is counted once."""
    first, n_generated = usages[0], sum(usage["completion_tokens"] for usage in usages)
    # Those that came later found in the cache what the first one had computed.
    cached = min(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    n_thought = sum(usage["completion_tokens_details"]["reasoning_tokens"] for usage in usages)
    return {
        "prompt_tokens": first["prompt_tokens"],
        "completion_tokens": n_generated,
        "total_tokens": first["prompt_tokens"] + n_generated,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": n_thought},
    }


def encode_usage(finished: ChatFinished) -> Usage:
    """`prompt_tokens` includes the cached ones, as OpenAI counts."""
    stats = finished.stats
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.completion_tokens,
        "total_tokens": stats.prompt_tokens + stats.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": finished.reasoning_tokens},
    }
