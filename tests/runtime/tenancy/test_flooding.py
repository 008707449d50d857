"""What wants no answer counts among the requests a minute, too, and what can never fit says so."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentkit_runtime.tenancy.terms import UNLIMITED, Terms
from tests.runtime.service.scripted import BOUND_S, wait_until
from tests.runtime.tenancy.house import House, ask, chat_body

PROMPT = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
CHAT = chat_body("hello")
CONVERSATION = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
LOOKS: list[tuple[str, dict[str, Any]]] = [
    ("/tokenize", {"prompt": "hello"}),
    ("/detokenize", {"tokens": [1]}),
    ("/v1/chat/completions/render", CHAT),
    ("/v1/completions/render", {"model": "scripted", "prompt": "hello"}),
    ("/v1/responses/render", {"model": "scripted", "input": "hello"}),
    ("/v1/messages/count_tokens", CONVERSATION),
    ("/v1/agentkit/explain", CHAT),
]


@pytest.fixture
def ann(house: House) -> Iterator[House]:
    """The house, with terms of ann's that end with the test, and what she used of them, too."""
    yield house
    house.store.set_terms("ann", UNLIMITED)
    assert house.ann.get("/v1/models").status_code == 200  # the server has seen it


@pytest.mark.parametrize(("path", "body"), LOOKS)
def test_requests_for_tokens_count_among_those_a_minute(
    ann: House, path: str, body: dict[str, Any]
) -> None:
    """Fault: a tenant could keep all threads busy with them, whatever its limits were."""
    ann.store.set_terms("ann", Terms(requests_per_minute=2))

    answers = [ann.ann.post(path, json=body) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429], answers[0].text
    assert 25 <= int(answers[2].headers["retry-after"]) <= 30
    assert ann.ann.post("/v1/chat/completions", json=CHAT).status_code == 429
    assert ann.bob.post(path, json=body).status_code == 200


def test_more_prompts_than_a_tenant_may_have_at_a_time_can_never_run(ann: House) -> None:
    """Fault: 429 for ever, to clients that come again as they are told to."""
    ann.store.set_terms("ann", Terms(concurrent_requests=3))

    def complete(n_prompts: int, n: int) -> Any:
        body = {"model": "scripted", "prompt": [PROMPT] * n_prompts, "n": n, "max_tokens": 2}
        return ann.ann.post("/v1/completions", json=body)

    for refused, total in (((4, 1), 4), ((2, 2), 4)):
        answer = complete(*refused)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "prompt")
        assert f"{total} answers are more" in error["message"]
        assert "at a time, 3;" in error["message"]
    assert complete(3, 1).status_code == 200
    assert ann.idle


def test_prompts_of_one_request_count_as_one_and_share_what_is_left(ann: House) -> None:
    """They came in one by one, and those behind found what the first ones had set aside."""
    ann.store.set_terms("ann", Terms(requests_per_minute=1, tokens_per_minute=60))
    body = {"model": "scripted", "prompt": [PROMPT] * 4, "max_tokens": 20}

    answers = [ann.ann.post("/v1/completions", json=body) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429], answers[0].text
    assert len(answers[0].json()["choices"]) == 4


def test_more_answers_than_may_wait_are_refused_for_good(house: House) -> None:
    body = {"model": "scripted", "prompt": ["hello"] * 128, "n": 2, "max_tokens": 1}
    answer = house.bob.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert (
        "256 answers at once are more than may wait here, 244 " in answer.json()["error"]["message"]
    )
    assert house.idle


def test_requests_that_come_during_a_step_are_seen_to_wait(house: House) -> None:
    """Fault: as many as came during one long step were let in, whatever the queue's limit was."""
    house.pace.hold()
    with ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(ask, house.ann)]
        try:
            assert house.pace.waiting.wait(BOUND_S)
            asked += [clients.submit(ask, house.bob, system=f"{n} asks.") for n in range(3)]
            wait_until(lambda: house.service.stats().waiting >= 3)
        finally:
            house.pace.go()
        assert [one.result().status_code for one in asked] == [200] * 4
    wait_until(lambda: house.idle)
