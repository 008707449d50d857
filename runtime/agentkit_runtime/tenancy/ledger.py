"""Tokens by tenant and month, and when keys were used; written to the key store now and then."""

from __future__ import annotations

import calendar
import threading
import time
from collections.abc import Callable, Mapping

from agentkit_runtime.tenancy.store import KeyStore


class Ledger:
    """What was spent, saved or not. Usable from any thread.

    Several servers may share a store: each adds what it computed, and sees what the others added
    when it saves.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._saved: Mapping[str, int] = {}
        self._saved_month = ""
        self._unsaved: dict[tuple[str, str], int] = {}
        self._used: dict[str, float] = {}

    def month(self) -> str:
        """The calendar month in UTC, such as 2026-11."""
        return time.strftime("%Y-%m", time.gmtime(self._clock()))

    def seconds_left(self) -> float:
        """Until the month ends."""
        now = time.gmtime(self._clock())
        year, month = divmod(now.tm_year * 12 + now.tm_mon, 12)
        return _utc(year, month + 1) - self._clock()

    def used(self, key_id: str) -> None:
        """A key was used."""
        with self._lock:
            self._used[key_id] = self._clock()

    def spend(self, tenant: str, n_tokens: int) -> None:
        """Tokens were computed for a tenant."""
        if n_tokens:
            entry = tenant, self.month()
            with self._lock:
                self._unsaved[entry] = self._unsaved.get(entry, 0) + n_tokens

    def total(self, tenant: str) -> int:
        """What a tenant has spent in this month."""
        month = self.month()
        with self._lock:
            saved = self._saved.get(tenant, 0) if month == self._saved_month else 0
            return saved + self._unsaved.get((tenant, month), 0)

    def save(self, store: KeyStore) -> None:
        """Write to `store` what is not there yet, and read what other servers wrote.

        Raises:
            KeyStoreFault: nothing was written; it is tried again by the next call.
        """
        with self._lock:
            used, spent = dict(self._used), dict(self._unsaved)
        if used or spent:
            store.note(used=used, spent=spent)
        month = self.month()
        saved = store.spent(month)
        with self._lock:
            self._saved, self._saved_month = saved, month
            for entry, n_tokens in spent.items():
                self._unsaved[entry] -= n_tokens
                if not self._unsaved[entry]:
                    del self._unsaved[entry]
            for key_id, used_s in used.items():
                if self._used[key_id] == used_s:
                    del self._used[key_id]


def _utc(year: int, month: int) -> float:
    return float(calendar.timegm((year, month, 1, 0, 0, 0)))
