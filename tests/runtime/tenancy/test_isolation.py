"""Two tenants, every endpoint, every tier: nobody finds anything of somebody else's."""

from __future__ import annotations

import pytest

from tests.runtime.tenancy.house import House
from tests.runtime.tenancy.isolation_cases import (
    CASES,
    NOBODYS,
    OPEN,
    Scene,
    all_routes,
    leave_traces,
    still_there,
)


@pytest.fixture(scope="module")
def scene(house: House) -> Scene:
    return Scene(house=house, traces=leave_traces(house))


def is_admins(path: str) -> bool:
    return path.startswith("/admin/") or path == "/metrics"


def is_open(path: str) -> bool:
    """Probes, and the files of the dashboard, which asks for a key itself."""
    return path in OPEN or path == "/ui" or path.startswith("/ui/")


def test_every_endpoint_has_a_case(house: House) -> None:
    routes = set(all_routes(house.app.routes))
    told = {
        (method, path)
        for method, path in routes
        if not (is_admins(path) or is_open(path) or path in NOBODYS)
    }

    assert told - CASES.keys() == set(), "add a case for these to isolation_cases.py"
    assert CASES.keys() - told == set(), "these endpoints are gone"


@pytest.mark.parametrize("route", sorted(CASES), ids=" ".join)
def test_one_tenant_finds_nothing_of_another(scene: Scene, route: tuple[str, str]) -> None:
    flushed = scene.house.root.post("/admin/v1/flush", json={"tenant": "bob"})
    assert flushed.status_code == 200, flushed.text

    CASES[route](scene)

    still_there(scene)


def test_nothing_but_probes_is_served_without_a_key(house: House) -> None:
    for method, path in all_routes(house.app.routes):
        answer = house.nobody.request(method, path)
        assert (answer.status_code == 401) != is_open(path), (method, path)


def test_the_dashboards_files_are_the_same_for_everybody(house: House, scene: Scene) -> None:
    files = [path for _, path in all_routes(house.app.routes) if path.startswith("/ui/")]

    for path in files:
        assert house.nobody.get(path).content == house.ann.get(path).content
        assert "xylophone" not in house.nobody.get(path).text


def test_no_tenants_key_opens_an_admins_endpoint(house: House) -> None:
    asked = [route for route in all_routes(house.app.routes) if is_admins(route[1])]

    assert len(asked) > 15
    for method, path in asked:
        for headers in ({}, {"x-agentkit-tenant": "(operator)"}):
            answer = house.bob.request(method, path, headers=headers)
            assert answer.status_code == 403, (method, path)
            assert answer.json()["error"]["code"] == "permission_denied"


def test_an_admins_key_asks_no_model_and_reads_no_tenants_own(house: House) -> None:
    for method, path in (
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/messages"),
        ("GET", "/v1/agentkit/pins"),
        ("GET", "/v1/agentkit/requests"),
    ):
        body = {
            "model": "scripted",
            "max_tokens": 1,
            "messages": [{"role": "user", "content": "hello"}],
        }
        answer = house.root.request(method, path, json=body if method == "POST" else None)
        assert answer.status_code == 403, (method, path, answer.text)
