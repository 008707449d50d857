"""Log-probabilities in OpenAI's form."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_runtime.api.openai.wire import ContentLogprob, Logprobs, TopLogprob
from agentkit_runtime.chat import ChatLogprob


def encode_logprobs(logprobs: Sequence[ChatLogprob]) -> Logprobs | None:
    """OpenAI's form; None where the request did not ask for any."""
    if not logprobs:
        return None
    content: list[ContentLogprob] = [
        {
            **_top_logprob(item.token, item.logprob),
            "top_logprobs": [_top_logprob(*other) for other in item.top],
        }
        for item in logprobs
    ]
    return {"content": content, "refusal": None}


def _top_logprob(token: bytes, logprob: float) -> TopLogprob:
    return {
        "token": token.decode("utf-8", errors="replace"),
        "logprob": finite(logprob),
        "bytes": list(token),
    }


def finite(logprob: float) -> float:
    """JSON has no infinity; OpenAI says -9999 instead."""
    return max(logprob, -9999.0)
