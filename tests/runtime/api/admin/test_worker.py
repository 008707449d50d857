from __future__ import annotations

import pytest

from tests.runtime.api.admin.operated import Operated, messages


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


@pytest.mark.parametrize("path", ["/server_info", "/model_info", "/v1/loads"])
def test_what_all_tenants_do_together_is_for_admins(operated: Operated, path: str) -> None:
    assert operated.ann.get(path).status_code == 403
