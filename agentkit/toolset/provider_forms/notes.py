"""What is told of a schema that a provider cannot take, or does not hold calls to, as it stands."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Dialect: TypeAlias = Literal["anthropic", "openai", "gemini", "local"]
"""Who reads a tool's schema: Claude's API; OpenAI's two APIs and all that speak its Chat API;
Gemini's; the grammar of the bundled runtime."""

DIALECTS: tuple[Dialect, ...] = ("anthropic", "openai", "gemini", "local")


class Effect(enum.StrEnum):
    """What becomes of a part of a schema."""

    REWRITTEN = "rewritten"
    """Said in other words that mean the same."""
    LOOSENED = "loosened"
    """The form allows more than the tool does. The tool itself must say no to what is too much."""
    NOT_ENFORCED = "not_enforced"
    """It is sent, and nothing holds the model to it."""
    MAY_BE_REFUSED = "may_be_refused"
    """Some models or hosts of this provider refuse it; there is no form that says the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNote:
    """One part of a tool's schema that is not sent, or not kept to, as the tool gave it."""

    pointer: str
    """JSON pointer to the part, in the tool's canonical schema; empty: the root."""
    keyword: str
    """What it is about, e.g. `anyOf`, or the name of the part."""
    effect: Effect
    detail: str
    """One sentence: why, and what stands there instead."""

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.keyword} {self.effect.value}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaForm:
    """A tool's parameters as one provider gets them."""

    parameters: Mapping[str, object]
    """The tool's own object where nothing had to change."""
    notes: tuple[SchemaNote, ...] = ()


class Notes:
    """Notes while they are taken."""

    def __init__(self) -> None:
        self._taken: list[SchemaNote] = []
        self.has_moved = False
        """Whether parts stand elsewhere in the form, so that pointers do not name them there."""

    def add(self, pointer: str, keyword: str, effect: Effect, detail: str) -> None:
        """Take a note; the same one is taken once."""
        note = SchemaNote(pointer=pointer, keyword=keyword, effect=effect, detail=detail)
        if note not in self._taken:
            self._taken.append(note)

    @property
    def all(self) -> tuple[SchemaNote, ...]:
        """All notes, in the order in which they were taken."""
        return tuple(self._taken)
