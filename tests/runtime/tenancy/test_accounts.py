"""Rates, budgets, and what was used: buckets, ledger, accounts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_runtime.tenancy.accounts import Accounts, Level
from agentkit_runtime.tenancy.bucket import Bucket
from agentkit_runtime.tenancy.ledger import Ledger
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.store_file import KeyStoreFault
from agentkit_runtime.tenancy.terms import Terms
from agentkit_runtime.tenancy.upkeep import Upkeep
from tests.runtime.tenancy.clocks import Clock

NOVEMBER_30 = 1_796_000_000.0
"""2026-11-30, a day before the month ends."""


# -- buckets -----------------------------------------------------------------------------------


def test_a_bucket_is_full_at_first_and_fills_with_time() -> None:
    clock = Clock()
    bucket = Bucket(60, clock)
    bucket.take(60)
    assert bucket.level() == 0
    clock.now_s += 2
    assert bucket.level() == pytest.approx(2)
    clock.now_s += 1_000
    assert bucket.level() == 60


def test_a_debt_is_waited_for() -> None:
    clock = Clock()
    bucket = Bucket(60, clock)
    bucket.take(90)
    assert bucket.seconds_until(1) == pytest.approx(31)
    clock.now_s += 31
    assert bucket.level() == pytest.approx(1)
    assert bucket.seconds_until(1) == pytest.approx(0)


def test_another_rate_forgives_and_forgets_nothing() -> None:
    bucket = Bucket(60, Clock())
    bucket.take(40)
    bucket.resize(100)
    assert bucket.level() == 60
    bucket.resize(10)
    assert bucket.level() == -30


@given(
    rate=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.floats(0, 100), st.integers(0, 500)), max_size=20),
)
def test_nobody_gets_more_than_a_burst_and_the_rate(
    rate: int, steps: list[tuple[float, int]]
) -> None:
    """Requests that are let in only at a level of 1 and more, whatever they cost."""
    clock = Clock(0.0)
    bucket = Bucket(rate, clock)
    taken, largest = 0.0, 0
    for pause_s, cost in steps:
        clock.now_s += pause_s
        if bucket.level() >= 1:
            bucket.take(cost)
            taken, largest = taken + cost, max(largest, cost)
    assert taken <= rate + clock.now_s * rate / 60 + largest + 1e-6


# -- ledger ------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    with KeyStore(tmp_path / "keys.db", create=True) as store:
        yield store


def test_two_servers_add_up_in_one_store(store: KeyStore) -> None:
    first, second = Ledger(clock=Clock(NOVEMBER_30)), Ledger(clock=Clock(NOVEMBER_30))
    first.spend("ann", 5)
    second.spend("ann", 7)
    assert (first.total("ann"), second.total("ann")) == (5, 7)
    first.save(store)
    second.save(store)
    second.save(store)
    assert (first.total("ann"), second.total("ann")) == (5, 12)
    first.spend("ann", 1)
    first.save(store)
    assert first.total("ann") == 13
    assert store.spent("2026-11") == {"ann": 13}


def test_a_month_ends_at_its_end_and_what_was_not_saved_stays_its(store: KeyStore) -> None:
    clock = Clock(NOVEMBER_30)
    ledger = Ledger(clock=clock)
    ledger.spend("ann", 5)
    left_s = ledger.seconds_left()
    assert 0 < left_s <= 86_400
    clock.now_s += left_s - 0.5
    assert (ledger.month(), ledger.total("ann")) == ("2026-11", 5)
    clock.now_s += 0.5
    assert (ledger.month(), ledger.total("ann")) == ("2026-12", 0)
    ledger.spend("ann", 2)
    ledger.save(store)
    assert (store.spent("2026-11"), store.spent("2026-12")) == ({"ann": 5}, {"ann": 2})
    assert ledger.total("ann") == 2
    assert ledger.seconds_left() == 31 * 86_400


def test_what_cannot_be_saved_is_kept_and_saved_once(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(clock=Clock(NOVEMBER_30))
    ledger.spend("ann", 5)
    with monkeypatch.context() as full:

        def note(self: KeyStore, **what: object) -> None:
            raise KeyStoreFault("disk full")

        full.setattr(KeyStore, "note", note)
        with pytest.raises(KeyStoreFault):
            ledger.save(store)
    assert ledger.total("ann") == 5
    for _ in range(2):
        ledger.save(store)
    assert store.spent("2026-11") == {"ann": 5}


def test_the_last_use_of_keys_is_kept(store: KeyStore) -> None:
    made = store.add(roles=frozenset({"user"}), tenant="ann", now_s=0.0)
    clock = Clock(NOVEMBER_30)
    ledger = Ledger(clock=clock)
    ledger.used(made.record.id)
    clock.now_s += 5
    ledger.used(made.record.id)
    ledger.used("key_that_is_gone")
    ledger.save(store)
    assert [key.used_s for key in store.records()] == [NOVEMBER_30 + 5]


# -- accounts ----------------------------------------------------------------------------------


class Books:
    """Accounts over an engine whose counts a test sets."""

    def __init__(self, store: KeyStore) -> None:
        self.store = store
        self.clock = Clock()
        self.computed = {"ann": 100}
        self.live = LiveStore(store.path)
        self.ledger = Ledger(clock=Clock(NOVEMBER_30))
        self.accounts = Accounts(self.live, self.ledger, lambda: self.computed, clock=self.clock)


@pytest.fixture
def books(store: KeyStore) -> Iterator[Books]:
    store.set_terms("ann", Terms(requests_per_minute=6, tokens_per_minute=600))
    books = Books(store)
    with books.live:
        yield books


def test_tokens_are_charged_as_the_engine_counts_them(books: Books) -> None:
    assert books.accounts.standing("ann").tokens == Level(limit=600, remaining=600, reset_s=0.0)
    books.computed["ann"] += 50
    books.computed["bob"] = 9
    for _ in range(2):
        standing = books.accounts.standing("ann")
        assert standing.tokens == Level(limit=600, remaining=550, reset_s=pytest.approx(5.0))
    books.accounts.charge_all()
    assert (books.ledger.total("ann"), books.ledger.total("bob")) == (50, 9)
    assert books.accounts.standing("bob").tokens is None


def test_an_engine_that_forgot_a_tenant_counts_anew(books: Books) -> None:
    books.computed["ann"] = 160
    books.accounts.charge_all()
    del books.computed["ann"]
    books.accounts.charge_all()
    books.accounts.of("ann")
    books.computed["ann"] = 7
    books.accounts.charge_all()
    assert books.ledger.total("ann") == 67


def test_new_terms_count_at_once_and_no_terms_are_no_rate(books: Books) -> None:
    books.computed["ann"] += 100
    books.accounts.standing("ann")
    books.store.set_terms("ann", Terms(tokens_per_minute=150))
    standing = books.accounts.standing("ann")
    assert standing.requests is None
    assert standing.tokens is not None
    assert (standing.tokens.limit, standing.tokens.remaining) == (150, 50)
    books.store.set_terms("ann", Terms())
    assert books.accounts.standing("ann").tokens is None


def test_upkeep_saves_in_time_and_at_its_end(books: Books) -> None:
    with Upkeep(books.store.path, books.accounts, period_s=0.001) as upkeep:
        books.computed["ann"] += 11
        while books.store.spent("2026-11") != {"ann": 11}:
            upkeep._closing.wait(0.001)
    with Upkeep(books.store.path, books.accounts, period_s=60):
        books.computed["ann"] += 1
    assert books.store.spent("2026-11") == {"ann": 12}


def test_a_store_that_cannot_be_written_is_said_once(
    books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep = Upkeep(books.store.path, books.accounts)
    hidden = books.store.path.with_name("hidden")
    books.store.path.rename(hidden)
    books.computed["ann"] += 11
    for _ in range(3):
        upkeep.save()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    hidden.rename(books.store.path)
    upkeep.save()
    assert books.store.spent("2026-11") == {"ann": 11}
