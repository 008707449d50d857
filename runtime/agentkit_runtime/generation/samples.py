"""Several samples of one prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agentkit_runtime.types import GenerateRequest, Grammar, TextStream


def samples(
    request: GenerateRequest,
    n: int,
    *,
    text: Callable[[], TextStream],
    grammar: Callable[[], Grammar | None] = lambda: None,
) -> list[GenerateRequest]:
    """Make `n` requests from one, to be submitted together.

    Each has an id, a text stream and a grammar of its own; seeds count up from the request's. The
    prompt is computed once: the others wait for the first one's chunks and fork from the tree,
    where they compute its last token. What each gives is what it would give alone. It is also
    counted once, by the first: the others find in the cache what that one has computed.

    Raises:
        ValueError: `n` is less than 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n!r}")
    return [
        replace(
            request,
            request_id=f"{request.request_id}-{i}",
            text=text(),
            grammar=grammar(),
            sampling=replace(request.sampling, seed=_seed(request, i)),
            repeats_prompt=i > 0,
        )
        for i in range(n)
    ]


def _seed(request: GenerateRequest, i: int) -> int | None:
    seed = request.sampling.seed
    return None if seed is None else seed + i
