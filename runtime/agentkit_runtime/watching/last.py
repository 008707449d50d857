"""The last requests, for dashboards: for admins those of all tenants, for each tenant its own.

A tenant's own are kept and numbered apart, so that neither their numbers nor how many of them are
left says what other tenants do.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TypedDict

from agentkit_runtime.kv.ghosts import Cause
from agentkit_runtime.watching.record import Outcome, RequestRecord

MAX_TENANTS = 1_024
"""Tenants whose requests are kept; those of the one that was quiet for longest go first."""


class RequestRow(TypedDict):
    """A request as JSON; see `RequestRecord`. Seconds are rounded to microseconds."""

    number: int
    """Counts up from 1 since the server's start."""
    request_id: str
    id: str
    endpoint: str
    tenant: str
    key_id: str | None
    session: str | None
    priority: str
    began_unix_s: float
    outcome: Outcome
    status: int
    code: str | None
    finish: list[str]
    seconds: float
    ttft_s: float | None
    queue_s: float | None
    prefill_s: float | None
    decode_s: float | None
    prompt_tokens: int
    cached_tokens: int
    restored_tokens: int
    completion_tokens: int
    missed: Cause | None
    lost_tokens: int


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
    return {
        "number": number,
        "request_id": record.request_id,
        "id": record.id,
        "endpoint": record.endpoint,
        "tenant": record.tenant,
        "key_id": record.key_id,
        "session": record.session,
        "priority": record.priority,
        "began_unix_s": record.began_unix_s,
        "outcome": record.outcome,
        "status": record.status,
        "code": record.code,
        "finish": list(record.finish),
        "seconds": round(record.seconds, 6),
        "ttft_s": rounded(record.ttft_s),
        "queue_s": rounded(record.queue_s),
        "prefill_s": rounded(record.prefill_s),
        "decode_s": rounded(record.decode_s),
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "restored_tokens": record.restored_tokens,
        "completion_tokens": record.completion_tokens,
        "missed": record.missed,
        "lost_tokens": record.lost_tokens,
    }


def rounded(seconds: float | None) -> float | None:
    """Seconds to the microsecond."""
    return None if seconds is None else round(seconds, 6)
