"""Tenants are held to their terms, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator

import anthropic
import openai
import pytest

from agentkit_runtime.tenancy.terms import UNLIMITED, Terms
from tests.runtime.service.scripted import BOUND_S, wait_until
from tests.runtime.tenancy.house import House, ask


@pytest.fixture
def ann(house: House) -> Iterator[House]:
    """The house, with terms of ann's that end with the test, and what she used of them, too."""
    yield house
    house.store.set_terms("ann", UNLIMITED)
    assert house.ann.get("/v1/models").status_code == 200  # the server has seen it


def limit(house: House, **terms: object) -> None:
    house.store.set_terms("ann", Terms.model_validate(terms))


def test_tenants_without_terms_are_not_told_of_any(house: House) -> None:
    answer = ask(house.bob)

    assert answer.status_code == 200
    assert not [name for name in answer.headers if "ratelimit" in name]


def test_requests_above_the_rate_are_refused_with_when_to_come_again(ann: House) -> None:
    limit(ann, requests_per_minute=2)

    answers = [ask(ann.ann) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answers] == list("100")
    assert {answer.headers["x-ratelimit-limit-requests"] for answer in answers} == {"2"}
    assert re.fullmatch(r"1m0s|[56]\ds", answers[2].headers["x-ratelimit-reset-requests"])
    assert 25 <= int(answers[2].headers["retry-after"]) <= 30
    error = answers[2].json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert ask(ann.bob).status_code == 200


def test_tokens_count_when_they_are_computed_and_cached_ones_are_free(ann: House) -> None:
    limit(ann, tokens_per_minute=100_000)
    before = ann.service.stats().scheduler.computed.get("ann", 0)
    counts = []
    for _ in range(2):
        answer = ask(ann.ann, system="Ann pays for this once.")
        now = ann.service.stats().scheduler.computed["ann"]
        counts.append((answer.json()["usage"], now - before))
        before = now

    for usage, computed in counts:
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        # The last token is chosen and never computed.
        assert computed == usage["prompt_tokens"] - cached + usage["completion_tokens"] - 1
    assert counts[1][1] <= 4 < counts[0][1]
    assert answer.headers["x-ratelimit-limit-tokens"] == "100000"
    assert 0 < int(answer.headers["x-ratelimit-remaining-tokens"]) <= 100_000


def test_a_tenant_in_debt_waits_until_it_is_paid(ann: House) -> None:
    limit(ann, tokens_per_minute=10)

    assert ask(ann.ann, system="A question that costs more than ten tokens.").status_code == 200
    refused = ask(ann.ann)

    assert refused.status_code == 429
    assert "10 tokens a minute" in refused.json()["error"]["message"]
    assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
    assert int(refused.headers["retry-after"]) > 60


def test_the_months_budget_ends_at_its_end(ann: House) -> None:
    limit(ann, tokens_per_month=1)

    ask(ann.ann, system="The last one of the month.")
    refused = ask(ann.ann)

    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert 0 < int(refused.headers["retry-after"]) <= 31 * 86_400


def test_a_streams_place_is_given_back_when_its_client_goes(ann: House) -> None:
    limit(ann, concurrent_requests=1)
    ann.pace.hold()
    with ann.ann.stream(
        "POST",
        "/v1/chat/completions",
        json={
            "model": "scripted",
            "messages": [{"role": "user", "content": "novel"}],
            "stream": True,
        },
    ) as stream:
        assert stream.status_code == 200
        refused = ask(ann.ann)
        ann.pace.go()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["code"] == "concurrency_limit_exceeded"
    wait_until(lambda: ann.idle)
    wait_until(lambda: ask(ann.ann).status_code == 200)


def test_several_answers_to_one_request_count_each(ann: House) -> None:
    limit(ann, concurrent_requests=2)

    assert ask(ann.ann, n=2).status_code == 200
    never = ask(ann.ann, n=3)

    assert never.status_code == 400
    assert never.json()["error"]["param"] == "n"


def test_a_request_that_was_refused_leaves_no_place_taken(ann: House) -> None:
    limit(ann, concurrent_requests=1)
    for _ in range(3):
        assert ask(ann.ann, system="x" * 200_000).status_code == 400

    assert ask(ann.ann).status_code == 200


def test_answers_end_at_the_tenants_length(ann: House) -> None:
    limit(ann, max_tokens=2)
    for asked in (None, 1000):
        body = {} if asked is None else {"max_tokens": asked}
        answer = ann.ann.post(
            "/v1/chat/completions",
            json={
                "model": "scripted",
                "messages": [{"role": "user", "content": "novel"}],
                **body,
            },
        ).json()
        assert answer["usage"]["completion_tokens"] == 2
        assert answer["choices"][0]["finish_reason"] == "length"


def test_a_class_above_the_tenants_is_refused_and_the_usual_one_lowered(ann: House) -> None:
    limit(ann, max_priority="batch")

    usual = ask(ann.ann)
    refused = ask(ann.ann, headers={"x-agentkit-priority": "interactive"})

    assert usual.status_code == 200
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "priority_not_allowed")
    assert ask(ann.ann, headers={"x-agentkit-priority": "batch"}).status_code == 200


def test_a_revoked_key_is_refused_at_once(house: House) -> None:
    made = house.store.add(roles=frozenset({"user"}), tenant="ann", now_s=0.0)
    headers = {"Authorization": f"Bearer {made.key}"}

    assert ask(house.nobody, headers=headers).status_code == 200
    house.store.revoke(made.record.id, now_s=1.0)
    assert ask(house.nobody, headers=headers).status_code == 401


def test_pins_are_held_to_the_tenants_quota(ann: House) -> None:
    limit(ann, pinned_tokens=5)
    body = {"messages": [{"role": "system", "content": "Pinned rules of ann."}], "pin": True}

    refused = ann.ann.post("/v1/agentkit/prewarm", json=body)

    assert refused.status_code == 409
    assert "its limit is 5" in refused.json()["error"]["message"]
    limit(ann)
    assert ann.ann.post("/v1/agentkit/prewarm", json=body).status_code == 200


# -- as the official clients see it ------------------------------------------------------------


def test_openais_client_reads_refusals_and_headers(ann: House) -> None:
    limit(ann, requests_per_minute=1)
    client = openai.OpenAI(
        base_url=f"{ann.url}/v1", api_key=ann.keys["ann"], max_retries=0, timeout=BOUND_S
    )
    messages: list = [{"role": "user", "content": "hello"}]
    with client:
        raw = client.chat.completions.with_raw_response.create(model="scripted", messages=messages)
        assert raw.headers["x-ratelimit-limit-requests"] == "1"
        with pytest.raises(openai.RateLimitError) as limited:
            client.chat.completions.create(model="scripted", messages=messages)
    assert limited.value.code == "rate_limit_exceeded"
    with openai.OpenAI(base_url=f"{ann.url}/v1", api_key="sk-wrong", max_retries=0) as wrong:
        with pytest.raises(openai.AuthenticationError) as refused:
            wrong.models.list()
    assert refused.value.code == "invalid_api_key"


def test_anthropics_client_reads_refusals_and_headers(ann: House) -> None:
    limit(ann, requests_per_minute=1)
    client = anthropic.Anthropic(
        base_url=ann.url, api_key=ann.keys["ann"], max_retries=0, timeout=BOUND_S
    )
    messages: list = [{"role": "user", "content": "hello"}]
    with client:
        raw = client.messages.with_raw_response.create(
            model="scripted", messages=messages, max_tokens=3
        )
        assert raw.headers["anthropic-ratelimit-requests-limit"] == "1"
        assert raw.headers["anthropic-ratelimit-requests-remaining"] == "0"
        reset = raw.headers["anthropic-ratelimit-requests-reset"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", reset)
        with pytest.raises(anthropic.RateLimitError) as limited:
            client.messages.create(model="scripted", messages=messages, max_tokens=3)
    assert limited.value.body["error"]["type"] == "rate_limit_error"
    with anthropic.Anthropic(base_url=ann.url, api_key="sk-ant-wrong", max_retries=0) as wrong:
        with pytest.raises(anthropic.AuthenticationError) as refused:
            wrong.messages.create(model="scripted", messages=messages, max_tokens=3)
    assert refused.value.body["error"]["type"] == "authentication_error"
