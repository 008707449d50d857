"""Grammars and prompts for engine tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

VOCAB = 97


def prompt_of(seed: int, n: int, alphabet: int = VOCAB) -> list[int]:
    """Return `n` random tokens; those of a small alphabet repeat themselves."""
    rng = random.Random(seed)
    return [rng.randrange(alphabet) for _ in range(n)]


class Recorder:
    """A grammar that allows everything and remembers the logits it saw."""

    done = False

    def __init__(self) -> None:
        self.rows: list[torch.Tensor] = []

    def apply(self, logits: torch.Tensor) -> None:
        self.rows.append(logits.clone())

    def accept(self, token_id: int) -> None:
        pass

    def forced(self) -> list[int]:
        return []


@dataclass
class Even:
    """Allows even tokens only, and forces two more behind every multiple of ten."""

    refused: list[int] = field(default_factory=list)
    done: bool = False
    _forced: list[int] = field(default_factory=list)

    def apply(self, logits: torch.Tensor) -> None:
        logits[1::2] = float("-inf")

    def accept(self, token_id: int) -> None:
        if token_id % 2:
            raise RuntimeError(f"the grammar refused token {token_id}")
        if self._forced:
            assert self._forced.pop(0) == token_id
        elif token_id % 10 == 0:
            self._forced = [(token_id + 12) % 96, (token_id + 14) % 96]

    def forced(self) -> list[int]:
        return list(self._forced)

    def acceptable(self, token_ids: Sequence[int]) -> int:
        return next((i for i, token in enumerate(token_ids) if token % 2), len(token_ids))


@dataclass
class Clock:
    """Time that only tests move."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def drafts_of(core: object, plan: Callable[[], tuple[list, list]]) -> list[tuple[int, ...]]:
    """Spy on a core: the returned list gets every draft that is run."""
    seen: list[tuple[int, ...]] = []

    def spying() -> tuple[list, list]:
        chunks, ended = plan()
        seen.extend(chunk.draft for chunk in chunks if chunk.draft)
        return chunks, ended

    core.scheduler.plan = spying  # type: ignore[attr-defined]
    return seen


def flat(items: Iterable[Sequence[int]]) -> list[int]:
    return [i for item in items for i in item]
