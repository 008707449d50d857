"""Prompt lookup: guess the next tokens from what the request has said before.

Agents copy: file contents, identifiers, JSON keys, earlier answers. When the last tokens have
occurred before, what followed then is a good guess of what follows now (Saxena, "Prompt Lookup
Decoding", 2023). A guess costs a dictionary lookup; checking it costs a few more rows in a step
that reads all the weights anyway.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from agentkit_runtime.kv.tokens import pack

_SUFFIXES = (4, 3, 2)
"""Lengths in tokens of the endings that are looked up; the longest one that is known decides."""

_LEAST_RATE = 0.5
"""Below this acceptance rate nothing is drafted: a lane alone loses the fast path for one row."""

_MEMORY = 0.9
"""Weight of what was seen before in the acceptance rate: about ten predictions count."""

_FIRST_RATE = 0.7


class PromptLookup:
    """Drafts for one sequence. Takes O(1) time and memory for each token of the sequence.

    Every token is predicted, drafted or not, so the acceptance rate is known without paying for
    wrong drafts, and drafting begins again when the text becomes predictable.
    """

    def __init__(self, tokens: Iterable[int], max_draft: int) -> None:
        """`tokens` is the prompt; at most `max_draft` tokens are guessed at a time."""
        self._max_draft = max_draft
        self._ids: list[int] = []
        self._follows: dict[bytes, int] = {}
        """Where the latest text behind an n-gram begins. Keys are packed ids, 2 to 4 of them."""
        self._rate = _FIRST_RATE
        for token in tokens:
            self._append(token)
        self._source = self._look_up()

    @property
    def rate(self) -> float:
        """Share of predictions that were right lately, 0 to 1."""
        return self._rate

    def push(self, token_id: int, *, forced: bool = False) -> None:
        """Add a generated token. One that a grammar forced says nothing about predictions."""
        if self._source is not None and not forced:
            right = self._ids[self._source] == token_id
            self._rate = _MEMORY * self._rate + (1 - _MEMORY) * right
        self._append(token_id)
        self._source = self._look_up()

    def propose(self, row_cost: float) -> tuple[int, ...]:
        """Guess the next tokens; often none.

        `row_cost` is what one more row for each lane adds to a step, as a share of the step: the
        last token of a draft must come true with at least this probability.
        """
        n = self._worthwhile(row_cost)
        if self._source is None or n == 0:
            return ()
        known = self._ids[self._source : self._source + n]
        # The source may end where the guess begins: then the text repeats itself.
        return tuple(known[i % len(known)] for i in range(n))

    def _worthwhile(self, row_cost: float) -> int:
        """How many tokens to guess: the n-th comes true with probability rate ** n."""
        if self._rate < max(_LEAST_RATE, row_cost):
            return 0
        if self._rate >= 1.0 or row_cost <= 0.0:
            return self._max_draft
        return min(self._max_draft, int(math.log(row_cost) / math.log(self._rate)))

    def _append(self, token_id: int) -> None:
        """Note what follows the present endings, then add the token."""
        ids = self._ids
        for n in _SUFFIXES:
            if len(ids) >= n:
                self._follows[pack(ids[-n:])] = len(ids)
        ids.append(token_id)

    def _look_up(self) -> int | None:
        """Where the latest text behind the longest known ending begins."""
        for n in _SUFFIXES:
            if len(self._ids) >= n and (at := self._follows.get(pack(self._ids[-n:]))) is not None:
                return at
        return None


def row_cost(n_lanes: int) -> float:
    """What one drafted token for each of `n_lanes` lanes adds to a step, as a share of it.

    Fitted to a model of 135M parameters in float32 on CPUs: 0.17 for one lane, 0.18 for 4, 0.3 for
    8. A step of few rows waits for the weights to be read; one of many rows is bound by arithmetic,
    where a wrong guess costs as much as a token.
    """
    return min(1.0, 0.15 + 0.02 * n_lanes)


def useful(draft: Sequence[int], eos_ids: frozenset[int], room: int) -> tuple[int, ...]:
    """Cut a draft before an end of sequence, behind which nothing is drafted, and to `room`."""
    for i, token in enumerate(draft[: max(0, room)]):
        if token in eos_ids:
            return tuple(draft[:i])
    return tuple(draft[: max(0, room)])
