"""Writes what was used and spent to the key store, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Self

from agentkit_runtime.tenancy.accounts import Accounts
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.store_file import KeyStoreFault

_LOG = logging.getLogger(__name__)

PERIOD_S = 10.0
"""A server that is killed forgets what was spent in the last so many seconds."""


class Upkeep:
    """Saves every `period_s` seconds, and when it is closed. A context manager."""

    def __init__(self, path: Path, accounts: Accounts, *, period_s: float = PERIOD_S) -> None:
        self._path = path
        self._accounts = accounts
        self._period_s = period_s
        self._closing = threading.Event()
        self._fault: str | None = None
        self._thread = threading.Thread(target=self._run, name="agentkit-keys", daemon=True)

    def __enter__(self) -> Self:
        self.save()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        self._thread.join()
        self.save()

    def save(self) -> None:
        """Save now. A store that cannot be written is logged once, and tried again next time."""
        self._accounts.charge_all()
        try:
            # Opened each time: the file may have been replaced.
            with KeyStore(self._path) as store:
                self._accounts.ledger.save(store)
        except (KeyStoreFault, OSError) as fault:
            if str(fault) != self._fault:
                _LOG.warning("what tenants used cannot be saved, it is kept in memory: %s", fault)
            self._fault = str(fault)
        else:
            self._fault = None

    def _run(self) -> None:
        while not self._closing.wait(self._period_s):
            self.save()
