"""What a response counts, and how likely its tokens were."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.api.openai.logprobs import encode_logprobs
from agentkit_runtime.api.openai.responses.wire import EventLogprob, ResponseUsage
from agentkit_runtime.api.openai.wire import ContentLogprob
from agentkit_runtime.chat import ChatFinished, ChatLogprob


def encode_usage(finished: ChatFinished) -> ResponseUsage:
    """`input_tokens` includes the cached ones; what was computed afresh is in the cache now."""
    stats = finished.stats
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": stats.cached_tokens,
            "cache_write_tokens": stats.prompt_tokens - stats.cached_tokens,
        },
        "output_tokens": stats.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": finished.reasoning_tokens},
        "total_tokens": stats.prompt_tokens + stats.completion_tokens,
    }


def part_logprobs(logprobs: Sequence[ChatLogprob]) -> list[ContentLogprob]:
    """As a whole part has them."""
    encoded = encode_logprobs(logprobs)
    return [] if encoded is None else encoded["content"]


def event_logprobs(logprobs: Sequence[ContentLogprob]) -> list[EventLogprob]:
    """As events have them: only a whole part tells the bytes of tokens."""
    return [
        {
            "token": item["token"],
            "logprob": item["logprob"],
            "top_logprobs": [
                {"token": top["token"], "logprob": top["logprob"]} for top in item["top_logprobs"]
            ],
        }
        for item in logprobs
    ]
