"""Stand-ins for a model: they choose tokens under a grammar like the engine does."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from agentkit_runtime.text.tokenizer import Tokenizer
from agentkit_runtime.types import Grammar

Choose = Callable[[torch.Tensor], int]


def generate(
    tokenizer: Tokenizer, grammar: Grammar, choose: Choose, *, max_tokens: int = 4000
) -> tuple[list[int], bool]:
    """Ids without the end token, and whether the generation came to an end by itself."""
    ids: list[int] = []
    while len(ids) < max_tokens:
        if grammar.done:
            return ids, True
        logits = torch.zeros(tokenizer.vocab_size + 7)
        grammar.apply(logits)
        token = choose(logits)
        assert logits[token] > -math.inf, f"chose the forbidden token {token}"
        if token in tokenizer.eos_ids:
            return ids, True
        grammar.accept(token)
        ids.append(token)
        while not grammar.done and (forced := grammar.forced()):
            for forced_token in forced:
                grammar.accept(forced_token)
            ids += forced
    return ids, False


def random_choice(tokenizer: Tokenizer, seed: int) -> Choose:
    """Any allowed token, with some taste for closing what is open."""
    generator = torch.Generator().manual_seed(seed)
    taste = torch.zeros(tokenizer.vocab_size + 7)
    for text in ('"', "}", "]", '"}', '",', ', "'):
        for token_id in tokenizer.encode(text):
            taste[token_id] = 7.0

    def choose(logits: torch.Tensor) -> int:
        noise = torch.rand(len(logits), generator=generator).log().neg().log().neg()
        return int((logits + taste + noise).argmax())

    return choose


def stubborn_choice(tokenizer: Tokenizer, *liked: str) -> Choose:
    """Always the first of the `liked` texts' tokens that is allowed, else the lowest id."""
    wanted = [tokenizer.encode(text)[0] for text in liked]

    def choose(logits: torch.Tensor) -> int:
        for token_id in wanted:
            if logits[token_id] > -math.inf:
                return token_id
        return int(logits.isfinite().float().argmax())

    return choose
