"""What each agent that has taken part in a run has used of it: turns, calls, and its own limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentkit.budget import Budget
from agentkit.caching.report import RequestRecord
from agentkit.saved import SavedRun
from agentkit.used_before import n_calls

if TYPE_CHECKING:
    from agentkit.team.members import Member


class Shares:
    """Of one run, by the names of agents.

    Args:
        began: who began the run.
        budget: the run's.
    """

    def __init__(self, began: str, budget: Budget) -> None:
        self.first_turn = 0
        """What the run's turn would have been at the first turn of the active agent, had it begun
        the run."""
        self.taken_over_s: dict[str, float] = {}
        """By agents with limits that have taken over: how long the run had run when they did so
        first."""
        self._began = budget
        self._budgets = {began: budget}
        """Those with limits have one below the run's."""
        self._turns: Counter[str] = Counter()
        """By agents that are not active now."""
        self._calls: Counter[str] = Counter()
        """In another process."""

    def hand_over(self, before: str, after: str, turn: int) -> None:
        """Count the turns of another agent from here on, the run's `turn`."""
        self._turns[before] = turn - self.first_turn
        self.first_turn = turn - self._turns[after]

    def count(self, active: str, turn: int, turns: Counter[str], calls: Counter[str]) -> None:
        """Take what another process has counted, with the run at `turn`."""
        self._turns, self._calls = turns, calls
        self.first_turn = turn - turns[active]

    def budget_of(
        self,
        member: Member,
        requests: Iterable[RequestRecord],
        below: Sequence[SavedRun],
        *,
        now_s: float,
        n_open_calls: int,
    ) -> Budget:
        """Return the budget of an agent that takes over: the run's, or with limits a part of it.

        Args:
            member: the agent.
            requests: all of the run so far.
            below: runs that another process has begun below it under this agent.
            now_s: how long the run has run.
            n_open_calls: of the open turn, that are counted already.
        """
        if member.name not in self._budgets:
            self._budgets[member.name] = self._made(member, requests, below, now_s, n_open_calls)
        return self._budgets[member.name]

    def _made(
        self,
        member: Member,
        requests: Iterable[RequestRecord],
        below: Sequence[SavedRun],
        now_s: float,
        n_open_calls: int,
    ) -> Budget:
        name = member.name
        budget = self._began.below(member.agent.limits)
        if budget is not self._began:
            budget.begin()
            own = [request for request in requests if request.agent == name]
            budget.restore(
                [*own, *(request for run in below for request in run.requests)],
                seconds=now_s - self.taken_over_s.setdefault(name, now_s),
                n_tool_calls=self._calls[name] + n_open_calls + sum(map(n_calls, below)),
            )
        return budget
