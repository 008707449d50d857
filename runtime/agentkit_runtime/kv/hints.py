"""What an agent framework may tell the cache about the future. Advice: never needed, never binding.

Hints expire by the clock. A session or tag is a label within one tenant: nobody can hint at
another tenant's prefixes.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_EXPECTED_S = 3_600.0
"""Longest time that a hint keeps anything; longer ones are cut to it."""


@dataclass(frozen=True, slots=True)
class SessionWaits:
    """The session waits for a tool, a person or another agent, and then goes on where it stopped.

    Its prefix is kept before ordinary ones for `expected_s` seconds; its next request ends that.
    """

    session: str
    expected_s: float
    tenant: str = ""

    def __post_init__(self) -> None:
        if not self.expected_s >= 0.0:
            raise ValueError(f"expected_s must not be negative, got {self.expected_s!r}")


@dataclass(frozen=True, slots=True)
class SessionDone:
    """The session has ended: what only it used is the first to be evicted."""

    session: str
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class LikelyNext:
    """Requests with one of these tags are expected within `within_s` seconds.

    Prefixes that such requests used are kept before ordinary ones until then.
    """

    tags: frozenset[str]
    within_s: float
    tenant: str = ""

    def __post_init__(self) -> None:
        if not self.within_s >= 0.0:
            raise ValueError(f"within_s must not be negative, got {self.within_s!r}")


Hint = SessionWaits | SessionDone | LikelyNext
"""To keep a prefix for certain, pin it."""
