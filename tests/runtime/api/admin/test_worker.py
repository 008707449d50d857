from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runtime.api.admin.operated import Operated, messages
from tests.runtime.service.scripted import BOUND_S, wait_until


def test_a_router_learns_which_model_this_is_and_how_much_fits(operated: Operated) -> None:
    server = operated.root.get("/server_info").json()
    assert server["served_model_name"] == server["model_id"] == "scripted"
    assert server["max_total_tokens"] == server["context_length"] == 4096
    assert operated.root.get("/model_info").json() == {
        "model_path": "scripted",
        "is_generation": True,
    }


def test_a_router_learns_what_there_is_to_do_now(operated: Operated) -> None:
    pace = operated.served.pace
    idle = operated.root.get("/v1/loads", params={"include": "core,queues"}).json()
    assert idle["dp_rank_count"] == 1
    assert idle["loads"][0]["num_total_reqs"] == idle["loads"][0]["num_used_tokens"] == 0
    pace.hold()
    body = {"model": "scripted", "messages": messages("novel"), "stream": True}
    try:
        with operated.ann.stream("POST", "/v1/chat/completions", json=body):
            pace.go()
            busy = idle["loads"][0]
            while not busy["num_used_tokens"]:
                (busy,) = operated.root.get("/v1/loads").json()["loads"]
    finally:
        pace.go()
    assert busy["num_running_reqs"] == busy["num_total_reqs"] == 1
    assert 0 < busy["token_usage"] < 0.1


def test_what_came_during_a_step_is_no_queue_to_a_router(operated: Operated) -> None:
    """Fault: a router took a burst for an overload, and sent nothing to its worker for 10 s."""
    pace, service = operated.served.pace, operated.served.service
    body = {"model": "scripted", "messages": messages("novel"), "max_tokens": 2}
    pace.hold()
    with ThreadPoolExecutor(4) as clients:
        try:
            asked = [clients.submit(operated.ann.post, "/v1/chat/completions", json=body)]
            assert pace.waiting.wait(BOUND_S)
            asked += [
                clients.submit(operated.ann.post, "/v1/chat/completions", json=body)
                for _ in range(3)
            ]
            wait_until(lambda: service.stats().waiting >= 3)
            (load,) = operated.root.get("/v1/loads").json()["loads"]
        finally:
            pace.go()
        assert [one.result().status_code for one in asked] == [200] * 4
    assert (load["num_waiting_reqs"], load["num_total_reqs"]) == (0, load["num_running_reqs"])


@pytest.mark.parametrize("path", ["/server_info", "/model_info", "/v1/loads"])
def test_what_all_tenants_do_together_is_for_admins(operated: Operated, path: str) -> None:
    assert operated.ann.get(path).status_code == 403
