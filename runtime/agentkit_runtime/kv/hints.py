"""What an agent framework may tell the cache about the future. Advice: never needed, never binding.

Hints expire by the clock. A session or tag is a label within one tenant: nobody can hint at
another tenant's prefixes.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.checks import require_number, require_text, require_texts

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
        require_text("session", self.session)
        require_text("tenant", self.tenant)
        require_number("expected_s", self.expected_s, least=0, finite=False)


@dataclass(frozen=True, slots=True)
class SessionDone:
    """The session has ended: what only it used is the first to be evicted."""

    session: str
    tenant: str = ""

    def __post_init__(self) -> None:
        require_text("session", self.session)
        require_text("tenant", self.tenant)


@dataclass(frozen=True, slots=True)
class LikelyNext:
    """Requests with one of these tags are expected within `within_s` seconds.

    Prefixes that such requests used are kept before ordinary ones until then.
    """

    tags: frozenset[str]
    within_s: float
    tenant: str = ""

    def __post_init__(self) -> None:
        require_texts("tags", self.tags, frozenset)
        require_text("tenant", self.tenant)
        require_number("within_s", self.within_s, least=0, finite=False)


Hint = SessionWaits | SessionDone | LikelyNext
"""To keep a prefix for certain, pin it."""
