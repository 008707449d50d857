"""Fair shares: which tenant has had least of what the engine computed.

Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): each tenant has a virtual time, which
grows by the tokens computed for it over its weight, and the smallest goes first. A tenant that
comes back starts level with the one that has had least: being idle saves up nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_IDLE = 1024
"""Tenants without requests whose virtual time is remembered, lest leaving should pay."""


class TenantShares:
    """Virtual times of tenants. Memory is bounded by the tenants that have requests here."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights: Mapping[str, float] = weights
        """Of tenants, relative to each other; 1 for others. May be replaced at any time: what was
        charged stays charged."""
        self._present: dict[str, int] = {}
        self._time: dict[str, float] = {}
        """Of those present, and of up to `MAX_IDLE` others, longest away first."""
        self._computed: dict[str, int] = {}

    @property
    def computed(self) -> dict[str, int]:
        """Tokens computed for each tenant so far; one that was away for long begins again at 0."""
        return dict(self._computed)

    def enter(self, tenant: str) -> None:
        """A request of this tenant has come."""
        n_requests = self._present.get(tenant, 0)
        if not n_requests:
            least = min((self._time[name] for name in self._present), default=0.0)
            self._time[tenant] = max(self._time.get(tenant, 0.0), least)
        self._present[tenant] = n_requests + 1

    def leave(self, tenant: str) -> None:
        """A request of this tenant has gone."""
        self._present[tenant] -= 1
        if self._present[tenant]:
            return
        del self._present[tenant]
        self._forget_longest_away()
        self._time[tenant] = self._time.pop(tenant)  # the last of those away
        if not self._present:  # nobody competes: nobody owes anything
            self._time.clear()
        elif len(self._time) - len(self._present) > MAX_IDLE:
            del self._time[next(name for name in self._time if name not in self._present)]

    def charge(self, tenant: str, n_tokens: int) -> None:
        """Tokens are computed for a tenant that is present."""
        self._time[tenant] += n_tokens / self.weights.get(tenant, 1.0)
        # Taken out and put in again: those that were away for longest are the first.
        self._computed[tenant] = self._computed.pop(tenant, 0) + n_tokens

    def of(self, tenant: str) -> float:
        """Virtual time of a tenant; 0 for one that has not been here for long."""
        return self._time.get(tenant, 0.0)

    def _forget_longest_away(self) -> None:
        if len(self._computed) - len(self._present) > MAX_IDLE:
            del self._computed[next(name for name in self._computed if name not in self._present)]
