"""What all runs of one tree share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentkit.journal import Journal
from agentkit.saved import Answer, SavedRun
from agentkit.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServices:
    """What all runs of a tree share."""

    journal: Journal | None = None
    telemetry: Telemetry | None = None
    user: str = ""
    renews: bool = False
    """Whether runs whose agents have changed go on with them as they are now, in a new epoch."""
    saved: Mapping[str, SavedRun] = field(default_factory=dict)
    """The runs that are gone on with, by id."""
    answers: Mapping[str, Mapping[str, Answer]] = field(default_factory=dict)
    """What people have said to the calls of open turns, by run id and call id."""
