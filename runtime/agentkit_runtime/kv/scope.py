"""On whose behalf a prefix is used. Set by the server; nothing of it comes from a request body."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_runtime.checks import require_instance, require_text, require_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Labels of one use of the cache: for quotas, fair shares, pruning and eviction.

    What may be read is said by the namespace digest alone, never by these labels.
    """

    tenant: str = ""
    """Who pays: pin quotas and fair shares count by it."""
    public: bytes | None = None
    """Digest of the operator's public root whose published prefixes may be read, too."""
    session: str | None = None
    """Which conversation: its hints say when its tail will be wanted again."""
    tags: frozenset[str] = frozenset()
    """Free labels, such as the agent's type; prefixes can be pruned and hinted at by them."""

    def __post_init__(self) -> None:
        require_text("tenant", self.tenant)
        if self.public is not None:
            require_instance("public", self.public, bytes)
        if self.session is not None:
            require_text("session", self.session)
        require_texts("tags", self.tags, frozenset)


NO_SCOPE = Scope()
"""A use without labels."""
