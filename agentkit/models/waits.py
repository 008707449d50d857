"""How long each agent's tools take, so that a cache can be told when it will be asked again."""

from __future__ import annotations

from agentkit.caching.recent import Recent

FIRST_GUESS_S = 15.0
"""Of an agent whose tools have not been seen yet."""

LONGEST_S = 20.0
"""Longer waits are said to be no longer than this: who comes back that late is worth no more room
than anybody else. On recorded sessions hints of minutes cost more prompts than they kept."""

_MARGIN = 3.0
"""An estimate that is too short costs a prompt, one that is too long others' room."""
_LEAST_S = 5.0
_WEIGHT = 0.3
"""Of the latest wait."""
_KEPT_AGENTS = 1024


class ToolWaits:
    """A moving mean for each agent. For one event loop at a time, or less exact."""

    def __init__(self) -> None:
        self._mean_s: Recent[tuple[str, str], float] = Recent(_KEPT_AGENTS)

    def expected_s(self, tenant: str, agent: str) -> float:
        """Seconds after which the agent's tools will have ended, most probably."""
        mean_s = self._mean_s.get((tenant, agent))
        if mean_s is None:
            return FIRST_GUESS_S
        return min(LONGEST_S, max(_LEAST_S, _MARGIN * mean_s))

    def took(self, tenant: str, agent: str, seconds: float) -> None:
        """Learn from a wait that has ended."""
        key = (tenant, agent)
        before = self._mean_s.get(key, seconds)
        self._mean_s[key] = before + _WEIGHT * (seconds - before)
