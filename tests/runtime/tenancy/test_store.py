"""The file of keys and tenants."""

from __future__ import annotations

import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentkit_runtime.tenancy import key as keys
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.records import Snapshot
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.store_file import KeyStoreBusy, KeyStoreFault
from agentkit_runtime.tenancy.terms import UNLIMITED, Terms

USER, ADMIN = frozenset({"user"}), frozenset({"admin"})
DAY_S = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret" / "keys.db"


def test_a_key_can_be_found_by_its_hash_and_the_file_does_not_hold_it(path: Path) -> None:
    with KeyStore(path, create=True) as store:
        made = store.add(roles=USER, tenant="ann", name="laptop", now_s=5.0, expires_s=9.0)
        snapshot = store.snapshot()

    assert snapshot.keys == {keys.digest(made.key): made.record}
    assert (made.record.tenant, made.record.name) == ("ann", "laptop")
    assert made.key not in repr(made)
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert made.record.id.encode() in held
    assert made.key.encode() not in held
    assert made.key[12:].encode() not in held


def test_only_its_owner_may_read_it(path: Path) -> None:
    with KeyStore(path, create=True) as store:
        store.add(roles=ADMIN, tenant=None, now_s=0.0)

    assert [stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()] == [0o600]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_store_that_others_could_read_is_closed_to_them(path: Path) -> None:
    path.parent.mkdir()
    path.touch(0o666)
    path.chmod(0o666)
    with KeyStore(path, create=True):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("roles", "tenant", "message"),
    [
        (frozenset(), "ann", "needs a role"),
        (USER, None, "belongs to a tenant"),
        (ADMIN, "ann", "has no tenant's data"),
        (USER, "(operator)", "a tenant's name"),
        (USER, "", "a tenant's name"),
        (USER, "ann\n", "a tenant's name"),
        (USER, "a" * 65, "a tenant's name"),
    ],
)
def test_keys_that_make_no_sense_are_refused(
    path: Path, roles: frozenset, tenant: str | None, message: str
) -> None:
    with KeyStore(path, create=True) as store:
        with pytest.raises(ValueError, match=message):
            store.add(roles=roles, tenant=tenant, now_s=0.0)
        assert store.records() == []


def test_a_revoked_key_stays_revoked_since_then(path: Path) -> None:
    with KeyStore(path, create=True) as store:
        made = store.add(roles=USER, tenant="ann", now_s=0.0)
        assert store.revoke(made.record.id, now_s=7.0).state(8.0) == "revoked"
        assert store.revoke(made.record.id, now_s=9.0).revoked_s == 7.0
        with pytest.raises(KeyStoreFault, match="no key 'key_x'"):
            store.revoke("key_x", now_s=0.0)


def test_a_rotated_key_works_beside_its_successor_for_a_while(path: Path) -> None:
    with KeyStore(path, create=True) as store:
        old = store.add(roles=USER, tenant="ann", name="ci", now_s=0.0, expires_s=90 * DAY_S)
        new = store.rotate(old.record.id, overlap_s=DAY_S, now_s=80 * DAY_S)
        kept, made = store.records()

    assert (kept.state(80.9 * DAY_S), kept.state(81 * DAY_S)) == ("active", "expired")
    assert made == new.record
    assert (made.roles, made.tenant, made.name) == (USER, "ann", "ci")
    assert made.expires_s == 170 * DAY_S  # as long a life as the old one was given


def test_an_overlap_gives_no_key_a_longer_life(path: Path) -> None:
    with KeyStore(path, create=True) as store:
        old = store.add(roles=USER, tenant="ann", now_s=0.0, expires_s=10.0)
        store.rotate(old.record.id, overlap_s=DAY_S, now_s=5.0)
        assert store.records()[0].expires_s == 10.0
        with pytest.raises(KeyStoreFault, match="is expired"):
            store.rotate(old.record.id, overlap_s=DAY_S, now_s=10.0)


def test_terms_are_kept_and_tenants_without_any_are_unlimited(path: Path) -> None:
    terms = Terms(requests_per_minute=5, weight=0.5, max_priority="batch")
    with KeyStore(path, create=True) as store:
        store.set_terms("ann", Terms(max_tokens=3))
        store.set_terms("ann", terms)
    with KeyStore(path) as store:
        assert store.terms("ann") == terms
        assert store.terms("bob") == UNLIMITED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, value)
            for name in ("requests_per_minute", "max_tokens")
            for value in (0, -1, "5", 10**400)
        ),
        ("pinned_tokens", -1),
        ("weight", 0.0),
        ("weight", float("nan")),
        ("max_priority", "urgent"),
        ("requests_per_hour", 3),
    ],
)
def test_terms_that_cannot_be_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        Terms.model_validate({name: value})


def test_what_is_no_key_store_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE diary (entry TEXT)")
    other.commit()
    other.close()
    before = path.read_bytes()

    for create in (False, True):
        with pytest.raises(KeyStoreFault, match="not a key store"):
            KeyStore(path, create=create)
    assert path.read_bytes() == before
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(KeyStoreFault, match="cannot be used"):
        KeyStore(path)


def test_an_empty_file_becomes_a_store_only_for_who_means_to_make_one(path: Path) -> None:
    path.parent.mkdir()
    path.touch()

    with pytest.raises(KeyStoreFault, match="not a key store"):
        KeyStore(path)
    assert path.read_bytes() == b""
    with KeyStore(path, create=True) as store:
        assert store.records() == []


def test_a_full_disk_is_what_is_told_and_nothing_is_written(path: Path) -> None:
    with KeyStore(path, create=True) as store:
        store.add(roles=USER, tenant="ann", now_s=0.0)
        n_pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {n_pages}")

        with pytest.raises(KeyStoreFault, match="full"):
            store.add(roles=USER, tenant="ann", name="x" * 100_000, now_s=0.0)
        assert len(store.records()) == 1
        store._db.execute("PRAGMA max_page_count = 1000000")
        store.add(roles=USER, tenant="ann", now_s=0.0)


def test_a_missing_store_says_how_to_make_one(path: Path) -> None:
    with pytest.raises(KeyStoreFault, match=r"keys add --keys .*keys\.db --role admin"):
        KeyStore(path)
    assert not path.exists()


def _add_many(path: Path, tenant: str) -> None:
    for _ in range(10):
        with KeyStore(path, create=True) as store:
            store.add(roles=USER, tenant=tenant, now_s=0.0)


def test_commands_at_the_same_time_lose_nothing(path: Path) -> None:
    """Each with a connection of its own; they also race to make the file."""
    with ThreadPoolExecutor(4) as running:
        for done in [running.submit(_add_many, path, f"t{n}") for n in range(4)]:
            done.result(30)

    with KeyStore(path) as store:
        assert len(store.records()) == 40
        assert store.n_changes() == 40


# -- as a running server sees it ---------------------------------------------------------------


def test_a_running_server_sees_each_change(path: Path) -> None:
    with KeyStore(path, create=True) as command, LiveStore(path) as live:
        heard: list[int] = []
        live.listen(lambda snapshot: heard.append(len(snapshot.keys)))
        assert live.now() is live.now()
        made = command.add(roles=USER, tenant="ann", now_s=0.0)
        assert live.now().keys == {keys.digest(made.key): made.record}
        command.set_terms("ann", Terms(max_tokens=3))
        assert live.now().terms_of("ann").max_tokens == 3
        command.revoke(made.record.id, now_s=1.0)
        assert [key.state(2.0) for key in live.now().keys.values()] == ["revoked"]

    assert heard == [0, 1, 1, 1]


def test_what_servers_note_is_no_change(path: Path) -> None:
    with KeyStore(path, create=True) as command, LiveStore(path) as live:
        before = live.now()
        command.note(used={"key_x": 1.0}, spent={("ann", "2026-11"): 5})
        assert live.now() is before
        assert command.spent("2026-11") == {"ann": 5}


def test_a_file_that_is_replaced_counts(path: Path) -> None:
    with KeyStore(path, create=True) as old:
        revoked = old.add(roles=USER, tenant="ann", now_s=0.0)
    with LiveStore(path) as live:
        assert len(live.now().keys) == 1
        other = path.with_name("other.db")
        with KeyStore(other, create=True) as store:
            made = store.add(roles=USER, tenant="bob", now_s=0.0)
        other.replace(path)
        assert list(live.now().keys.values()) == [made.record] != [revoked.record]


@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_while_the_file_cannot_be_read_its_last_state_holds(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with KeyStore(path, create=True) as store:
        store.add(roles=USER, tenant="ann", now_s=0.0)
    with LiveStore(path) as live:
        before = live.now()
        path.unlink()
        if damage == "garbage":
            path.write_bytes(b"x" * 5000)
        for _ in range(3):
            assert live.now() is before
        assert len(caplog.records) == 1
        path.unlink(missing_ok=True)
        with KeyStore(path, create=True):
            assert live.now().keys == {}


def test_looking_does_not_wait_for_a_command_that_writes(path: Path) -> None:
    """The event loop looks: a lock that another process holds must not stop it."""
    with KeyStore(path, create=True), LiveStore(path) as live:
        before = live.now()
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN EXCLUSIVE")
        looked = threading.Event()
        found: list[object] = []

        def look() -> None:
            found.append(live.now())
            looked.set()

        thread = threading.Thread(target=look)
        thread.start()
        in_time = looked.wait(2.0)
        writer.execute("ROLLBACK")
        writer.close()
        thread.join()
        assert in_time, "it waited for the lock"
        assert found == [before]


def test_a_change_that_could_not_be_read_is_read_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KeyStore(path, create=True) as command, LiveStore(path) as live:
        command.add(roles=USER, tenant="ann", now_s=0.0)
        with monkeypatch.context() as broken:

            def busy(self: KeyStore) -> Snapshot:
                raise KeyStoreBusy("somebody writes")

            broken.setattr(KeyStore, "snapshot", busy)
            assert len(live.now().keys) == 0
        assert len(live.now().keys) == 1


def test_what_a_listener_hears_last_is_the_newest(path: Path) -> None:
    """Also where two threads notice two changes, and the first is slow to tell of its own."""
    heard: list[float] = []
    begun, told = threading.Event(), threading.Event()

    def slow_at_first(snapshot: Snapshot) -> None:
        weight = snapshot.terms_of("ann").weight
        if weight == 2.0:
            begun.set()
            told.wait(0.2)  # comes only where the other thread is not kept waiting
        heard.append(weight)
        if weight == 3.0:
            told.set()

    with KeyStore(path, create=True) as store, LiveStore(path) as live, ThreadPoolExecutor(2) as at:
        live.listen(slow_at_first)
        store.set_terms("ann", Terms(weight=2.0))
        first = at.submit(live.now)
        assert begun.wait(5)
        store.set_terms("ann", Terms(weight=3.0))
        second = at.submit(live.now)
        assert (first.result().terms, second.result().terms) != ({}, {})
    assert heard[-1] == 3.0
