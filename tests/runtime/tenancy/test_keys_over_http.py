"""Keys of requests, over HTTP: two at once, and one that ends while it is in use."""

from __future__ import annotations

import httpx2

from tests.runtime.service.scripted import BOUND_S
from tests.runtime.tenancy.house import House, ask


def test_of_two_keys_in_headers_of_one_name_none_is_let_in(house: House) -> None:
    ann, root = house.keys["ann"], house.keys["root"]
    for name, before in (("Authorization", "Bearer "), ("x-api-key", "")):
        headers = [(name, before + ann), (name, before + root)]
        for sent in (headers, headers[::-1]):
            answer = house.nobody.get("/v1/models", headers=sent)
            assert answer.status_code == 401
            assert ann not in answer.text
            assert root not in answer.text


def test_a_revoked_key_follows_no_more_events(house: House) -> None:
    made = house.store.add(roles=frozenset({"admin"}), tenant=None, now_s=0.0)
    headers = {"Authorization": f"Bearer {made.key}"}
    with (
        httpx2.Client(base_url=house.url, headers=headers, timeout=BOUND_S) as client,
        client.stream("GET", "/admin/v1/kv-events") as events,
    ):
        assert events.status_code == 200
        lines = events.iter_lines()
        ask(house.ann, system="Before it was revoked.")
        assert next(lines).startswith("id: ")
        while next(lines):
            pass
        house.store.revoke(made.record.id, now_s=1.0)
        ask(house.ann, system="What came after it was revoked.")
        ask(house.ann, system="And what came after that.")
        rest = [line for line in lines if line.startswith("id: ")]
    assert len(rest) <= 2, "what was on its way when the key ended"
