"""Tries a compiled grammar out: some compile and fail when they are used."""

from __future__ import annotations

import numpy as np
from llguidance import LLMatcher

from agentkit_runtime.text.constraint import Vocabulary

_N_CHOICES = 8
"""How many tokens are chosen on the way; what is forced between them does not count."""


def first_use_error(vocabulary: Vocabulary, matcher: LLMatcher) -> str | None:
    """Why the grammar of the fresh `matcher` fails within its first tokens; None if it does not.

    Uses `matcher` up.
    """
    end_ids = sorted(vocabulary.tokenizer.eos_ids)
    for _ in range(_N_CHOICES):
        matcher.consume_tokens(matcher.compute_ff_tokens())
        if matcher.is_stopped():
            break
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        if matcher.is_error():
            break
        allowed = np.unpackbits(bits, bitorder="little")
        allowed[end_ids] = 0
        (choices,) = np.nonzero(allowed)
        if not len(choices):
            break
        matcher.consume_token(int(choices[-1]))
    return matcher.get_error() if matcher.is_error() else None
