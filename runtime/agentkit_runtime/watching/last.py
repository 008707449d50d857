"""The last requests, for dashboards: for admins those of all tenants, for each tenant its own.

A tenant's own are kept and numbered apart, so that neither their numbers nor how many of them are
left says what other tenants do.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Final, TypedDict

from agentkit_runtime.watching.record import RequestRecord

_FIELDS: Final = tuple(field.name for field in dataclasses.fields(RequestRecord))

MAX_TENANTS = 1_024
"""Tenants whose requests are kept; those of the one that was quiet for longest go first."""


RequestRow = Mapping[str, object]
"""The fields of a `RequestRecord` as JSON, seconds rounded to microseconds, and its `number`: it
counts up from 1 since the server's start."""


class RequestPage(TypedDict):
    """Requests that are over, newest first."""

    requests: list[RequestRow]
    last: int
    """The newest number there is; to be sent as `after` to get only what comes later."""


class LastRequests:
    """Bounded. Used in the server's event loop."""

    def __init__(self, *, kept: int, kept_by_tenant: int) -> None:
        self._all = _Line(kept)
        self._kept_by_tenant = kept_by_tenant
        self._tenants: OrderedDict[str, _Line] = OrderedDict()

    def add(self, record: RequestRecord) -> None:
        """Keep a record."""
        self._all.add(record)
        own = self._tenants.setdefault(record.tenant, _Line(self._kept_by_tenant))
        self._tenants.move_to_end(record.tenant)
        own.add(record)
        if len(self._tenants) > MAX_TENANTS:
            self._tenants.popitem(last=False)

    def page(self, *, tenant: str | None = None, after: int = 0, limit: int = 100) -> RequestPage:
        """Up to `limit` requests with numbers above `after`; of one tenant, or of all."""
        line = self._all if tenant is None else self._tenants.get(tenant)
        if line is None:
            return {"requests": [], "last": 0}
        return {"requests": list(itertools.islice(line.above(after), limit)), "last": line.n}


class _Line:
    def __init__(self, kept: int) -> None:
        self.n = 0
        self._kept: deque[tuple[int, RequestRecord]] = deque(maxlen=kept)

    def add(self, record: RequestRecord) -> None:
        self.n += 1
        self._kept.append((self.n, record))

    def above(self, after: int) -> Iterator[RequestRow]:
        for number, record in reversed(self._kept):
            if number <= after:
                return
            yield _row(number, record)


def _row(number: int, record: RequestRecord) -> RequestRow:
    # Not `asdict`, which copies deeply: the values are immutable.
    fields = {name: _plain(getattr(record, name)) for name in _FIELDS}
    return {"number": number, **fields}


def _plain(value: object) -> object:
    match value:
        case float():
            return rounded(value)
        case tuple():
            return list(value)
        case _:
            return value


def rounded(seconds: float | None) -> float | None:
    """Seconds to the microsecond."""
    return None if seconds is None else round(seconds, 6)
