from __future__ import annotations

import pytest

from tests.runtime.api.admin.operated import Operated, messages


def prune(operated: Operated, **body: object) -> dict[str, object]:
    answer = operated.root.post("/admin/v1/prune", json=body)
    assert answer.status_code == 200, answer.text
    report: dict[str, object] = answer.json()
    return report


@pytest.mark.parametrize(
    "selector",
    [
        {"by": "tenant", "tenant": "ann"},
        {"by": "session", "session": "s", "tenant": "ann"},
        {"by": "tag", "tag": "clerk", "tenant": "ann"},
        {"by": "prefix", "messages": messages(), "tenant": "ann"},
    ],
    ids=lambda selector: str(selector["by"]),
)
def test_a_dry_run_says_what_a_prune_then_does(
    operated: Operated, selector: dict[str, object]
) -> None:
    for client in (operated.ann, operated.bob):
        operated.ask(client, x_session_id="s", x_agentkit_tags="clerk")
    planned = prune(operated, **selector, dry_run=True)
    assert planned.pop("dry_run") is True
    done = prune(operated, **selector)
    assert done.pop("dry_run") is False
    assert planned == done
    assert isinstance(done["freed_tokens"], int)
    assert done["freed_tokens"] > 20
    assert operated.cached(operated.ann) == 0
    assert operated.cached(operated.bob) > 20


def test_a_pin_and_a_namespace_can_be_pruned(operated: Operated) -> None:
    body = {"messages": messages(), "tenant": "ann"}
    pin = operated.root.post("/admin/v1/pins", json=body).json()
    done = prune(operated, by="pin", pin=pin["handle"])
    assert (done["pins"], done["freed_tokens"]) == (1, pin["tokens"])
    assert prune(operated, by="namespace", namespace="ab" * 32)["nodes"] == 0
    gone = operated.root.post("/admin/v1/prune", json={"by": "pin", "pin": pin["handle"]})
    assert gone.status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"by": "session"},
        {"by": "tenant", "session": "s"},
        {"by": "tag", "tag": "t", "tools": []},
        {"by": "prefix"},
        {"by": "everything"},
        {"by": "tenant", "dryrun": True},
        {"by": "namespace", "namespace": "xyz"},
    ],
)
def test_a_prune_that_is_not_said_exactly_is_refused(
    operated: Operated, body: dict[str, object]
) -> None:
    assert operated.root.post("/admin/v1/prune", json=body).status_code == 400


def test_what_is_in_use_is_forgotten_when_it_no_longer_is(operated: Operated) -> None:
    pace = operated.served.pace
    pace.hold()
    body = {"model": "scripted", "messages": messages("hello"), "stream": True}
    try:
        with operated.ann.stream("POST", "/v1/chat/completions", json=body) as stream:
            assert pace.waiting.wait(30)
            pace.go()
            report = prune(operated, by="tenant", tenant="ann")
            for _ in stream.iter_bytes():
                pass
    finally:
        pace.go()
    assert stream.status_code == 200
    assert isinstance(report["condemned_tokens"], int)
    assert operated.cached(operated.ann) in (0, report["freed_tokens"])


def test_a_tenant_is_flushed_alone_and_everything_together(operated: Operated) -> None:
    for client in (operated.ann, operated.bob):
        operated.ask(client)
    done = operated.root.post("/admin/v1/flush", json={"tenant": "ann"}).json()
    assert done["freed_tokens"] > 20
    assert operated.cached(operated.bob) > 20
    operated.root.post("/admin/v1/flush", json={"all": True})
    assert operated.root.get("/admin/v1/tree").json()["total_tokens"] == 0


@pytest.mark.parametrize("body", [{}, {"all": False}, {"all": True, "tenant": "ann"}])
def test_a_flush_says_what_it_means(operated: Operated, body: dict[str, object]) -> None:
    refused = operated.root.post("/admin/v1/flush", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "say either tenant or all: true"


def test_a_tenant_prunes_its_own_and_no_others(operated: Operated) -> None:
    for client in (operated.ann, operated.bob):
        operated.ask(client, x_session_id="s")
    done = operated.ann.post("/v1/agentkit/prune", json={"by": "tenant"}).json()
    assert done["freed_tokens"] > 20
    assert operated.cached(operated.bob) > 20
    for body in ({"by": "tenant", "tenant": "bob"}, {"by": "namespace", "namespace": "ab"}):
        assert operated.ann.post("/v1/agentkit/prune", json=body).status_code == 400


def test_after_the_key_was_replaced_everybody_is_cold(operated: Operated) -> None:
    operated.ask(operated.ann)
    done = operated.root.post("/admin/v1/namespace-key", json={})
    assert done.json() == {"done": True}
    assert operated.cached(operated.ann) == 0
    key = "0f" * 32
    assert operated.root.post("/admin/v1/namespace-key", json={"key": key}).status_code == 200
    again = operated.root.post("/admin/v1/namespace-key", json={"key": key})
    assert again.status_code == 400
    for wrong in (again, operated.root.post("/admin/v1/namespace-key", json={"key": "0f0f"})):
        assert wrong.status_code == 400
        assert "0f0f" not in wrong.text


def test_a_flush_forgets_stored_responses_of_the_tenant(operated: Operated) -> None:
    body = {"model": "scripted", "input": "hello"}
    kept = {
        client: client.post("/v1/responses", json=body).json()["id"]
        for client in (operated.ann, operated.bob)
    }

    operated.root.post("/admin/v1/flush", json={"tenant": "ann"})

    found = [client.get(f"/v1/responses/{name}").status_code for client, name in kept.items()]
    assert found == [404, 200]
