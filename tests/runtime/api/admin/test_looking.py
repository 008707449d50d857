from __future__ import annotations

import logging

import httpx2
import pytest

from tests.runtime.api.admin.operated import RULES, Operated, messages


def nodes(client: httpx2.Client, **query: str | int) -> list[dict[str, object]]:
    answer = client.get("/admin/v1/tree", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, object]] = answer.json()["nodes"]
    return found


def test_the_tree_shows_whose_nodes_there_are_and_no_text(operated: Operated) -> None:
    operated.ask(operated.ann, x_session_id="s-1", x_agentkit_tags="clerk")
    operated.ask(operated.bob)
    shown = nodes(operated.root)
    assert {node["tenant"] for node in shown} == {"ann", "bob"}
    assert [node["sessions"] for node in shown if node["sessions"]] == [["s-1"]]
    assert [node["tags"] for node in shown if node["tags"]] == [["clerk"]]
    assert {node["medium"] for node in shown} == {"GPU"}
    assert not any("text" in node for node in shown)
    assert {node["tenant"] for node in nodes(operated.root, tenant="bob")} == {"bob"}


ANN_ROOT = {"Authorization": "Bearer ann-root"}


def test_text_is_shown_to_an_admin_of_its_tenant_who_asks_and_that_is_logged(
    operated: Operated, caplog: pytest.LogCaptureFixture
) -> None:
    operated.ask(operated.ann)
    with caplog.at_level(logging.WARNING):
        shown = operated.root.get(
            "/admin/v1/tree", params={"text": "1", "tenant": "ann"}, headers=ANN_ROOT
        ).text
    assert RULES in shown
    assert "key key-ann-root reads prompt text of tenant 'ann'" in caplog.text
    assert RULES not in caplog.text


@pytest.mark.parametrize(
    ("headers", "query"),
    [({}, {"tenant": "ann"}), ({}, {}), (ANN_ROOT, {"tenant": "bob"}), (ANN_ROOT, {})],
)
def test_to_steer_a_server_is_not_to_read_what_its_tenants_say(
    operated: Operated, headers: dict[str, str], query: dict[str, str]
) -> None:
    operated.ask(operated.ann)
    tree = operated.root.get("/admin/v1/tree", params={"text": "1", **query}, headers=headers)
    body = {"messages": messages("hello"), **query}
    asked = operated.root.post("/admin/v1/explain?text=1", json=body, headers=headers)
    for refused in (tree, asked):
        assert refused.status_code == 403
        assert RULES not in refused.text


@pytest.mark.parametrize("query", ["limit=0", "limit=5000", "depth=-1", "text=perhaps"])
def test_a_wrong_parameter_is_named(operated: Operated, query: str) -> None:
    answer = operated.root.get(f"/admin/v1/tree?{query}")
    assert answer.status_code == 400
    assert query.split("=")[0] in str(answer.json()["error"]["param"])


def test_sessions_say_how_often_they_asked(operated: Operated) -> None:
    for text in ("hello", "sunny"):
        operated.ask(operated.ann, text, x_session_id="s-2")
    operated.root.post(
        "/admin/v1/hints",
        json={"kind": "waits", "session": "s-2", "seconds": 60, "tenant": "ann"},
    )
    session, *_ = operated.root.get("/admin/v1/sessions", params={"tenant": "ann"}).json()["data"]
    assert (session["tenant"], session["session"], session["requests"]) == ("ann", "s-2", 2)
    assert session["expected"]
    assert session["tokens"] > 20


def test_the_state_adds_up_and_counts_hits(operated: Operated) -> None:
    operated.sampler.sample()
    before = operated.root.get("/admin/v1/state").json()["counts"]
    for _ in range(2):
        operated.ask(operated.ann)
    operated.sampler.sample()
    state = operated.root.get("/admin/v1/state", params={"history": 1}).json()
    pool = state["pool"]
    assert pool["free"] + pool["cached"] + pool["held"] == pool["total"] == 4096
    assert state["phase"] == "ready"
    assert state["pressure"]["index"] == 0.0
    assert state["counts"]["ended"]["stop"] >= 2
    (sample,) = state["history"]
    for name in ("prompt_tokens", "hit_tokens", "generated_tokens"):
        assert sample[name] == state["counts"][name] - before[name] > 0
    assert (sample["warm_requests"], sample["cold_requests"]) == (1, 1)
    assert operated.root.get("/admin/v1/state", params={"since": 2e9}).json()["history"] == []


def test_an_explanation_for_an_admin_has_text_only_when_asked_for(operated: Operated) -> None:
    operated.ask(operated.ann, "hello")
    body = {"messages": messages("is it sunny there?"), "tenant": "ann"}
    bare = operated.root.post("/admin/v1/explain", json=body).json()
    assert (bare["cause"], bare["place"]) == ("diverged", "messages[1]")
    assert not {"detail", "before", "asked", "cached"} & set(bare)
    full = operated.root.post("/admin/v1/explain?text=1", json=body, headers=ANN_ROOT).json()
    assert full["cached"].startswith("hello")


def test_a_tenant_learns_why_its_own_prompt_misses_and_nothing_of_others(
    operated: Operated,
) -> None:
    operated.ask(operated.ann, "secret: hello", with_rules=False)
    asked = [{"role": "user", "content": "secret: hello"}]
    body = {"model": "scripted", "messages": asked, "stream": True}
    own = operated.ann.post("/v1/agentkit/explain", json=body).json()
    assert own["cause"] == "cached"
    foreign = operated.bob.post("/v1/agentkit/explain", json=body).json()
    assert (foreign["cause"], foreign["cached_tokens"], foreign["cached"]) == ("never seen", 0, "")
    smuggled = operated.bob.post("/v1/agentkit/explain", json={**body, "tenant": "ann"}).json()
    assert (smuggled["cached_tokens"], smuggled["cached"]) == (0, "")
