"""The last requests: what each cost, why it missed, and who may see it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentkit_runtime.watching import WatchOptions
from agentkit_runtime.watching.last import MAX_TENANTS, LastRequests
from agentkit_runtime.watching.record import RequestRecord
from tests.runtime.service.scripted import wait_until

from .conftest import Keys, MakeWatched, Watched, as_

OWN = "/v1/agentkit/requests"


@pytest.fixture(scope="module")
def shared(watched_server: MakeWatched) -> Iterator[Watched]:
    """A server with keys."""
    with watched_server(WatchOptions(last_requests=16), authenticator=Keys()) as server:
        yield server


def test_a_request_shows_what_it_cost_and_why_it_missed(watched: Watched) -> None:
    text = "hello " * 60
    watched.chat(text, headers={"x-session-id": "s-1", "x-agentkit-priority": "interactive"})
    watched.chat(text, headers={"x-request-id": "mine-1"})
    watched.chat(text.replace("hello", "Hello", 1), headers={"x-request-id": "mine-2"})
    changed, again, first = watched.rows(limit=3)
    assert first["session"] == "s-1"
    assert first["priority"] == "interactive"
    assert first["endpoint"] == "/v1/chat/completions"
    assert first["id"].startswith("chatcmpl-")
    assert first["request_id"].startswith("req_")
    assert (first["outcome"], first["status"], first["finish"]) == ("done", 200, ["stop"])
    assert first["missed"] in ("never seen", "diverged")
    assert first["cached_tokens"] < 40 < first["prompt_tokens"]
    assert again["request_id"] == "mine-1"
    assert again["missed"] == "cached"
    assert again["cached_tokens"] == again["prompt_tokens"] - 1
    assert again["completion_tokens"] == 7
    assert changed["missed"] == "diverged"
    assert changed["cached_tokens"] < 40
    assert 0 < again["ttft_s"] <= again["seconds"]
    engine_s = again["queue_s"] + again["prefill_s"] + again["decode_s"]
    assert 0 < engine_s <= again["seconds"]


def test_what_was_evicted_is_told_from_what_is_new(watched_server: MakeWatched) -> None:
    with watched_server(n_slots=600) as server:
        for text in ("hello " * 400, "hello a " * 200, "hello " * 400):
            assert server.chat(text).status_code == 200
        last = server.rows()[0]
        page = server.client.get("/metrics").text
    assert last["missed"] == "evicted"
    assert last["lost_tokens"] > 200

    def number(name: str) -> float:
        [line] = [line for line in page.splitlines() if line.startswith(f"{name}{{")]
        return float(line.split()[-1])

    assert number("agentkit_lost_tokens_total") == last["lost_tokens"]
    share = last["lost_tokens"] / number("agentkit_prefill_tokens_total")
    assert number("agentkit_cache_thrash_ratio") == pytest.approx(share)


def test_a_client_that_vanishes_leaves_an_aborted_request(watched: Watched) -> None:
    n_before = watched.watching.last.page()["last"]
    body = {"model": "scripted", "messages": [{"role": "user", "content": "a novel"}]}
    with watched.client.stream(
        "POST", "/v1/chat/completions", json={**body, "stream": True}
    ) as answer:
        lines = answer.iter_lines()
        next(line for line in lines if "Once" in line)
    wait_until(lambda: watched.watching.last.page()["last"] > n_before)
    gone = watched.rows(limit=1)[0]
    assert (gone["outcome"], gone["status"], gone["finish"]) == ("gone", 499, ["abort"])
    assert gone["ttft_s"] > 0
    assert gone["decode_s"] is None, "the engine's own numbers never came"


def test_what_cannot_be_served_is_there_with_its_code(watched: Watched) -> None:
    assert watched.chat("hello " * 5000).status_code == 400
    refused = watched.rows(limit=1)[0]
    assert (refused["outcome"], refused["status"]) == ("refused", 400)
    assert refused["code"] == "context_length_exceeded"
    assert refused["finish"] == []


def test_tenants_see_their_own_requests_only_and_numbered_apart(shared: Watched) -> None:
    for name in ("red", "blue", "blue", "red"):
        assert shared.chat("hello", headers=as_(name)).status_code == 200
    for name in ("red", "blue"):
        page = shared.client.get(OWN, headers=as_(name)).json()
        assert {row["tenant"] for row in page["requests"]} == {name}
        assert [row["number"] for row in page["requests"]] == [2, 1]
        assert page["last"] == 2
        assert page["requests"][0]["key_id"] == f"key_{name}"
    everything = shared.client.get("/admin/v1/requests", headers=as_("admin")).json()
    assert [row["tenant"] for row in everything["requests"]] == ["red", "blue", "blue", "red"]


def test_a_poll_gets_only_what_is_new(shared: Watched) -> None:
    before = shared.client.get(OWN, headers=as_("red")).json()["last"]
    shared.chat("hello", headers=as_("red"))
    page = shared.client.get(OWN, params={"after": before}, headers=as_("red")).json()
    assert [row["number"] for row in page["requests"]] == [before + 1]
    page = shared.client.get(OWN, params={"after": before + 1}, headers=as_("red")).json()
    assert page == {"requests": [], "last": before + 1}


@pytest.mark.parametrize(
    ("path", "who", "status"),
    [
        ("/metrics", "red", 403),
        ("/metrics", "nobody", 401),
        ("/metrics", "admin", 200),
        ("/admin/v1/requests", "red", 403),
        ("/admin/v1/requests", "nobody", 401),
        (OWN, "nobody", 401),
        (OWN, "admin", 403),
        (f"{OWN}?limit=0", "red", 400),
        (f"{OWN}?after=-1", "red", 400),
    ],
)
def test_who_may_see_what(shared: Watched, path: str, who: str, status: int) -> None:
    assert shared.client.get(path, headers=as_(who)).status_code == status


def test_metrics_can_be_opened_to_scrapers_without_a_key(watched_server: MakeWatched) -> None:
    options = WatchOptions(open_metrics=True)
    with watched_server(options, authenticator=Keys()) as server:
        server.chat("hello", headers=as_("red"))
        page = server.client.get("/metrics")
        assert server.client.get("/admin/v1/requests").status_code == 401
    assert page.status_code == 200
    assert '"red"' not in page.text, "tenants are named only where that is asked for"


def test_a_busy_tenant_drives_out_nobodys_requests() -> None:
    last = LastRequests(kept=8, kept_by_tenant=4)
    last.add(record("quiet"))
    for _ in range(100):
        last.add(record("busy"))
    assert len(last.page()["requests"]) == 8
    assert len(last.page(tenant="busy")["requests"]) == 4
    assert [row["number"] for row in last.page(tenant="quiet")["requests"]] == [1]
    assert last.page(tenant="unknown") == {"requests": [], "last": 0}


def test_tenants_that_come_and_go_are_forgotten_in_the_end() -> None:
    last = LastRequests(kept=8, kept_by_tenant=4)
    for n in range(MAX_TENANTS + 1):
        last.add(record(f"tenant-{n}"))
    assert last.page(tenant="tenant-0")["requests"] == []
    assert last.page(tenant="tenant-1")["last"] == 1


def record(tenant: str) -> RequestRecord:
    return RequestRecord(
        request_id="r",
        id="i",
        endpoint="/v1/chat/completions",
        tenant=tenant,
        key_id=None,
        session=None,
        priority="normal",
        began_unix_s=0.0,
        outcome="done",
        status=200,
        code=None,
        finish=("stop",),
        seconds=1.0,
        ttft_s=0.5,
    )
