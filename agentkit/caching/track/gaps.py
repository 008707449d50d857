"""How long it takes from one request of a run to the next, learned as it happens."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

_PRIOR_SLOW = Decimal("0.02")
"""Chance of a slow gap before anything is known, with the weight of this many gaps: """
_PRIOR_WEIGHT = 5
_FIRST_GAP_S = Decimal(17)
"""Median between two requests in 474 recorded sessions of coding agents."""
_FIRST_SLOW_GAP_S = Decimal(900)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What is expected of the next gap."""

    gap_s: Decimal
    """A usual one."""
    slow_chance: Decimal
    """Chance that it is longer than the shortest lifetime."""
    slow_gap_s: Decimal
    """A long one."""


class Gaps:
    """The gaps of one agent's runs. The latest count most."""

    def __init__(self, *, slow_from_s: float) -> None:
        """`slow_from_s`: the lifetime that a slow gap outlasts."""
        self._slow_from_s = Decimal(str(slow_from_s))
        self._n_gaps = Decimal(0)
        self._n_slow = Decimal(0)
        self._usual_s = _FIRST_GAP_S
        self._slow_s = max(_FIRST_SLOW_GAP_S, self._slow_from_s)

    def learn(self, gap_s: float) -> None:
        """Count a gap."""
        gap = Decimal(str(max(0.0, gap_s)))
        # Half the weight is lost in about seven gaps: what a run does now says most.
        self._n_gaps = self._n_gaps * _MEMORY + 1
        self._n_slow = self._n_slow * _MEMORY
        if gap >= self._slow_from_s:
            self._n_slow += 1
            self._slow_s = (self._slow_s + gap) / 2 if self._n_slow > 1 else gap
        else:
            self._usual_s = (3 * self._usual_s + gap) / 4

    @property
    def pace(self) -> Pace:
        """What to expect."""
        chance = (self._n_slow + _PRIOR_SLOW * _PRIOR_WEIGHT) / (self._n_gaps + _PRIOR_WEIGHT)
        return Pace(gap_s=self._usual_s, slow_chance=chance, slow_gap_s=self._slow_s)


_MEMORY = Decimal("0.9")
