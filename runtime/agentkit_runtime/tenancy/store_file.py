"""The key store's file: making it, opening it, transactions, and what goes wrong with it.

One SQLite database, readable by its owner only. Commands change it while servers read it; both are
transactions. The rollback journal is used and not the write-ahead log: there is one file to copy,
to guard and to delete.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, cast

from agentkit_runtime.errors import RuntimeFault

_APPLICATION_ID = 0x616B6B73  # "akks"
_FORM = 1
BUSY_S = 5.0

_SCHEMA = f"""
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_FORM};
    CREATE TABLE keys (
        id TEXT PRIMARY KEY, digest BLOB NOT NULL UNIQUE, shown TEXT NOT NULL,
        roles TEXT NOT NULL, tenant TEXT, name TEXT NOT NULL,
        created_s REAL NOT NULL, expires_s REAL, revoked_s REAL, used_s REAL
    );
    CREATE TABLE changes (n INTEGER NOT NULL);
    INSERT INTO changes VALUES (0);
    CREATE TABLE tenants (name TEXT PRIMARY KEY, terms TEXT NOT NULL);
    CREATE TABLE spent (
        tenant TEXT NOT NULL, month TEXT NOT NULL, tokens INTEGER NOT NULL,
        PRIMARY KEY (tenant, month)
    ) WITHOUT ROWID;
"""


class KeyStoreFault(RuntimeFault):
    """The key store cannot be used, or does not have what was asked for; the message says what."""


class KeyStoreBusy(KeyStoreFault):
    """Somebody else writes to the store at this moment."""


class NoSuchTenant(KeyStoreFault):
    """The store knows no tenant of this name; the message has those that it knows."""


class StoreFile:
    """An open file. For one thread at a time. Close it, or use it as a context manager."""

    def __init__(self, path: Path, *, create: bool = False, busy_s: float = BUSY_S) -> None:
        """Open the file at `path`; with `create`, make it when it is not there.

        Args:
            path: of the file.
            create: make it when it is not there.
            busy_s: how long others that write are waited for; after that it is KeyStoreBusy.

        Raises:
            KeyStoreFault: it is not there, or is not a key store.
            OSError: it can neither be read nor be made.
        """
        self.path = path
        if create:
            _make_private(path)
        elif not path.is_file():
            raise KeyStoreFault(
                f"there is no key store at {path}; make one with: "
                f"agentkit-runtime keys add --keys {path} --role admin"
            )
        self._db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=busy_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            with self._asked():
                self._prepare(create)
        except BaseException:
            self._db.close()
            raise

    def wait_for_nobody(self) -> None:
        """Raise KeyStoreBusy at once from now on, where others write."""
        with self._asked():
            self._db.execute("PRAGMA busy_timeout = 0")

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def version(self) -> int:
        """A number that is another one after whatever another connection wrote.

        Takes some microseconds: https://www.sqlite.org/pragma.html#pragma_data_version
        """
        with self._asked():
            return self._pragma("data_version")

    def _prepare(self, create: bool) -> None:
        """With `create`, make the tables in an empty file; refuse what is something else.

        Who only looks leaves an empty file as it is: a copy of a store may be about to be there.
        """
        self._db.execute("PRAGMA synchronous = FULL")
        if self._is_ours():
            return
        if not create:
            form = self._pragma("user_version")
            raise KeyStoreFault(f"{self.path} is not a key store of this version (form {form})")
        with self._writing() as db:
            if self._is_ours():  # somebody else has made them meanwhile
                return
            form = self._pragma("user_version")
            if form or db.execute("SELECT 1 FROM sqlite_schema").fetchone():
                raise KeyStoreFault(f"{self.path} is not a key store of this version (form {form})")
            for statement in _SCHEMA.split(";"):
                db.execute(statement)

    def _is_ours(self) -> bool:
        known = _APPLICATION_ID, _FORM
        return (self._pragma("application_id"), self._pragma("user_version")) == known

    def _pragma(self, name: str) -> int:
        return cast("int", self._db.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that running servers are to notice."""
        with self._writing() as db:
            yield db
            db.execute("UPDATE changes SET n = n + 1")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._asked():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            is_none = code == sqlite3.SQLITE_NOTADB
            hint = "; name one that `agentkit-runtime keys add` made" if is_none else ""
            raise (KeyStoreBusy if code == sqlite3.SQLITE_BUSY else KeyStoreFault)(
                f"the key store {self.path} cannot be used: {error}{hint}"
            ) from error


def _make_private(path: Path) -> None:
    """An empty file that only its owner may read; one that is there becomes so."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with suppress(PermissionError):  # somebody else's file, and theirs to guard
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
