"""What operators of a running server do to tenants by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from agentkit_runtime.tenancy.store import KeyStore
from agentkit_runtime.tenancy.terms import UNLIMITED, Terms
from tests.runtime.tenancy.house import House, ask

CONFIG = "/admin/v1/config"
RULES = [{"role": "system", "content": "Be brief."}]


@pytest.fixture
def ours(house: House) -> Iterator[House]:
    """The house; the terms of its tenants end with the test."""
    yield house
    for tenant in ("ann", "bob"):
        house.store.set_terms(tenant, UNLIMITED)


def test_weights_are_kept_in_the_key_store_with_all_other_terms(ours: House) -> None:
    ours.store.set_terms("ann", Terms(max_tokens=5))
    ours.store.set_terms("bob", Terms(weight=7.0))

    changed = ours.root.patch(CONFIG, json={"tenant_weights": {"ann": 3}})

    assert changed.json() == {"tenant_weights": {"ann": 3.0, "bob": 1.0}, "kept": "key_store"}
    with KeyStore(ours.store.path) as as_the_next_server_sees_it:
        assert as_the_next_server_sees_it.terms("ann") == Terms(max_tokens=5, weight=3.0)
    ours.store.set_terms("bob", Terms(max_tokens=9))
    assert ask(ours.ann).status_code == 200  # the server has seen the change
    assert ours.root.get(CONFIG).json()["tenant_weights"] == {"ann": 3.0, "bob": 1.0}


@pytest.mark.parametrize(
    ("weights", "status", "said"),
    [
        ({"ann": 2, "bbo": 2}, 404, "no tenant 'bbo'; did you mean 'bob'?"),
        ({"ann": 2, "bob": 1e9}, 400, "weight: "),
        ({"ann": 0}, 400, "greater than 0"),
    ],
)
def test_weights_that_are_wrong_change_none(
    ours: House, weights: dict[str, float], status: int, said: str
) -> None:
    before = ours.store.snapshot().terms
    refused = ours.root.patch(CONFIG, json={"tenant_weights": weights})

    assert refused.status_code == status
    assert said in refused.json()["error"]["message"]
    assert ours.store.snapshot().terms == before


def test_a_store_that_cannot_be_written_is_said(
    ours: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: KeyStore, weights: object) -> None:
        with self._asked():
            raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(KeyStore, "set_weights", refuse)
    refused = ours.root.patch(CONFIG, json={"tenant_weights": {"ann": 2}})

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "key_store")
    assert "nothing was changed" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("prewarm", {"messages": RULES}),
        ("pins", {"messages": RULES}),
        ("explain", {"messages": RULES}),
        ("prune", {"by": "tenant"}),
        ("prune", {"by": "tag", "tag": "t"}),
        ("hints", {"kind": "done", "session": "s"}),
        ("flush", {}),
        ("tree/prune", {"node": 1, "end": 1}),
        ("tree/pin", {"node": 1, "end": 1}),
        *((path, None) for path in ("tree", "sessions", "pins")),
    ],
)
def test_a_tenant_that_nobody_has_heard_of_is_told_with_the_nearest(
    ours: House, path: str, body: dict[str, object] | None
) -> None:
    def send(tenant: str) -> tuple[int, str]:
        if body is None:
            answer = ours.root.get(f"/admin/v1/{path}", params={"tenant": tenant})
        else:
            answer = ours.root.post(f"/admin/v1/{path}", json={**body, "tenant": tenant})
        return answer.status_code, answer.text

    status, text = send("anne")
    assert (status, "did you mean 'ann'? There are: ann, bob" in text) == (404, True)
    assert send("ann")[0] in (200, 409)


def test_who_names_a_pin_need_not_name_its_tenant(ours: House) -> None:
    pin = ours.root.post("/admin/v1/pins", json={"messages": RULES, "tenant": "ann"}).json()
    done = ours.root.post("/admin/v1/prune", json={"by": "pin", "pin": pin["handle"]})
    assert (done.status_code, done.json()["pins"]) == (200, 1)
