"""Conversations that share their beginning, the same ones for each server and each run."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agentkit_runtime.checks import require_whole

_WORDS = (
    *("museum", "harbour", "ledger", "winter", "painting", "boat", "council", "keel", "loan"),
    *("garden", "letter", "window", "river", "market", "bridge", "paper", "summer", "tower"),
)
"""Each is a token in the vocabularies of most models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is asked. Raises ValueError for numbers that cannot be."""

    conversations: int
    turns: int
    concurrency: int
    """Conversations at a time; each waits for its answers."""
    shared_words: int
    """Of the system prompt that conversations begin with: about as many tokens."""
    prefixes: int
    """Different system prompts, taken in turn."""
    question_words: int
    max_tokens: int
    seed: int
    """Another seed asks what no server has cached."""

    def __post_init__(self) -> None:
        for name in ("conversations", "turns", "concurrency", "prefixes", "max_tokens"):
            require_whole(name, getattr(self, name), least=1)
        for name in ("shared_words", "question_words", "seed"):
            require_whole(name, getattr(self, name), least=0)

    def system(self, conversation: int) -> str:
        """What a conversation begins with."""
        number = conversation % self.prefixes
        rng = random.Random(f"{self.seed} system {number}")
        # The numbers come first: nothing that an earlier run has cached is a beginning of it.
        return f"Rules {self.seed}.{number}. " + _words(rng, self.shared_words)

    def question(self, conversation: int, turn: int) -> str:
        """What is asked in a turn."""
        rng = random.Random(f"{self.seed} question {conversation} {turn}")
        return f"Question {turn + 1}: what of {_words(rng, self.question_words)}?"

    def session(self, conversation: int) -> str:
        """The id by which routers keep a conversation on one server."""
        return f"bench-{self.seed}-{conversation}"


def _words(rng: random.Random, n: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(n))
