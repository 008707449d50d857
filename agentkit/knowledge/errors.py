"""What can go wrong with knowledge."""

from __future__ import annotations

from agentkit.errors import AgentkitError


class KnowledgeError(AgentkitError, ValueError):
    """A document, a store or a call does not fit. The message names the value and the fix."""
