"""How far a server is trusted: a setting, checked at construction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Which of a server's tools a model is shown, and which of them it may call.

        McpServer(alias="mail", command=[...], trust=Trust(lock="mcp.lock.json"))

    A description is text by somebody else that every prompt begins with. It is looked through for
    hidden and harmful instructions in any case, and what is found is logged; this says what is
    refused.

    Raises:
        ValueError: at construction, for a setting that would do nothing.
    """

    lock: str | Path | None = None
    """The file of approved tools, which `agentkit mcp lock` writes and version control keeps.

    With it a model sees what was approved and nothing else: a new tool is left out; one whose
    description or schema has changed stays in the prompt as it was approved, and is not called.
    What is said of either ends in what differs. A relative path counts from the working directory.
    """
    calls_changed: bool = False
    """Whether a tool that is not any more what was approved may still be called."""
    refuses_flagged: bool = False
    """Leave out tools with a flag of the severity `danger`, unless the lock has them."""

    def __post_init__(self) -> None:
        if self.lock is not None and not isinstance(self.lock, str | Path):
            raise ValueError(f"Trust.lock must be the path of a file, not {self.lock!r}")
        if self.calls_changed and self.lock is None:
            raise ValueError(
                "Trust.calls_changed does nothing without a lock; set lock=, or leave it out"
            )
        if self.refuses_flagged and self.lock is not None:
            raise ValueError(
                "Trust.refuses_flagged does nothing with a lock, which has only what somebody has "
                "approved; leave one of them out"
            )
