"""What a planned request will read, write and cost."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime

from agentkit.caching.plan.plan import Prediction
from agentkit.caching.plan.prompt import Prompt
from agentkit.caching.policy import InputSplit, Policy, Terms
from agentkit.caching.simulate.billing import bill


def predicted(
    policy: Policy, split: InputSplit, *, hit: int, at: datetime, terms: Terms
) -> Prediction:
    """Return the prediction for a split. `hit`: blocks of the request that are read."""
    plain = InputSplit(read=0, uncached=split.total)
    uncached = bill(policy, plain, at=at, terms=terms, output_tokens=0)
    return Prediction(
        split=split,
        hit=hit,
        cost=bill(policy, split, at=at, terms=terms, output_tokens=0),
        uncached=None if uncached is None else uncached.total,
    )


def blocks_read(prompt: Prompt, hit: int | None) -> int:
    """Return how many of the request's blocks a hit at a rendered block reads."""
    return 0 if hit is None else prompt.index[hit] + 1


def whole_blocks_within(prompt: Prompt, n_tokens: int) -> int:
    """Return how many of the request's blocks lie within its first tokens."""
    n_whole = bisect_right(prompt.tokens, n_tokens)
    return blocks_read(prompt, n_whole - 1 if n_whole and n_tokens else None)


def common_read(prompt: Prompt) -> tuple[int | None, int]:
    """Return the last block whose entry can be read, and its tokens: where no marks are needed."""
    last = next((place for place in reversed(prompt.written) if prompt.readable[place]), None)
    return last, prompt.length(last)
