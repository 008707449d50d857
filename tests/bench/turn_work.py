"""What every framework is given to do: the same agent, the same question, the same tool.

Needs nothing but Python: frameworks run in environments of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

QUESTION = "Look at all cities of the list."
ABOUT = "Look at a city."
_RULE = "Rule {}: look at the city and say what you see."
RULES = " ".join(_RULE.format(number) for number in range(40))
"""About 2 KB of instructions."""
ANTHROPIC_MODEL = "claude-sonnet-5-5"
OPENAI_MODEL = "gpt-6.1-sol"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Runs that begin together, all on one client."""

    address: str
    """Of the provider."""
    api: str
    """`anthropic` or `responses`."""
    n_turns: int
    n_calls: int = 1
    """In each turn but the last."""
    n_runs: int = 1
    n_bytes: int = 4_096
    """Of instructions and question."""
    streams: bool = True
    """Whether frameworks that can do both are run with events."""

    @property
    def url(self) -> str:
        """The address of a provider whose runs have this length."""
        return f"{self.address}/{self.n_turns}/{self.n_calls}"

    def question(self, run: int) -> str:
        """Return what a run is asked. Runs differ in their first word."""
        begin = f"Run {run}: {QUESTION} "
        n_more = max(0, self.n_bytes - len(RULES) - len(begin))
        line = "The list of cities is long, and what it says of them is not short either. "
        return begin + (line * (n_more // len(line) + 1))[:n_more]


Loop = Callable[[Work], Awaitable[float]]
"""Does the work; returns the CPU seconds of its process, without the beginning of its client."""


def city(number: int) -> str:
    """Return the city that a call asks about."""
    return f"city number {number} of the list"


def seen(name: str) -> str:
    """Return what the tool answers."""
    return f"{name} has a river, a bridge, two markets and a station in the north."
