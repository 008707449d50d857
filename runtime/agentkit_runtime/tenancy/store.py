"""Keys, tenants' terms, and what was spent: all that is kept, and how it changes."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from agentkit_runtime.spelling import or_meant
from agentkit_runtime.tenancy import key as keys
from agentkit_runtime.tenancy.records import KeyRecord, NewKey, Snapshot
from agentkit_runtime.tenancy.store_file import KeyStoreFault, StoreFile
from agentkit_runtime.tenancy.terms import Terms, require_tenant_name

if TYPE_CHECKING:  # the API needs torch; the command line must not
    from agentkit_runtime.api.caller import Role

_COLUMNS = "id, shown, roles, tenant, name, created_s, expires_s, revoked_s, used_s"


class KeyStore(StoreFile):
    """An open key store. For one thread at a time. Close it, or use it as a context manager."""

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
            _write_terms(db, tenant, terms)

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Set the weights of these tenants, and those of all others to 1; all else stays.

        Raises:
            NoSuchTenant: one of them has neither keys nor terms.
            ValidationError: a weight is out of bounds.
        """
        with self._changing() as db:
            before = _snapshot(db)
            for tenant in weights:
                before.require_tenant(tenant)
            for tenant in sorted(before.terms.keys() | weights.keys()):
                terms = before.terms_of(tenant).model_dump() | {"weight": weights.get(tenant, 1.0)}
                _write_terms(db, tenant, Terms.model_validate(terms))

    def snapshot(self) -> Snapshot:
        """Keys and terms, both of one moment."""
        with self._asked():
            self._db.execute("BEGIN")
            try:
                return _snapshot(self._db)
            finally:
                self._db.execute("COMMIT")

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
            raise KeyStoreFault(self._no_key(key_id))
        return _record(row)

    def _no_key(self, named: str) -> str:
        """What to say to somebody who named a key by something that is no id."""
        known = [_record(row) for row in self._db.execute(f"SELECT {_COLUMNS} FROM keys")]
        if named.startswith(keys.PREFIX):  # perhaps a whole key: not to be repeated
            ids = [key.id for key in known if key.shown == keys.shown(named)]
            what = f"keys are named by their ids, not by themselves{or_meant('', (), called=ids)}"
        else:
            ids = [key.id for key in known if key.name == named]
            near = or_meant(named, [key.id for key in known], called=ids)
            what = f"there is no key {named!r} in {self.path}{near}"
        return f"{what} `keys list` shows the ids"


def _snapshot(db: sqlite3.Connection) -> Snapshot:
    found = db.execute(f"SELECT {_COLUMNS}, digest FROM keys")
    tenants = db.execute("SELECT name, terms FROM tenants")
    return Snapshot(
        keys={row[-1]: _record(row[:-1]) for row in found},
        terms={name: Terms.model_validate_json(text) for name, text in tenants},
    )


def _write_terms(db: sqlite3.Connection, tenant: str, terms: Terms) -> None:
    db.execute(
        "INSERT INTO tenants VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET terms = excluded.terms",
        (tenant, terms.model_dump_json(exclude_defaults=True)),
    )


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
