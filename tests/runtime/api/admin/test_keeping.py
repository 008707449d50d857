from __future__ import annotations

import pytest

from tests.runtime.api.admin.operated import Operated, messages

PREFIX = {"messages": messages()}


def test_a_pin_is_made_listed_and_ended(operated: Operated) -> None:
    body = {**PREFIX, "tenant": "ann", "ttl_s": 60.0, "name": "rules"}
    pin = operated.root.post("/admin/v1/pins", json=body).json()
    assert (pin["tenant"], pin["name"], pin["ttl_s"]) == ("ann", "rules", 60.0)
    (listed,) = operated.root.get("/admin/v1/pins", params={"tenant": "ann"}).json()["data"]
    assert listed["handle"] == pin["handle"]
    assert 0 < listed["expires_in_s"] <= 60
    assert operated.root.get("/admin/v1/pins", params={"tenant": "bob"}).json()["data"] == []
    shown = operated.root.get("/admin/v1/tree").json()["nodes"]
    assert sum(node["tokens"] for node in shown if node["pinned"]) == pin["tokens"]
    ended = operated.root.delete(f"/admin/v1/pins/{pin['handle']}")
    assert ended.json() == {"handle": pin["handle"], "ended": True}
    again = operated.root.delete(f"/admin/v1/pins/{pin['handle']}")
    assert again.status_code == 404
    assert again.json()["error"]["code"] == "pin_not_found"


def test_pre_warming_for_a_tenant_makes_its_first_request_warm(operated: Operated) -> None:
    done = operated.root.post("/admin/v1/prewarm", json={**PREFIX, "tenant": "ann"}).json()
    assert done["cached_tokens"] == 0
    assert done["pin"] is None
    assert operated.cached(operated.ann) == done["tokens"]
    assert operated.cached(operated.bob) == 0


def test_a_tenant_pre_warms_and_pins_for_itself_only(operated: Operated) -> None:
    done = operated.ann.post("/v1/agentkit/prewarm", json={**PREFIX, "pin": True}).json()
    assert done["cached_tokens"] == 0
    handle = done["pin"]["handle"]
    assert operated.ann.post("/v1/agentkit/prewarm", json=PREFIX).json()["cached_tokens"] > 20
    assert [pin["handle"] for pin in operated.ann.get("/v1/agentkit/pins").json()["data"]] == [
        handle
    ]
    assert operated.bob.get("/v1/agentkit/pins").json()["data"] == []
    for attempt in (
        operated.bob.delete(f"/v1/agentkit/pins/{handle}"),
        operated.bob.post("/v1/agentkit/prune", json={"by": "pin", "pin": handle}),
    ):
        assert attempt.status_code == 404
    assert operated.cached(operated.bob) == 0
    assert operated.ann.delete(f"/v1/agentkit/pins/{handle}").status_code == 200


def test_a_tenant_cannot_pin_more_than_its_quota(operated: Operated) -> None:
    long = [{"role": "system", "content": "rule " * 1_200}]
    answer = operated.ann.post("/v1/agentkit/prewarm", json={"messages": long, "pin": True})
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "pin_quota_exceeded"


def test_pre_warming_goes_through_the_gate(operated: Operated) -> None:
    operated.root.post("/admin/v1/drain")
    try:
        answer = operated.ann.post("/v1/agentkit/prewarm", json=PREFIX)
        assert answer.status_code == 503
        assert "Retry-After" in answer.headers
    finally:
        operated.root.delete("/admin/v1/drain")


def test_a_published_prefix_warms_everybody_until_it_is_taken_back(operated: Operated) -> None:
    done = operated.root.post("/admin/v1/published", json=PREFIX).json()
    assert operated.root.get("/admin/v1/published").json()["data"] == [done]
    assert operated.cached(operated.ann) == operated.cached(operated.bob) == done["tokens"]
    refused = operated.root.post(
        "/admin/v1/prune", json={"by": "tenant", "tenant": "nobody", "dry_run": True}
    )
    assert refused.status_code == 200
    handle = done["handle"]
    assert operated.root.delete(f"/admin/v1/published/{handle}").json()["ended"]
    assert operated.root.delete(f"/admin/v1/published/{handle}").status_code == 404
    assert operated.cached(operated.bob) == 0


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({**PREFIX, "ttl_s": 5.0}, "ttl_s"),
        ({**PREFIX, "pin": True, "ttl_s": 0}, "ttl_s"),
        ({**PREFIX, "pin": True, "ttl_seconds": 5}, "ttl_seconds"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "\ud800"}]}, "surrogate"),
        ({**PREFIX, "tenant": "bob"}, "tenant"),
    ],
)
def test_what_would_do_nothing_or_harm_is_refused(
    operated: Operated, body: dict[str, object], named: str
) -> None:
    import json

    answer = operated.ann.post(
        "/v1/agentkit/prewarm",
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert named in f"{error['param']} {error['message']}"


def test_a_node_of_the_tree_is_pinned_and_pruned_with_what_follows(operated: Operated) -> None:
    operated.ask(operated.ann, "hello")
    operated.ask(operated.ann, "sunny")
    nodes = operated.root.get("/admin/v1/tree").json()["nodes"]
    (shared,) = (node for node in nodes if node["children"] == 2)
    branch = {"node": shared["id"], "end": shared["start"] + shared["tokens"], "tenant": "ann"}

    pin = operated.root.post("/admin/v1/tree/pin", json={**branch, "name": "rules"}).json()

    assert (pin["name"], pin["tokens"]) == ("rules", branch["end"])
    nodes = operated.root.get("/admin/v1/tree").json()["nodes"]
    assert [node["pins"] for node in nodes if node["pinned"] and node["tokens"]] == [
        [pin["handle"]]
    ]
    would = operated.root.post("/admin/v1/tree/prune", json={**branch, "dry_run": True}).json()
    did = operated.root.post("/admin/v1/tree/prune", json=branch).json()
    assert would == {**did, "dry_run": True}
    assert (did["pins"], did["nodes"]) == (1, 3)
    gone = operated.root.post("/admin/v1/tree/prune", json=branch)
    assert (gone.status_code, gone.json()["error"]["code"]) == (409, "not_cached")
    assert operated.ann.post("/admin/v1/tree/prune", json=branch).status_code == 403
