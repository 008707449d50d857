"""Reads arguments that come one by one: names and values in turn, each as far as it is there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from agentkit_runtime.text.notation import ArgumentsRead


class StepwiseReader(ABC):
    """An `ArgumentReader` that goes on step by step while there is enough text."""

    def __init__(self) -> None:
        self._state: Literal["more", "end", "broken"] = "more"

    def read(self, text: str) -> ArgumentsRead:
        """See `ArgumentReader`."""
        told: list[str] = []
        at = 0
        while self._state == "more":
            step = self._step(text[at:])
            if step is None:
                break
            at += step[0]
            told.append(step[1])
        return ArgumentsRead(at, "".join(told), self._state)

    @abstractmethod
    def _step(self, text: str) -> tuple[int, str] | None:
        """Go on: how many characters are read, and what they say as JSON; None: more is needed."""
