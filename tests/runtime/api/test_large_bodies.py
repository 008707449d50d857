"""Large bodies are decoded beside the event loop, and as small ones are."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentkit_runtime.api import large, patient_json
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.api.patient_json import _Reader, loads
from tests.runtime.api.serving import Served
from tests.runtime.service.scripted import BOUND_S, wait_until

ASKED = [{"role": "user", "content": "hello"}]
PADDING = "x" * (large.LARGE_BYTES + 1)
ENDPOINTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": ASKED}),
    ("/v1/chat/completions/render", {"messages": ASKED}),
    ("/v1/completions", {"prompt": "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"}),
    ("/v1/responses", {"input": "hello"}),
    ("/v1/responses/render", {"input": "hello"}),
    ("/v1/messages", {"messages": ASKED, "max_tokens": 20}),
    ("/v1/messages/count_tokens", {"messages": ASKED}),
    ("/tokenize", {"messages": ASKED}),
]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def post(served: Served, path: str, body: dict[str, Any]) -> httpx2.Response:
    sent = {"model": "scripted", **body}
    return httpx2.post(f"{served.url}{path}", json=sent, timeout=BOUND_S)


@pytest.mark.parametrize(("path", "body"), ENDPOINTS)
def test_a_large_body_is_answered_as_a_small_one(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    small, big = (post(served, path, {**body, "user": user}) for user in ("x", PADDING))

    assert big.status_code == 200, big.text
    for name in ("choices", "output_text", "content", "token_ids", "input_tokens", "tokens"):
        assert big.json().get(name) == small.json().get(name)


@pytest.mark.parametrize(("path", "body"), ENDPOINTS)
def test_what_is_wrong_in_a_large_body_is_named_as_in_a_small_one(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    wrong = dict.fromkeys(body, 5)
    small, big = (post(served, path, {**wrong, "user": user}) for user in ("x", PADDING))

    assert (big.status_code, big.json()) == (400, {**big.json(), "error": small.json()["error"]})


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"user": "' + PADDING.encode(), "the body is not valid JSON"),
        (b'{"user": "\xff' + PADDING.encode() + b'"}', "the body is not valid JSON"),
        (b'{"seed": ' + b"1" * 200_000 + b"}", "the body is not valid JSON"),
        (b"[" * 200_000, "the body is nested deeper than 100 levels"),
        (b'{"a":' * 50_000, "the body is nested too deeply"),
        (b"[" + b"[]," * 250_000 + b"[]]", "more than 200,000 lists and objects; send less"),
        (b"[" + b"0," * 200_000 + b"0]", "the body must be a JSON object"),
        (b'"' + PADDING.encode() + b'"', "the body must be a JSON object"),
    ],
)
def test_large_bodies_that_are_no_request_say_what_they_are(
    served: Served, raw: bytes, said: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = httpx2.post(
        f"{served.url}/v1/chat/completions", content=raw, headers=headers, timeout=BOUND_S
    )
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_a_large_body_without_its_content_type_is_refused(served: Served) -> None:
    body = json.dumps({"model": "scripted", "messages": ASKED, "user": PADDING}).encode()
    answer = httpx2.post(f"{served.url}/v1/chat/completions", content=body, timeout=BOUND_S)
    assert answer.status_code == 400
    assert "Content-Type: application/json" in answer.json()["error"]["message"]


class Held:
    """Stands for the decoding of large bodies, and waits."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.n_inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, raw: bytes) -> object:
        with self._lock:
            self.n_inside += 1
            self.most = max(self.most, self.n_inside)
        assert self.go.wait(BOUND_S), "a test left it held"
        with self._lock:
            self.n_inside -= 1
        return loads(raw)


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    decoding = Held()
    monkeypatch.setattr(large, "loads", decoding)
    try:
        yield decoding
    finally:
        decoding.go.set()


def test_others_are_answered_while_a_large_body_is_decoded_and_one_tenant_has_one_turn(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the event loop read 16 MB, and all streams stood still."""
    body = {"messages": ASKED, "user": PADDING}
    with held(monkeypatch) as decoding, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(post, served, "/v1/chat/completions", body) for _ in range(3)]
        wait_until(lambda: decoding.n_inside == 1 and served.n_handlers == 3)
        assert post(served, "/v1/chat/completions", {"messages": ASKED}).status_code == 200
        decoding.go.set()
        assert [answer.result().status_code for answer in asked] == [200] * 3
    assert decoding.most == 1


def test_large_bodies_that_wait_are_bounded_in_bytes_for_a_tenant_and_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large, "TENANT_BYTES", 10)
    monkeypatch.setattr(large, "ALL_BYTES", 15)

    async def run() -> None:
        decoding = large.Decoding()
        async with AsyncExitStack() as inside:
            await inside.enter_async_context(decoding.turn("red", 11))  # one is always let in
            for tenant, n_bytes in (("red", 1), ("blue", 5)):
                with pytest.raises(ApiError, match="too many large bodies") as refused:
                    await inside.enter_async_context(decoding.turn(tenant, n_bytes))
                assert refused.value.status == 429
            await inside.enter_async_context(decoding.turn("blue", 4))
        async with decoding.turn("blue", 15):
            pass

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(value=values, indent=st.sampled_from([None, 1]))
def test_the_patient_reader_reads_what_json_reads(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert _Reader(text).whole() == json.loads(text)
    assert loads(text.encode("utf-16")) == value


@settings(max_examples=100, deadline=None)
@given(value=values, data=st.data())
def test_the_patient_reader_refuses_what_json_refuses(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text) - 1))
    broken = text[:at] + data.draw(st.sampled_from(["", ",", "]", "}", '"', ":"])) + text[at + 1 :]
    found: list[object] = []
    for read in (json.loads, lambda text: _Reader(text).whole()):
        try:
            found.append(read(broken))
        except json.JSONDecodeError:
            found.append("refused")
    assert found[0] == found[1]


def test_values_are_counted_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_json, "MAX_VALUES", 4)
    assert _Reader("[1, [2]]").whole() == [1, [2]]
    with pytest.raises(ApiError, match="more than 4 values"):
        _Reader("[1, 2, 3, [4]]").whole()
