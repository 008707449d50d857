from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from fastapi.routing import APIRoute

from agentkit_runtime.api import create_app
from agentkit_runtime.api.admin import AdminParts, admin_routes, own_routes
from agentkit_runtime.api.answering import Answering
from agentkit_runtime.api.site import Site
from tests.runtime.api.admin.operated import Operated
from tests.runtime.api.serving import serving_app

Endpoint = tuple[str, str]


def endpoints(operated: Operated) -> Iterator[tuple[str, Endpoint]]:
    service = operated.served.service
    site = Site(
        service=service,
        answering=Answering(service=service),
        model_ids=("scripted",),
        clock=lambda: 0.0,
        started_s=0.0,
    )
    for role, router in (("admin", admin_routes(AdminParts())(site)), ("user", own_routes(site))):
        for route in router.routes:
            assert isinstance(route, APIRoute)
            for method in route.methods:
                yield role, (method, route.path.replace("{handle}", "pin-1"))


BODIES: dict[str, dict[str, object]] = {
    "prewarm": {"messages": [{"role": "user", "content": "hello"}]},
    "pins": {"messages": [{"role": "user", "content": "hello"}]},
    "published": {"messages": [{"role": "user", "content": "hello"}]},
    "explain": {"messages": [{"role": "user", "content": "hello"}]},
    "prune": {"by": "tenant"},
    "flush": {"all": True},
    "hints": {"kind": "done", "session": "s"},
}


def test_every_endpoint_needs_its_role(operated: Operated) -> None:
    seen = list(endpoints(operated))
    assert len(seen) > 25
    clients = {"admin": operated.root, "user": operated.ann}
    for role, (method, path) in seen:
        other = clients["user" if role == "admin" else "admin"]
        body = BODIES.get(path.split("/")[3], {})
        refused = other.request(method, path, json=body)
        assert refused.status_code == 403, (method, path)
        assert refused.json()["error"]["code"] == "permission_denied"
        stranger = other.request(method, path, json=body, headers={"Authorization": "Bearer eve"})
        assert stranger.status_code == 401, (method, path)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "waits", "session": "s", "seconds": 5},
        {"kind": "done", "session": "s"},
        {"kind": "likely_next", "tags": ["clerk"], "seconds": 5.5},
    ],
)
def test_hints_are_taken_from_tenants_and_operators(
    operated: Operated, body: dict[str, object]
) -> None:
    operated.ask(operated.ann, x_session_id="s", x_agentkit_tags="clerk")
    assert operated.ann.post("/v1/agentkit/hints", json=body).json() == {"done": True}
    admins = {**body, "tenant": "ann"}
    assert operated.root.post("/admin/v1/hints", json=admins).json() == {"done": True}
    session, *_ = operated.root.get("/admin/v1/sessions", params={"tenant": "ann"}).json()["data"]
    assert (session["expected"], session["done"]) == (
        body["kind"] != "done",
        body["kind"] == "done",
    )


def test_a_hint_reaches_no_other_tenant(operated: Operated) -> None:
    operated.ask(operated.ann, x_session_id="s")
    operated.bob.post("/v1/agentkit/hints", json={"kind": "done", "session": "s"})
    session, *_ = operated.root.get("/admin/v1/sessions", params={"tenant": "ann"}).json()["data"]
    assert not session["done"]


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "waits", "session": "s"},
        {"kind": "done", "session": "s", "seconds": 1},
        {"kind": "likely_next", "session": "s", "seconds": 1},
        {"kind": "waits", "session": "s", "seconds": -1},
        {"kind": "gone", "session": "s"},
    ],
)
def test_a_hint_that_says_too_much_or_too_little_is_refused(
    operated: Operated, body: dict[str, object]
) -> None:
    assert operated.ann.post("/v1/agentkit/hints", json=body).status_code == 400


def test_a_drained_server_lets_nobody_in_until_that_is_ended(operated: Operated) -> None:
    assert operated.root.post("/admin/v1/drain").json() == {"phase": "draining", "inside": 0}
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    assert operated.ann.post("/v1/chat/completions", json=body).status_code == 503
    assert operated.root.get("/health").status_code == 503
    assert operated.root.get("/admin/v1/state").json()["phase"] == "draining"
    assert operated.root.delete("/admin/v1/drain").json() == {"phase": "ready", "inside": 0}
    assert operated.ann.post("/v1/chat/completions", json=body).status_code == 200


def test_a_server_that_has_not_begun_is_not_made_ready_by_the_end_of_a_drain(
    operated: Operated,
) -> None:
    operated.lifecycle.phase = "starting"
    try:
        assert operated.root.delete("/admin/v1/drain").status_code == 409
    finally:
        operated.lifecycle.phase = "ready"


def test_weights_change_while_the_server_runs(operated: Operated) -> None:
    before = operated.root.get("/admin/v1/config").json()
    try:
        changed = operated.root.patch(
            "/admin/v1/config", json={"tenant_weights": {"ann": 3.0, "bob": 1}}
        )
        assert changed.json() == {"tenant_weights": {"ann": 3.0, "bob": 1.0}, "kept": "process"}
        assert operated.root.patch("/admin/v1/config", json={}).json() == changed.json()
        for wrong in ({"tenant_weights": {"ann": 0}}, {"tenant_weight": {}}):
            assert operated.root.patch("/admin/v1/config", json=wrong).status_code == 400
        assert operated.root.get("/admin/v1/config").json() == changed.json()
    finally:
        before.pop("kept")
        operated.root.patch("/admin/v1/config", json=before)


def test_a_server_without_the_parts_for_it_says_so(operated: Operated) -> None:
    app = create_app(operated.served.service, more=(admin_routes(AdminParts()),))
    with serving_app(app) as (url, _), httpx2.Client(base_url=url) as client:
        state = client.get("/admin/v1/state").json()
        assert (state["history"], state["phase"], state["pressure"]) == ([], None, None)
        refused = client.post("/admin/v1/drain")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_lifecycle")
