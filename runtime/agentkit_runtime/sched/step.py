"""One step while it is planned: who runs how many tokens, and what is left of the budget."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.sched.sequence import Chunk, Ended, Sequence
from agentkit_runtime.types import FinishReason


@dataclass(slots=True)
class _Take:
    start: int
    n: int
    draft: tuple[int, ...] = ()


class Step:
    """Chunks under a budget of `n_tokens`."""

    def __init__(self, n_tokens: int) -> None:
        self.budget = n_tokens
        """Tokens that may still run."""
        self.prompt_budget = n_tokens
        """Of these, tokens of prompts."""
        self.ended: list[Ended] = []
        self._takes: dict[Sequence, _Take] = {}

    def __contains__(self, sequence: object) -> bool:
        """Whether the sequence has a part in this step."""
        return sequence in self._takes

    def __len__(self) -> int:
        """Sequences that have a part in this step."""
        return len(self._takes)

    def limit_prompts(self, n_tokens: int) -> None:
        """From here on, take at most `n_tokens` of prompts."""
        self.prompt_budget = min(self.budget, n_tokens)

    def take(self, sequence: Sequence, until: int | None = None, most: int | None = None) -> int:
        """Let a sequence run up to position `until` (else to its end), as far as the budget goes
        and by at most `most` tokens.

        Returns:
            Tokens added to its part of the step.
        """
        done = self._takes.get(sequence)
        position = sequence.computed if done is None else done.start + done.n
        end = sequence.length if until is None else min(until, sequence.length)
        n = min(self.prompt_budget if sequence.prefilling else self.budget, end - position)
        n = n if most is None else min(n, most)
        if n < 1:
            return 0
        if done is None:
            self._takes[sequence] = _Take(position, n)
        else:
            done.n += n
        self.budget -= n
        self.prompt_budget = min(self.budget, self.prompt_budget - n * sequence.prefilling)
        return n

    def guess(self, sequence: Sequence, draft: tuple[int, ...]) -> None:
        """Add guesses behind the last known token of a sequence."""
        self._takes[sequence].draft = draft
        self.budget -= len(draft)

    def end(self, sequence: Sequence, reason: FinishReason, error: str | None = None) -> None:
        """A sequence left the scheduler instead."""
        self.ended.append(Ended(sequence, reason, error))

    def reaching_end(self) -> list[Sequence]:
        """Those of whom every known token has KV after this step."""
        return [s for s, take in self._takes.items() if take.start + take.n == s.length]

    def chunks(self) -> list[Chunk]:
        """The plan, in the order in which it was made."""
        return [Chunk(s, take.start, take.n, take.draft) for s, take in self._takes.items()]
