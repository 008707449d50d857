"""What providers do themselves to shorten a conversation, as data.

Source: client packages anthropic 2.14.0 and openai 3.57.0 of 2026-11-29. Numbers are left out where
the client does not state them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date

from agentkit.caching.policy.source import Evidence, Source
from agentkit.caching.policy.terms import Provider


class EditKind(enum.StrEnum):
    """How a provider shortens."""

    COMPACT = "compact"
    """It writes a summary, which stands for everything before it."""
    CLEAR_TOOL_RESULTS = "clear_tool_results"
    """It leaves out old tool results. The cache is lost from the first of them on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextEdit:
    """One way of shortening that a provider's API has."""

    provider: Provider
    kind: EditKind
    name: str
    """The `type` of its entry in `context_management`."""
    beta: str | None
    """The beta header that it needs."""
    default_trigger_tokens: int | None
    """None: not stated."""
    has_clear_at_least: bool
    """Whether a minimum can be set, below which nothing is cleared."""
    source: Source


def context_edits(provider: Provider) -> tuple[ContextEdit, ...]:
    """Return what this provider offers; nothing for most."""
    return tuple(edit for edit in _EDITS if edit.provider is provider)


_CLIENT = Source(Evidence.SDK, date(2026, 11, 29))

_EDITS = (
    ContextEdit(
        provider=Provider.ANTHROPIC,
        kind=EditKind.COMPACT,
        name="compact_20260112",
        beta="compact-2026-01-12",
        default_trigger_tokens=150_000,
        has_clear_at_least=False,
        source=_CLIENT,
    ),
    ContextEdit(
        provider=Provider.ANTHROPIC,
        kind=EditKind.CLEAR_TOOL_RESULTS,
        name="clear_tool_uses_20250919",
        beta="context-management-2025-06-27",
        default_trigger_tokens=None,
        has_clear_at_least=True,
        source=_CLIENT,
    ),
    ContextEdit(
        provider=Provider.OPENAI,
        kind=EditKind.COMPACT,
        name="compaction",
        beta=None,
        default_trigger_tokens=None,
        has_clear_at_least=False,
        source=_CLIENT,
    ),
)
