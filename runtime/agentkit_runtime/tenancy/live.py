"""The key store as a running server sees it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from agentkit_runtime.tenancy.records import Snapshot
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.store_file import BUSY_S, KeyStoreBusy, KeyStoreFault

_LOG = logging.getLogger(__name__)


class LiveStore:
    """What the file says now. Looking costs some microseconds; only a change costs a read.

    A file that was replaced by another one counts, too. While the file cannot be read, what it said
    last goes on to hold: a server must not refuse everybody because of a disk.
    """

    def __init__(self, path: Path) -> None:
        """Open the store at `path`. Raises as `KeyStore` does."""
        self._path = path
        self._lock = threading.Lock()
        self._telling = threading.RLock()
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._fault: str | None = None
        self._open(BUSY_S)

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def listen(self, listener: Callable[[Snapshot], None]) -> None:
        """Call `listener` now and after each change, in the thread that notices it."""
        self._listeners.append(listener)
        listener(self._snapshot)

    def now(self) -> Snapshot:
        """Keys and terms as they are. From any thread."""
        with self._lock:
            changed = self._refresh()
        if changed:
            with self._telling:  # one after the other: what is told last is the newest
                for listener in self._listeners:
                    listener(self._snapshot)
        return self._snapshot

    def _open(self, busy_s: float) -> None:
        file = _identity(self._path)
        store = KeyStore(self._path, busy_s=busy_s)
        try:
            # The numbers first: a change in between is then seen once more, and not missed.
            version, n_changes = store.version(), store.n_changes()
            snapshot = store.snapshot()
            store.wait_for_nobody()
        except BaseException:
            store.close()
            raise
        self._file, self._store, self._snapshot = file, store, snapshot
        self._version, self._n_changes = version, n_changes

    def _refresh(self) -> bool:
        """Read again what has changed; False when nothing has, or it cannot be read."""
        try:
            if _identity(self._path) != self._file:
                old = self._store
                self._open(busy_s=0.0)
                old.close()
                changed = True
            else:
                changed = self._read_changes()
        except KeyStoreBusy:  # whoever writes is done in a moment, and then it is seen
            return False
        except (KeyStoreFault, OSError, ValueError) as error:
            if str(error) != self._fault:
                _LOG.warning("the key store cannot be read, its last state holds: %s", error)
            self._fault = str(error)
            return False
        self._fault = None
        return changed

    def _read_changes(self) -> bool:
        version = self._store.version()
        if version == self._version:
            return False
        n_changes = self._store.n_changes()
        changed = n_changes != self._n_changes
        if changed:
            self._snapshot = self._store.snapshot()
        self._version, self._n_changes = version, n_changes
        return changed


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
