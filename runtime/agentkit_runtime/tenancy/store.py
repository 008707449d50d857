"""The file of keys and tenants: one SQLite database, readable by its owner only.

Commands change it while servers read it; both are transactions. The rollback journal is used and
not the write-ahead log: there is one file to copy, to guard and to delete.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, cast

from agentkit_runtime.api.caller import Role
from agentkit_runtime.errors import RuntimeFault
from agentkit_runtime.tenancy import key as keys
from agentkit_runtime.tenancy.records import KeyRecord, NewKey, Snapshot
from agentkit_runtime.tenancy.terms import Terms, require_tenant_name

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
_COLUMNS = "id, shown, roles, tenant, name, created_s, expires_s, revoked_s, used_s"


class KeyStoreFault(RuntimeFault):
    """The key store cannot be used, or does not have what was asked for; the message says what."""


class KeyStoreBusy(KeyStoreFault):
    """Somebody else writes to the store at this moment."""


class KeyStore:
    """An open key store. For one thread at a time. Close it, or use it as a context manager."""

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
                self._prepare()
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

    def add(
        self,
        *,
        roles: frozenset[Role],
        tenant: str | None,
        name: str = "",
        now_s: float,
        expires_s: float | None = None,
    ) -> NewKey:
        """Make a key.

        Raises:
            ValueError: a user's key needs a tenant, an admin's has one only if it is a user's, too.
        """
        if not roles:
            raise ValueError("a key needs a role: user, admin, or both")
        if "user" in roles and tenant is None:
            raise ValueError("a key with the user role belongs to a tenant; name it")
        if "user" not in roles and tenant is not None:
            raise ValueError(
                f"a key without the user role has no tenant's data; give it the user role, too, or "
                f"leave out the tenant {tenant!r}"
            )
        if tenant is not None:
            require_tenant_name(tenant)
        with self._changing() as db:
            return _insert(db, roles, tenant, name, now_s, expires_s)

    def records(self) -> list[KeyRecord]:
        """All keys, oldest first."""
        with self._asked():
            found = self._db.execute(f"SELECT {_COLUMNS} FROM keys ORDER BY created_s, rowid")
            return [_record(row) for row in found]

    def revoke(self, key_id: str, *, now_s: float) -> KeyRecord:
        """End a key for good. Raises KeyStoreFault when there is none with this id."""
        with self._changing() as db:
            self._get(key_id)
            db.execute(
                "UPDATE keys SET revoked_s = coalesce(revoked_s, ?) WHERE id = ?", (now_s, key_id)
            )
            return self._get(key_id)

    def rotate(self, key_id: str, *, overlap_s: float, now_s: float) -> NewKey:
        """Make a key that may do what another may, for as long; that one ends in `overlap_s`.

        Raises:
            KeyStoreFault: there is no such key, or it has ended already.
        """
        with self._changing() as db:
            old = self._get(key_id)
            if old.state(now_s) != "active":
                raise KeyStoreFault(f"the key {key_id} is {old.state(now_s)}; add a new one")
            life_s = None if old.expires_s is None else old.expires_s - old.created_s
            ends_s = now_s + overlap_s
            db.execute(
                "UPDATE keys SET expires_s = min(coalesce(expires_s, ?), ?) WHERE id = ?",
                (ends_s, ends_s, key_id),
            )
            expires_s = None if life_s is None else now_s + life_s
            return _insert(db, old.roles, old.tenant, old.name, now_s, expires_s)

    def terms(self, tenant: str) -> Terms:
        """A tenant's terms."""
        return self.snapshot().terms_of(require_tenant_name(tenant))

    def set_terms(self, tenant: str, terms: Terms) -> None:
        """Set a tenant's terms; it need not have a key yet."""
        require_tenant_name(tenant)
        with self._changing() as db:
            db.execute(
                "INSERT INTO tenants VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET terms = excluded.terms",
                (tenant, terms.model_dump_json(exclude_defaults=True)),
            )

    def snapshot(self) -> Snapshot:
        """Keys and terms, both of one moment."""
        with self._asked():
            self._db.execute("BEGIN")
            try:
                found = self._db.execute(f"SELECT {_COLUMNS}, digest FROM keys").fetchall()
                tenants = self._db.execute("SELECT name, terms FROM tenants").fetchall()
            finally:
                self._db.execute("COMMIT")
        return Snapshot(
            keys={row[-1]: _record(row[:-1]) for row in found},
            terms={name: Terms.model_validate_json(text) for name, text in tenants},
        )

    def version(self) -> int:
        """A number that is another one after whatever another connection wrote.

        Takes some microseconds: https://www.sqlite.org/pragma.html#pragma_data_version
        """
        with self._asked():
            return self._pragma("data_version")

    def n_changes(self) -> int:
        """How often keys and terms were changed; what was used and spent changes neither."""
        with self._asked():
            return cast("int", self._db.execute("SELECT n FROM changes").fetchone()[0])

    def note(self, *, used: Mapping[str, float], spent: Mapping[tuple[str, str], int]) -> None:
        """Write down when keys were used, by id, and add tokens to tenants' months.

        Several servers may do so with one file: tokens add up.
        """
        with self._writing() as db:
            db.executemany(
                "UPDATE keys SET used_s = max(coalesce(used_s, 0), ?) WHERE id = ?",
                [(used_s, key_id) for key_id, used_s in used.items()],
            )
            db.executemany(
                "INSERT INTO spent VALUES (?, ?, ?) ON CONFLICT (tenant, month) "
                "DO UPDATE SET tokens = tokens + excluded.tokens",
                [(tenant, month, n) for (tenant, month), n in spent.items()],
            )

    def spent(self, month: str) -> dict[str, int]:
        """Tokens of each tenant in a month, such as 2026-11."""
        with self._asked():
            return dict(
                self._db.execute("SELECT tenant, tokens FROM spent WHERE month = ?", (month,))
            )

    def _get(self, key_id: str) -> KeyRecord:
        row = self._db.execute(f"SELECT {_COLUMNS} FROM keys WHERE id = ?", (key_id,)).fetchone()
        if row is None:
            raise KeyStoreFault(
                f"there is no key {key_id!r} in {self.path}; `keys list` shows the ids"
            )
        return _record(row)

    def _prepare(self) -> None:
        """Make the tables in an empty file; refuse what is something else."""
        self._db.execute("PRAGMA synchronous = FULL")
        form = self._pragma("user_version")
        if self._pragma("application_id") == _APPLICATION_ID and form == _FORM:
            return
        if form or self._db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise KeyStoreFault(f"{self.path} is not a key store of this version (form {form})")
        self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")

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
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _asked(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            raise (KeyStoreBusy if busy else KeyStoreFault)(
                f"the key store {self.path} cannot be used: {error}"
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


def _insert(
    db: sqlite3.Connection,
    roles: frozenset[Role],
    tenant: str | None,
    name: str,
    now_s: float,
    expires_s: float | None,
) -> NewKey:
    made = keys.new_key()
    record = KeyRecord(
        id=f"key_{secrets.token_hex(6)}",
        shown=keys.shown(made),
        roles=roles,
        tenant=tenant,
        name=name,
        created_s=now_s,
        expires_s=expires_s,
        revoked_s=None,
        used_s=None,
    )
    values = (record.id, record.shown, " ".join(sorted(roles)), tenant, name, now_s, expires_s)
    db.execute(
        "INSERT INTO keys (id, shown, roles, tenant, name, created_s, expires_s, digest) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, keys.digest(made)),
    )
    return NewKey(made, record)


def _record(row: tuple[object, ...]) -> KeyRecord:
    key_id, shown, roles, tenant, name, created_s, expires_s, revoked_s, used_s = row
    return KeyRecord(
        id=cast("str", key_id),
        shown=cast("str", shown),
        roles=frozenset(cast("list[Role]", cast("str", roles).split())),
        tenant=cast("str | None", tenant),
        name=cast("str", name),
        created_s=cast("float", created_s),
        expires_s=cast("float | None", expires_s),
        revoked_s=cast("float | None", revoked_s),
        used_s=cast("float | None", used_s),
    )
