"""Stored responses are their tenant's, and bounded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import httpx2
import pytest

from agentkit_runtime.api import create_app
from agentkit_runtime.api.caller import Caller
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.openai.responses.echo import begun_response, input_documents
from agentkit_runtime.api.openai.responses.request import ResponseBody
from agentkit_runtime.api.openai.responses.store import (
    Conversation,
    ResponseStore,
    StoredResponse,
)
from agentkit_runtime.chat import ChatMessage
from tests.runtime.api.serving import Served, serving_app

SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
BODY = ResponseBody(model="m", input="hello")


def stored(response_id: str, n_ids: int = 10) -> StoredResponse:
    nothing = Conversation(front=(None, (), {}), messages=(), ids=())
    return StoredResponse(
        document=begun_response(BODY, response_id=response_id, created_s=1, model="m"),
        input_items=(),
        conversation=nothing.answered(ChatMessage(role="assistant", content="Hi."), range(n_ids)),
    )


def known(store: ResponseStore, tenant: str, *ids: str) -> list[bool]:
    def has(response_id: str) -> bool:
        try:
            store.get(tenant, response_id)
        except ApiError:
            return False
        return True

    return [has(response_id) for response_id in ids]


def test_a_tenants_bound_drops_its_own_oldest_and_nobody_elses() -> None:
    store = ResponseStore(max_bytes_of_tenant=3 * stored("x").weight)
    store.put("bob", stored("b"))
    for name in ("1", "2", "3"):
        store.put("ann", stored(name))
    store.get("ann", "1")  # used last
    store.put("ann", stored("4"))

    assert known(store, "ann", "1", "2", "3", "4") == [True, False, True, True]
    assert known(store, "bob", "b") == [True]


def test_the_bound_of_all_holds_too() -> None:
    store = ResponseStore(max_bytes=2 * stored("x").weight)
    for tenant in ("ann", "bob", "cid"):
        store.put(tenant, stored("r"))

    assert [known(store, tenant, "r") for tenant in ("ann", "bob", "cid")] == [
        [False],
        [True],
        [True],
    ]


def test_a_response_larger_than_the_bound_is_not_kept() -> None:
    store = ResponseStore(max_bytes_of_tenant=1_000)
    store.put("ann", stored("r", n_ids=1_000))

    assert len(store) == 0


def test_all_that_a_client_sends_along_is_weighed() -> None:
    long = "x" * 1_000_000
    bodies = [
        ResponseBody(model="m", input="hello", user=long),
        ResponseBody(model="m", input="hello", instructions=long),
        ResponseBody.model_validate({"model": "m", "input": [{**SAID, "more": [{"k": long}]}]}),
    ]
    for body in bodies:
        whole = dataclasses.replace(
            stored("r"),
            document=begun_response(body, response_id="r", created_s=1, model="m"),
            input_items=input_documents(body.input),
        )
        assert 1_000_000 < whole.weight < 1_100_000

    thought = ChatMessage(role="assistant", content="", reasoning=long)
    kept = stored("r").conversation.answered(thought, ())
    assert dataclasses.replace(stored("r"), conversation=kept).weight > 1_000_000


def test_each_item_of_an_input_has_an_id_of_its_own() -> None:
    sent: list[object] = ["a", "a", None, 5, "b"]
    body = ResponseBody.model_validate(
        {"model": "m", "input": [{**SAID, "id": item_id, "status": None} for item_id in sent]}
    )
    first, *others = input_documents(body.input)
    again = input_documents(body.input, (first, *others))

    ids = [str(item["id"]) for item in (first, *others, *again)]
    assert len(set(ids)) == len(ids)
    assert (ids[0], ids[4]) == ("a", "b"), "ids that name one item are kept"
    assert {item["status"] for item in others} == {"completed"}


def test_forgetting_a_tenant_leaves_the_others() -> None:
    store = ResponseStore()
    store.put("ann", stored("1"))
    store.put("bob", stored("2"))

    assert store.forget("ann") == 1
    assert (known(store, "ann", "1"), known(store, "bob", "2")) == ([False], [True])
    assert store.forget(None) == 1
    assert len(store) == 0


class Names:
    """A key is its tenant's name."""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        return Caller(tenant=headers["authorization"].removeprefix("Bearer "))


@pytest.fixture(scope="module")
def url(served: Served) -> Iterator[str]:
    with serving_app(create_app(served.service, authenticator=Names())) as (url, _):
        yield f"{url}/v1/responses"


def test_nobody_reads_continues_or_deletes_what_is_anothers(url: str) -> None:
    ann = httpx2.Client(headers={"Authorization": "Bearer ann"})
    bob = httpx2.Client(headers={"Authorization": "Bearer bob"})
    body = {"model": "scripted", "input": "hello"}
    with ann, bob:
        mine: str = ann.post(url, json=body).json()["id"]

        def said(response_id: str) -> list[tuple[int, str]]:
            answers = [
                bob.get(f"{url}/{response_id}"),
                bob.get(f"{url}/{response_id}/input_items"),
                bob.delete(f"{url}/{response_id}"),
                bob.post(f"{url}/{response_id}/cancel"),
                bob.post(url, json={**body, "previous_response_id": response_id}),
            ]
            return [
                (answer.status_code, answer.text.replace(response_id, "ID")) for answer in answers
            ]

        made_up = f"resp_{'0' * 32}"
        assert said(mine) == said(made_up)
        assert {status for status, _ in said(mine)} == {404}
        assert ann.get(f"{url}/{mine}").status_code == 200
