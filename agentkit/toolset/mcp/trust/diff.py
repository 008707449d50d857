"""How what a server offers differs from what was approved of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentkit.toolset.mcp.trust.lock import ApprovedTool
from agentkit.toolset.tool import ToolSpec


@dataclass(frozen=True, slots=True)
class LockDifference:
    """How a server's tools differ from what was approved; names are the server's own, sorted."""

    added: tuple[str, ...]
    """Offered, and not approved."""
    changed: tuple[str, ...]
    """Not any more what was approved."""
    removed: tuple[str, ...]
    """Approved, and not offered any more."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def compare(
    approved: Mapping[str, ApprovedTool], offered: Mapping[str, ToolSpec]
) -> LockDifference:
    """Return how what a server offers differs from what was approved of it."""
    return LockDifference(
        added=tuple(sorted(offered.keys() - approved.keys())),
        changed=tuple(
            name
            for name in sorted(offered.keys() & approved.keys())
            if not approved[name].covers(offered[name])
        ),
        removed=tuple(sorted(approved.keys() - offered.keys())),
    )
