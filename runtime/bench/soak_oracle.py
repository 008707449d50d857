"""What the model says without any cache: one forward pass over a whole sequence."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agentkit_runtime.attention.base import ForwardBatch
from agentkit_runtime.attention.plan import Lane
from agentkit_runtime.kv.extent import Extent
from agentkit_runtime.kv.format import KvFormat
from agentkit_runtime.model.decoder import Decoder
from agentkit_runtime.model.pool_for import pool_for
from agentkit_runtime.types import Grammar, TokenLogprob

TOLERANCE = 1e-3
"""Two tokens whose logits are nearer than this may be taken for each other: sums are reordered."""


LOGPROB_TOLERANCE = 0.05
"""Quantised KV rounds otherwise when a prompt is computed in other chunks."""


class Oracle:
    """Judges greedy outputs, by giving the model what it is said to have generated."""

    def __init__(self, decoder: Decoder, kv_format: KvFormat) -> None:
        self._decoder = decoder
        self._pool = pool_for(decoder, n_slots=decoder.config.max_position, kv_format=kv_format)
        self.near_ties = 0
        """Tokens that were not the best, but as good as it."""

    @torch.inference_mode()
    def check(
        self,
        prompt: Sequence[int],
        generated: Sequence[int],
        *,
        grammar: Grammar | None = None,
        logprobs: Sequence[TokenLogprob] = (),
    ) -> str | None:
        """None when each generated token is what greedy decoding takes; else what is wrong.

        `grammar` is a fresh one like that of the request; `logprobs` is what the request got.
        """
        if not generated:
            return None
        logits = self._logits(prompt, generated)
        forced = [False] * len(generated)
        known = logits.log_softmax(dim=-1)
        if grammar is not None:
            for at, token in enumerate(generated):
                forced[at] = bool(grammar.forced())
                if forced[at]:
                    logits[at, token] = torch.inf
                else:
                    grammar.apply(logits[at])
                grammar.accept(token)
        for at, said in enumerate(logprobs):
            right = 0.0 if forced[at] else float(known[at, generated[at]])
            if said.token_id != generated[at] or abs(said.logprob - right) > LOGPROB_TOLERANCE:
                return f"token {at} has the log-probability {right}, but was said to have {said}"
        best = logits.amax(dim=-1)
        behind = best - logits.gather(1, torch.tensor(generated)[:, None])[:, 0]
        behind[torch.tensor(forced)] = 0.0
        self.near_ties += int(((behind > 0) & (behind <= TOLERANCE)).sum())
        wrong = (behind > TOLERANCE).nonzero()
        if not len(wrong):
            return None
        at = int(wrong[0])
        return (
            f"token {at} behind a prompt of {len(prompt)} is {generated[at]}, but greedy decoding "
            f"takes {int(logits[at].argmax())}, which is better by {float(behind[at]):.4f}"
        )

    def _logits(self, prompt: Sequence[int], generated: Sequence[int]) -> torch.Tensor:
        """What the model says in each place of `generated`."""
        ids = [*prompt, *generated[:-1]]
        n = len(ids)
        places = torch.arange(n)
        batch = ForwardBatch(
            token_ids=torch.tensor(ids),
            positions=places,
            slots=places,
            logit_rows=torch.arange(len(prompt) - 1, n),
            plan=self._decoder.attention.plan(
                [Lane(past=(), position=0, n_new=n, own=(Extent(0, n),))]
            ),
        )
        return self._decoder.forward(batch, self._pool)
