"""What each endpoint must not tell one tenant of another: a case for every route.

`leave_traces` lets ann do everything that leaves something behind. A case then does as bob whatever
could find it: the same prompt, ann's labels and salts, ann's ids and handles. Bob's own cache is
empty before each case. A new endpoint without a case fails `test_isolation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from agentkit_runtime.chat import ChatFinished, ChatMessage, ChatRequest
from agentkit_runtime.types import SamplingParams
from agentkit_runtime.wire_chat import (
    CHAT_PATH,
    INFO_PATH,
    WARM_PATH,
    chat_json,
    event_from_json,
    warm_json,
)
from tests.runtime.tenancy.house import House, ask, chat_body

SECRET = "Ann's secret is the word xylophone, and nobody else may know it."
SESSION, TAG = "ann-session", "ann-tag"
LABELS = {
    "x-session-id": SESSION,
    "x-smg-routing-key": SESSION,
    "x-agentkit-tags": TAG,
}
SALTS: dict[str, Any] = {
    "prompt_cache_key": SESSION,
    "user": "ann",
    "cache_salt": "ann",
    "safety_identifier": "ann",
    "metadata": {"tenant": "ann"},
    "tenant": "ann",
}
"""What callers could choose: none of it is a boundary, and none of it opens one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What ann has left behind."""

    response_id: str
    pin: str
    ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The house, and what ann has left in it."""

    house: House
    traces: Traces

    @property
    def bob(self) -> httpx2.Client:
        return self.house.bob


def leave_traces(house: House) -> Traces:
    """Ann asks in every dialect, pins, and keeps a response. Her words are warm afterwards."""
    ann = house.ann
    for _ in range(2):
        answer = ask(ann, system=SECRET, headers=LABELS, **SALTS)
        assert answer.status_code == 200, answer.text
    assert _cached(answer) > 20
    assert _message(ann).status_code == 200
    assert ann.post("/v1/completions", json=_completion()).status_code == 200
    response = ann.post("/v1/responses", json=_response())
    assert response.status_code == 200, response.text
    pinned = ann.post("/v1/agentkit/prewarm", json={**_front(), "pin": True, "name": "ann's"})
    assert pinned.status_code == 200, pinned.text
    ids = ann.post("/v1/chat/completions/render", json=chat_body(system=SECRET)).json()["token_ids"]
    (pin, *_) = ann.get("/v1/agentkit/pins").json()["data"]
    return Traces(response_id=response.json()["id"], pin=pin["handle"], ids=ids)


def still_there(scene: Scene) -> None:
    """Whatever bob did: ann's prefix is warm, her pin and her response are hers."""
    ann = scene.house.ann
    assert _cached(ask(ann, system=SECRET)) > 20
    handles = [pin["handle"] for pin in ann.get("/v1/agentkit/pins").json()["data"]]
    assert scene.traces.pin in handles
    assert ann.get(f"/v1/responses/{scene.traces.response_id}").status_code == 200


# -- endpoints that answer ---------------------------------------------------------------------


def chat_completions(scene: Scene) -> None:
    found = ask(scene.bob, system=SECRET, headers=LABELS, **SALTS)
    assert found.status_code == 200, found.text
    assert _cached(found) == 0
    fresh = ask(scene.bob, system=f"{SECRET} And bob's own.", stream=True, headers=LABELS)
    assert fresh.status_code == 200


def messages(scene: Scene) -> None:
    usage = _message(scene.bob).json()["usage"]
    assert usage["cache_read_input_tokens"] == 0


def responses(scene: Scene) -> None:
    document = scene.bob.post("/v1/responses", json=_response()).json()
    assert document["usage"]["input_tokens_details"]["cached_tokens"] == 0
    stolen = scene.bob.post(
        "/v1/responses",
        json=_response() | {"previous_response_id": scene.traces.response_id},
    )
    _not_found(
        stolen,
        scene.bob.post(
            "/v1/responses", json=_response() | {"previous_response_id": "resp_" + "0" * 32}
        ),
        scene.traces.response_id,
        "resp_" + "0" * 32,
    )


def _same_as_unknown(method: str, path: str) -> Callable[[Scene], None]:
    """Ann's response, finished or in the background, is to bob as one that never was."""

    def case(scene: Scene) -> None:
        ann, unknown = scene.house.ann, "resp_" + "0" * 32
        endless = _response() | {"input": "novel", "background": True, "max_output_tokens": None}
        goes_on = ann.post("/v1/responses", json=endless).json()["id"]
        for theirs in (scene.traces.response_id, goes_on):
            found = scene.bob.request(method, path.format(theirs))
            _not_found(found, scene.bob.request(method, path.format(unknown)), theirs, unknown)
        # Nor has bob ended it.
        assert ann.get(f"/v1/responses/{goes_on}").json()["status"] in ("queued", "in_progress")
        assert ann.post(f"/v1/responses/{goes_on}/cancel").json()["status"] == "cancelled"

    return case


def completions(scene: Scene) -> None:
    for prompt in (f"{SECRET} hello", scene.traces.ids):
        document = scene.bob.post("/v1/completions", json=_completion(prompt)).json()
        details = document["usage"].get("prompt_tokens_details") or {"cached_tokens": 0}
        assert details["cached_tokens"] == 0, prompt


# -- endpoints that compute nothing ------------------------------------------------------------


def _same_for_both(method: str, path: str, body: object = None) -> Callable[[Scene], None]:
    """The answer depends on the request alone: ann and bob get the same, before and after."""

    def case(scene: Scene) -> None:
        answers = [
            client.request(method, path, json=body)
            if body is not None
            else client.request(method, path)
            for client in (scene.house.ann, scene.bob)
        ]
        assert answers[0].status_code == answers[1].status_code == 200, answers[1].text
        assert answers[0].json() == answers[1].json()
        assert "xylophone" not in answers[1].text or body is not None

    return case


def server_loads(path: str) -> Callable[[Scene], None]:
    """Numbers of the whole server: not for tenants, or without anything of one of them."""

    def case(scene: Scene) -> None:
        answer = scene.bob.get(path)
        assert answer.status_code in (200, 403)
        assert "ann" not in answer.text.replace("cannot", "").replace("channel", "")

    return case


def render_response(scene: Scene) -> None:
    answers = [
        client.post("/v1/responses/render", json=_response())
        for client in (scene.house.ann, scene.bob)
    ]
    assert answers[0].status_code == 200, answers[0].text
    assert answers[0].text == answers[1].text
    theirs, unknown = scene.traces.response_id, "resp_" + "0" * 32
    found = [
        scene.bob.post("/v1/responses/render", json=_response() | {"previous_response_id": name})
        for name in (theirs, unknown)
    ]
    _not_found(found[0], found[1], theirs, unknown)


# -- one's own ---------------------------------------------------------------------------------


def prewarm(scene: Scene) -> None:
    document = scene.bob.post("/v1/agentkit/prewarm", json=_front()).json()
    assert document["cached_tokens"] == 0


def pins(scene: Scene) -> None:
    assert scene.bob.get("/v1/agentkit/pins").json()["data"] == []


def remove_pin(scene: Scene) -> None:
    theirs, unknown = scene.traces.pin, "pin-" + "0" * 32
    _not_found(
        scene.bob.delete(f"/v1/agentkit/pins/{theirs}"),
        scene.bob.delete(f"/v1/agentkit/pins/{unknown}"),
        theirs,
        unknown,
    )


def prune(scene: Scene) -> None:
    nothing = {"freed_tokens": 0, "condemned_tokens": 0, "nodes": 0, "pins": 0}
    selectors: list[dict[str, Any]] = [
        {"by": "tenant"},
        {"by": "session", "session": SESSION},
        {"by": "tag", "tag": TAG},
        {"by": "prefix", **_front()},
    ]
    for selector in selectors:
        for dry_run in (True, False):
            answer = scene.bob.post("/v1/agentkit/prune", json={**selector, "dry_run": dry_run})
            assert answer.status_code == 200, answer.text
            assert answer.json() == {**nothing, "dry_run": dry_run}
    theirs, unknown = (
        scene.bob.post("/v1/agentkit/prune", json={"by": "pin", "pin": handle})
        for handle in (scene.traces.pin, "pin-" + "0" * 32)
    )
    assert (theirs.status_code, theirs.text) == (unknown.status_code, unknown.text)


def hints(scene: Scene) -> None:
    for hint in (
        {"kind": "done", "session": SESSION},
        {"kind": "waits", "session": SESSION, "seconds": 60},
        {"kind": "likely_next", "tags": [TAG], "seconds": 60},
    ):
        answers = [
            scene.bob.post("/v1/agentkit/hints", json=hint | changes)
            for changes in ({}, {"session": "nobodys"} if "session" in hint else {"tags": ["none"]})
        ]
        assert answers[0].status_code == 200, answers[0].text
        assert answers[0].text == answers[1].text


def explain(scene: Scene) -> None:
    body = chat_body(system=f"{SECRET} explained")
    answer = scene.bob.post("/v1/agentkit/explain", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json().get("cached_tokens", 0) == 0


def own_chat(scene: Scene) -> None:
    """The labels and the ids are ann's, the tenant is not."""
    reply = ChatMessage(role="assistant", content="Hello.", token_ids=tuple(scene.traces.ids))
    asked = _chat(ChatMessage(role="user", content="hello"))
    for request in (asked, _chat(asked.messages[1], reply, asked.messages[1])):
        found = scene.bob.post(CHAT_PATH, content=chat_json(request))
        assert found.status_code == 200, found.text
        told = [line for line in found.text.split("\n") if line.startswith("data: ")]
        finished = event_from_json(told[-1].removeprefix("data: "))
        assert isinstance(finished, ChatFinished)
        assert finished.stats.cached_tokens == 0
        scene.house.root.post("/admin/v1/flush", json={"tenant": "bob"})


def warm(scene: Scene) -> None:
    found = scene.bob.post(WARM_PATH, content=warm_json(_chat()))
    assert found.status_code == 200, found.text
    assert found.json()["cached_tokens"] == 0


def last_requests(scene: Scene) -> None:
    ask(scene.bob, headers=LABELS)
    rows = scene.bob.get("/v1/agentkit/requests").json()["requests"]
    assert rows, "bob's own requests are here"
    assert {row["tenant"] for row in rows} == {"bob"}
    own = scene.house.ann.get("/v1/agentkit/requests").json()["requests"]
    assert {row["tenant"] for row in own} == {"ann"}


CASES: dict[tuple[str, str], Callable[[Scene], None]] = {
    ("POST", "/v1/chat/completions"): chat_completions,
    ("POST", "/v1/messages"): messages,
    ("POST", "/v1/responses"): responses,
    ("GET", "/v1/responses/{response_id}"): _same_as_unknown("GET", "/v1/responses/{}"),
    ("DELETE", "/v1/responses/{response_id}"): _same_as_unknown("DELETE", "/v1/responses/{}"),
    ("GET", "/v1/responses/{response_id}/input_items"): _same_as_unknown(
        "GET", "/v1/responses/{}/input_items"
    ),
    ("POST", "/v1/responses/{response_id}/cancel"): _same_as_unknown(
        "POST", "/v1/responses/{}/cancel"
    ),
    ("POST", "/v1/completions"): completions,
    ("GET", "/v1/models"): _same_for_both("GET", "/v1/models"),
    ("GET", "/v1/models/{model_id:path}"): _same_for_both("GET", "/v1/models/scripted"),
    ("POST", "/v1/messages/count_tokens"): _same_for_both(
        "POST",
        "/v1/messages/count_tokens",
        {"model": "scripted", "system": SECRET, "messages": [{"role": "user", "content": "hello"}]},
    ),
    ("POST", "/tokenize"): _same_for_both("POST", "/tokenize", {"prompt": SECRET}),
    ("POST", "/detokenize"): _same_for_both("POST", "/detokenize", {"tokens": [1, 2, 3]}),
    ("POST", "/v1/chat/completions/render"): _same_for_both(
        "POST", "/v1/chat/completions/render", chat_body(system=SECRET)
    ),
    ("POST", "/v1/responses/render"): render_response,
    ("POST", "/v1/completions/render"): _same_for_both(
        "POST", "/v1/completions/render", {"model": "scripted", "prompt": SECRET}
    ),
    ("POST", "/v1/agentkit/prewarm"): prewarm,
    ("GET", "/v1/agentkit/pins"): pins,
    ("DELETE", "/v1/agentkit/pins/{handle}"): remove_pin,
    ("POST", "/v1/agentkit/prune"): prune,
    ("POST", "/v1/agentkit/hints"): hints,
    ("POST", "/v1/agentkit/explain"): explain,
    ("GET", "/v1/agentkit/requests"): last_requests,
    ("POST", CHAT_PATH): own_chat,
    ("POST", WARM_PATH): warm,
    ("GET", INFO_PATH): _same_for_both("GET", INFO_PATH),
    ("GET", "/server_info"): server_loads("/server_info"),
    ("GET", "/model_info"): server_loads("/model_info"),
    ("GET", "/v1/loads"): server_loads("/v1/loads"),
}
"""By method and path. Admins' endpoints have one rule for all: no tenant's key opens them."""

OPEN = frozenset({"/live", "/ready", "/health"})
NOBODYS = frozenset({"/openapi.json"})
"""The same for everybody with a key."""


def all_routes(routes: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Method and path of every route, whatever it was included by."""
    for route in routes:  # type: ignore[attr-defined]
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from all_routes(included.routes, prefix + route.include_context.prefix)
        else:
            for method in route.methods - {"HEAD"}:
                yield method, prefix + route.path


def _chat(*messages: ChatMessage) -> ChatRequest:
    system = ChatMessage(role="system", content=SECRET)
    sampling = SamplingParams(max_tokens=4)
    return ChatRequest(
        messages=(system, *messages),
        session=SESSION,
        tags=frozenset({TAG}),
        tenant="ann",
        sampling=sampling,
    )


def _front() -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": SECRET}]}


def _completion(prompt: object = f"{SECRET} hello") -> dict[str, Any]:
    return {"model": "scripted", "prompt": prompt, "max_tokens": 0, "echo": True}


def _response() -> dict[str, Any]:
    return {
        "model": "scripted",
        "instructions": SECRET,
        "input": "hello",
        "max_output_tokens": 16,
        "prompt_cache_key": SESSION,
    }


def _message(client: httpx2.Client) -> httpx2.Response:
    system = [{"type": "text", "text": SECRET, "cache_control": {"type": "ephemeral"}}]
    return client.post(
        "/v1/messages",
        json={
            "model": "scripted",
            "max_tokens": 4,
            "system": system,
            "messages": [{"role": "user", "content": "hello"}],
            "metadata": {"user_id": "ann"},
        },
    )


def _cached(answer: httpx2.Response) -> int:
    return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


def _not_found(
    theirs: httpx2.Response, unknown: httpx2.Response, their_id: str, unknown_id: str
) -> None:
    """What is another's looks exactly like what never was."""
    assert theirs.status_code == unknown.status_code
    assert theirs.status_code in (400, 404), theirs.text
    assert theirs.text.replace(their_id, "ID") == unknown.text.replace(unknown_id, "ID")
