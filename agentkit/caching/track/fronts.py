"""How long a front rests between two runs that have it, learned as it happens."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from agentkit.caching.plan.draft import SharedBy, SharedPrefix

_REMEMBERED = 8
"""Rests that are remembered. The longest of them counts: a lifetime that is too short costs a whole
front, one that is too long only a premium."""
_FRONTS_KEPT = 256


@dataclass(slots=True)
class _Front:
    used_at: datetime
    rests: deque[Decimal] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class FrontRests:
    """The fronts of one model's requests, by the keys of their ends."""

    def __init__(self) -> None:
        self._fronts: OrderedDict[bytes, _Front] = OrderedDict()

    def expected(
        self, shared: Sequence[SharedPrefix], keys: Sequence[bytes], *, at: datetime, begins: bool
    ) -> tuple[SharedPrefix, ...]:
        """Return the prefixes, and for fronts that rested before, for how long they may again.

        `begins` says whether the request is the first of its run.
        """
        begins_at = at if begins else None
        return tuple(
            [
                each if each.by is SharedBy.RUN else self._expected(each, keys, begins_at)
                for each in shared
            ]
        )

    def use(
        self, shared: Sequence[SharedPrefix], keys: Sequence[bytes], *, at: datetime, begins: bool
    ) -> None:
        """A request with these fronts is sent; `begins` says whether it is the first of a run."""
        for each in shared:
            if each.by is SharedBy.RUN or not 0 < each.end <= len(keys):
                continue
            key = keys[each.end - 1]
            front = self._fronts.pop(key, None)
            if front is None:
                front = _Front(at)
            elif begins:
                front.rests.append(_rest(front, at))
            front.used_at = at
            self._fronts[key] = front
        while len(self._fronts) > _FRONTS_KEPT:
            self._fronts.popitem(last=False)

    def _expected(
        self, shared: SharedPrefix, keys: Sequence[bytes], begins_at: datetime | None
    ) -> SharedPrefix:
        if not 0 < shared.end <= len(keys):
            return shared
        front = self._fronts.get(keys[shared.end - 1])
        if front is None:
            return shared
        rests = list(front.rests)
        if begins_at is not None:
            rests.append(_rest(front, begins_at))
        return replace(shared, gap_s=max(rests), gaps_s=tuple(rests)) if rests else shared


def _rest(front: _Front, at: datetime) -> Decimal:
    return Decimal(str((at - front.used_at).total_seconds()))
