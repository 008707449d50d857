"""From the headers of a request to who sends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentkit_runtime.api.caller import Bounds
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.tenancy.authenticator import KeyAuthenticator
from agentkit_runtime.tenancy.key import new_key
from agentkit_runtime.tenancy.live import LiveStore
from agentkit_runtime.tenancy.records import NewKey
from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.terms import OPERATOR, Terms
from agentkit_runtime.types import Priority
from tests.runtime.tenancy.clocks import Clock


class Door:
    """A store, and an authenticator before it."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.store = KeyStore(path, create=True)
        self.live = LiveStore(path)
        self.used: list[str] = []
        self.authenticator = KeyAuthenticator(self.live, used=self.used.append, clock=self.clock)

    def key(self, *roles: str, tenant: str | None, expires_s: float | None = None) -> NewKey:
        return self.store.add(
            roles=frozenset(roles),  # type: ignore[arg-type]
            tenant=tenant,
            now_s=self.clock(),
            expires_s=expires_s,
        )

    def refusal(self, headers: dict[str, str]) -> ApiError:
        with pytest.raises(ApiError) as refused:
            self.authenticator.authenticate(headers)
        error = refused.value
        assert (error.status, error.code) == (401, "invalid_api_key")
        assert error.headers == {"WWW-Authenticate": "Bearer"}
        return error


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path / "keys.db")
    with door.store, door.live:
        yield door


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("authorization", "Bearer "),
        ("authorization", "bearer  "),
        ("x-api-key", ""),
        ("api-key", ""),
    ],
)
def test_a_key_is_taken_where_clients_send_it(door: Door, name: str, before: str) -> None:
    made = door.key("user", tenant="ann")

    caller = door.authenticator.authenticate({name: f"{before}{made.key}", "host": "x"})

    assert (caller.tenant, caller.roles, caller.key_id) == ("ann", {"user"}, made.record.id)
    assert door.used == [made.record.id]


def test_the_same_key_may_come_twice_and_two_keys_may_not(door: Door) -> None:
    ann, bob = door.key("user", tenant="ann").key, door.key("user", tenant="bob").key

    twice = door.authenticator.authenticate({"x-api-key": ann, "authorization": f"Bearer {ann}"})

    assert twice.tenant == "ann"
    error = door.refusal({"x-api-key": ann, "authorization": f"Bearer {bob}"})
    assert "several API keys" in str(error)


def test_an_admins_key_has_no_tenants_data_unless_it_is_a_users_too(door: Door) -> None:
    alone = door.authenticator.authenticate({"x-api-key": door.key("admin", tenant=None).key})
    both = door.authenticator.authenticate(
        {"x-api-key": door.key("admin", "user", tenant="ann").key}
    )

    assert (alone.tenant, alone.roles) == (OPERATOR, {"admin"})
    assert (both.tenant, both.roles) == ("ann", {"admin", "user"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Basic YTpi"},
        {"x-api-key": " "},
    ],
)
def test_without_a_key_one_is_asked_for(door: Door, headers: dict[str, str]) -> None:
    assert "an API key is needed" in str(door.refusal(headers))


def test_a_wrong_key_is_refused_and_nothing_of_it_is_repeated(door: Door) -> None:
    door.key("user", tenant="ann")
    unknown = new_key()
    for sent in (unknown, unknown[:-1], "sk-proj-0123456789", "\xff" * 50):
        text = str(door.refusal({"x-api-key": sent}))
        assert not any(sent[i : i + 6] in text for i in range(len(sent) - 5))
    assert door.used == []


def test_an_expired_or_revoked_key_says_so(door: Door) -> None:
    short = door.key("user", tenant="ann", expires_s=door.clock() + 10)
    long = door.key("user", tenant="ann")
    door.store.revoke(long.record.id, now_s=door.clock())

    assert "is revoked" in str(door.refusal({"x-api-key": long.key}))
    door.clock.now_s += 9.9
    assert door.authenticator.authenticate({"x-api-key": short.key}).tenant == "ann"
    door.clock.now_s += 0.1
    assert "is expired" in str(door.refusal({"x-api-key": short.key}))


def test_a_tenants_bounds_come_with_its_caller(door: Door) -> None:
    made = door.key("user", tenant="ann")
    door.store.set_terms("ann", Terms(max_tokens=7, max_priority="batch"))

    caller = door.authenticator.authenticate({"x-api-key": made.key})

    assert caller.bounds == Bounds(max_tokens=7, priority=Priority.BATCH)
