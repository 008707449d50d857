"""Which waiting sequences may start, and which should rather wait for a neighbour's work."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentkit_runtime.kv.tokens import common_prefix
from agentkit_runtime.sched.sequence import Sequence

SHARED_MIN_TOKENS = 16
"""Fewer equal tokens in front (a template's header, say) are not worth a wait."""


def must_wait(
    candidate: Sequence,
    running: Iterable[Sequence],
    cached: Callable[[Sequence], int],
    *,
    min_tokens: int = SHARED_MIN_TOKENS,
) -> bool:
    """Tell whether a running prefill is about to compute a prefix that `candidate` needs too.

    N agents that start at once share a cold prefix; without this rule each would compute it. The
    candidate waits until the leader has passed the point where they part, then reads it from the
    tree.
    """
    matched: int | None = None
    for leader in running:
        if leader.request.namespace != candidate.request.namespace or not leader.prefilling:
            continue
        shared = min(common_prefix(candidate.tokens, 0, leader.tokens), candidate.n_prompt - 1)
        if shared < min_tokens or shared <= leader.computed:
            continue
        if matched is None:
            matched = cached(candidate)
        if shared > matched:
            return True
    return False
