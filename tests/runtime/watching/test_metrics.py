"""`/metrics`: what is counted, under which names, and that Prometheus can read it."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agentkit_runtime.watching import WatchOptions
from agentkit_runtime.watching.compat import SGLANG, VLLM, Page

from .conftest import MakeWatched, Watched


class Numbers:
    """A parsed page."""

    def __init__(self, server: Watched) -> None:
        answer = server.client.get("/metrics")
        assert answer.status_code == 200
        self.text = answer.text
        self.families = {f.name: f for f in text_string_to_metric_families(answer.text)}

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name with these labels."""
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert found, (name, labels)
        return sum(found)


def test_hits_and_misses_are_told_apart(watched: Watched) -> None:
    watched.chat("hello")
    before = Numbers(watched)
    watched.chat("hello there! " * 40)
    watched.chat("hello there! " * 40)
    after = Numbers(watched)

    def grown(name: str, **labels: str) -> float:
        return after(name, **labels) - before(name, **labels)

    assert grown("agentkit_time_to_first_token_seconds_count", cache="miss") == 1
    assert grown("agentkit_time_to_first_token_seconds_count", cache="hit") == 1
    assert grown("vllm:time_to_first_token_seconds_count", cache="hit") == 1
    queries = grown("vllm:prefix_cache_queries_total")
    assert queries == grown("vllm:prompt_tokens_total") > 60
    assert 0.4 * queries < grown("vllm:prefix_cache_hits_total") < 0.65 * queries
    assert grown("vllm:generation_tokens_total") == 2 * 7
    assert grown("vllm:request_success_total", finished_reason="stop") == 2
    assert grown("agentkit_cache_outcome_requests_total", cause="cached") == 1
    assert grown("agentkit_tenant_requests_total", tenant="default", outcome="done") == 2
    assert grown("agentkit_http_responses_total", route="/v1/chat/completions", status="200") == 2


def test_a_prompt_with_several_answers_counts_once_as_in_its_usage(watched: Watched) -> None:
    before = Numbers(watched)
    body = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "hello, all of you! " * 30}],
        "n": 4,
    }
    answer = watched.client.post("/v1/chat/completions", json=body)
    after = Numbers(watched)

    usage = answer.json()["usage"]
    hits = usage["prompt_tokens_details"]["cached_tokens"]
    for names, wanted in (
        (("vllm:prompt_tokens", "vllm:prefix_cache_queries"), usage["prompt_tokens"]),
        (("vllm:prefix_cache_hits", "agentkit_cached_tokens"), hits),
        (("vllm:generation_tokens",), usage["completion_tokens"]),
        (("vllm:request_success",), 4),
    ):
        for name in names:
            assert after(f"{name}_total") - before(f"{name}_total") == wanted, name
    assert hits < usage["prompt_tokens"] / 4


def test_what_a_router_reads_is_one_number_for_each_name(watched: Watched) -> None:
    """llm-d's endpoint picker takes the first sample of these."""
    numbers = Numbers(watched)
    for name in (
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        "vllm:kv_cache_usage_perc",
        "vllm:cache_config_info",
    ):
        [sample] = numbers.families[name].samples
        assert sample.labels["engine"] == "0"
    labels = numbers.families["vllm:cache_config_info"].samples[0].labels
    assert (labels["block_size"], labels["num_gpu_blocks"]) == ("16", str(4096 // 16))


def test_running_and_held_slots_are_seen_while_a_request_runs(watched: Watched) -> None:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "a novel"}]}
    stream = watched.client.stream("POST", "/v1/chat/completions", json={**body, "stream": True})
    with stream as answer:
        lines = answer.iter_lines()
        next(line for line in lines if "Once" in line)
        watched.pace.hold()
        assert watched.pace.waiting.wait(30)
        numbers = Numbers(watched)
        watched.pace.go()
    assert numbers("vllm:num_requests_running") == 1
    assert numbers("vllm:kv_cache_usage_perc") > 0
    assert numbers("agentkit_http_requests_open") == 2, "the stream, and this question"


@pytest.mark.parametrize(
    ("compat", "names", "others"),
    [("vllm", VLLM, SGLANG), ("sglang", SGLANG, VLLM), ("none", {}, VLLM)],
)
def test_names_of_another_server_stand_beside_ours(
    watched_server: MakeWatched, compat: Any, names: dict[str, str], others: dict[str, str]
) -> None:
    with watched_server(WatchOptions(metrics_compat=compat)) as server:
        server.chat("hello")
        numbers = Numbers(server)
    assert set(names.values()) <= set(numbers.families)
    assert set(names) <= set(numbers.families)
    assert not set(others.values()) & set(numbers.families)


def test_names_keep_their_colon_whatever_prometheus_would_accept(watched: Watched) -> None:
    """OpenMetrics 1.0 has no colons: the client library's writer would make `vllm_...` of them."""
    wanted = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5"
    answer = watched.client.get("/metrics", headers={"accept": wanted})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "\nvllm:num_requests_running{" in answer.text


def test_a_family_comes_once_and_has_no_creation_times(watched: Watched) -> None:
    text = Numbers(watched).text
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(types) == len(set(types))
    assert "_created" not in text


def test_labels_that_others_can_make_up_are_bounded(watched: Watched) -> None:
    for n in range(30):
        watched.client.get(f"/made-up-{n}")
    watched.client.request("BREW", "/made-up")
    text = Numbers(watched).text
    assert "made-up" not in text
    assert "BREW" not in text
    assert Numbers(watched)("agentkit_http_responses_total", route="none", status="404") == 31


def test_the_page_says_what_the_client_library_would_write() -> None:
    registry = CollectorRegistry()
    odd = 'a "quoted" back\\slash\nline'
    Counter("c", odd, ("label",), registry=registry).labels(odd).inc(3)
    Gauge("g", "No labels.", registry=registry).set(float("inf"))
    Histogram("h", "Buckets.", ("x",), buckets=(0.5, 1.0), registry=registry).labels("y").observe(1)
    theirs = text_string_to_metric_families(generate_latest(registry).decode())
    ours = text_string_to_metric_families(Page((registry,), "none").write().decode())
    assert list(ours) == [family for family in theirs if not family.name.endswith("_created")]


def test_each_endpoint_is_counted_under_the_path_that_it_is_documented_by(watched: Watched) -> None:
    documented = watched.client.get("/openapi.json").json()["paths"]
    for path, methods in documented.items():
        for method in methods.keys() - {"get"}:
            watched.client.request(method, path, content=b"no JSON")
    counted = {
        sample.labels["route"].replace(":path}", "}")
        for family in Numbers(watched).families.values()
        for sample in family.samples
        if sample.name == "agentkit_http_responses_total"
    }
    assert {"/v1/responses", "/v1/completions", "/v1/messages"} <= counted
    assert counted <= {*documented, "/openapi.json", "/metrics", "none"}
