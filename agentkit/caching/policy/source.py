"""Where a fact comes from, and the day it was true. Facts without a source do not belong here."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date


class Evidence(enum.StrEnum):
    """How strong a fact is, strongest first."""

    SDK = "sdk"
    """A type or docstring in the provider's own client package."""
    DOCS = "docs"
    """The provider's documentation."""
    PACKAGE = "package"
    """A price or limit table in a published package (genai-prices, litellm)."""
    NOTE = "note"
    """Somebody's dated note that quotes a provider page."""
    MEASURED = "measured"
    """Somebody measured it from outside."""
    ASSUMED = "assumed"
    """Nobody documents it; our choice, with the reason in a comment beside it."""
    USER = "user"
    """The app says so, e.g. what it pays by contract or for a server of its own."""


@dataclass(frozen=True, slots=True)
class Source:
    """The evidence for a fact and the day on which it said so."""

    evidence: Evidence
    on: date

    def __str__(self) -> str:
        return f"{self.evidence} {self.on.isoformat()}"


def docs(on: str) -> Source:
    """Return the provider's documentation as the source; `on` is an ISO date."""
    return Source(Evidence.DOCS, date.fromisoformat(on))


def package(on: str) -> Source:
    """Return a published table as the source; `on` is an ISO date."""
    return Source(Evidence.PACKAGE, date.fromisoformat(on))


def note(on: str) -> Source:
    """Return a secondary note as the source; `on` is an ISO date."""
    return Source(Evidence.NOTE, date.fromisoformat(on))


def assumed(on: str) -> Source:
    """Return our own assumption as the source; `on` is an ISO date."""
    return Source(Evidence.ASSUMED, date.fromisoformat(on))
