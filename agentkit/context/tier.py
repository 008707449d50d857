"""The tiers of a context, from the most stable to the most volatile."""

from __future__ import annotations

import enum


class Tier(enum.StrEnum):
    """How stable a segment is, and who shares it."""

    SYSTEM = "system"
    """Rules, role and fixed examples, see `SystemPart`."""
    TOOLS = "tools"
    """The pinned, sorted toolset of a whole team."""
    KNOWLEDGE = "knowledge"
    """Documents, in the order of their URIs."""
    HISTORY = "history"
    """What users, models and tools said, as it happened."""
    VOLATILE = "volatile"
    """Clocks, request ids, scratch notes: rendered last, for one request, not in the chain."""


class SystemPart(enum.StrEnum):
    """The parts of the SYSTEM tier, in their order."""

    RULES = "rules"
    """The organisation's rules: the same for every agent of a team."""
    ROLE = "role"
    """What this agent is for."""
    EXAMPLES = "examples"
    """Fixed examples of good answers."""


def rank(tier: Tier, part: SystemPart | None) -> int:
    """Return where a segment lies in a context: lower ranks come first.

    The order is by how many agents share the bytes: rules (organisation), tools (team), role and
    examples (agent), knowledge, history (run). Providers whose wire has another order of tiers keep
    the order within each.
    """
    return _ORDER.index((tier, part))


def is_single(position: int) -> bool:
    """Return whether at most one segment of this rank may exist."""
    return _ORDER[position][0] in (Tier.SYSTEM, Tier.TOOLS)


_ORDER = (
    (Tier.SYSTEM, SystemPart.RULES),
    (Tier.TOOLS, None),
    (Tier.SYSTEM, SystemPart.ROLE),
    (Tier.SYSTEM, SystemPart.EXAMPLES),
    (Tier.KNOWLEDGE, None),
    (Tier.HISTORY, None),
)
